//! Decoding of content in every form peers send (C-25, C-26).
//!
//! MCP and seed 002 use one type name for two things and two names for one. The members decide:
//! `resource`, `data`, `uri`, `url`.

use std::fmt;

use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::resource::name_of;
use super::{Annotations, Blob, Content, Meta, ResourceBody, ResourceContents, ResourceLink};

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor)?.into_content().map_err(D::Error::custom)
    }
}

impl<'de> Deserialize<'de> for ResourceContents {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor)?.into_resource().map_err(D::Error::custom)
    }
}

/// The members of one object, removed as they are read. Unknown members are ignored.
struct Members(Map<String, Value>);

impl Members {
    fn into_content(mut self) -> Result<Content, String> {
        let kind = self.required_text("type", "content")?;
        let annotations = self.annotations()?;
        let meta = self.meta()?;
        Ok(match kind.as_str() {
            "text" => {
                let text = self.required_text("text", "text content")?;
                Content::Text { text, annotations, meta }
            }
            "image" => match (self.blob("data")?, self.text("url")?) {
                (Some(data), url) => {
                    let mime_type = self.required_text("mimeType", "image content with `data`")?;
                    Content::Image { data, mime_type, url, annotations, meta }
                }
                (None, Some(url)) => {
                    let mime_type = self.text("mimeType")?;
                    Content::ImageUrl { url, mime_type, annotations, meta }
                }
                (None, None) => {
                    return Err("image content needs `data` and `mimeType`, or `url`".to_owned());
                }
            },
            "audio" => {
                let data = self.blob("data")?.ok_or("audio content needs `data`")?;
                let mime_type = self.required_text("mimeType", "audio content")?;
                Content::Audio { data, mime_type, annotations, meta }
            }
            "resource" | "embedded" => match self.embedded()? {
                Some(resource) => Content::Resource { resource, annotations, meta },
                None if self.has("uri") => self.into_link(annotations, meta)?,
                None => return Err(format!("{kind} content needs `resource`, `data` or `uri`")),
            },
            "ref/stream" => {
                let tag = self.stream_tag();
                let tag = tag.ok_or("a stream needs `streamTag`, a number of 32 bits")?;
                let mime_type = self.required_text("mimeType", "a stream")?;
                Content::Stream { tag, mime_type, annotations, meta }
            }
            "resource_link" => self.into_link(annotations, meta)?,
            unknown => {
                let start: String = unknown.chars().take(64).collect();
                return Err(format!(
                    "there is no content of type {start:?}; \
                     use text, image, audio, resource, resource_link or ref/stream"
                ));
            }
        })
    }

    /// Reads an embedded resource in the official form, or the bytes in seed 002's form.
    fn embedded(&mut self) -> Result<Option<ResourceContents>, String> {
        if let Some(resource) = self.object("resource")? {
            return Self(resource).into_resource().map(Some);
        }
        let Some(blob) = self.blob("data")? else { return Ok(None) };
        Ok(Some(ResourceContents {
            uri: self.text("uri")?.unwrap_or_else(|| ResourceContents::INLINE_URI.to_owned()),
            mime_type: self.text("mimeType")?,
            body: ResourceBody::Blob(blob),
            meta: None,
        }))
    }

    fn into_resource(mut self) -> Result<ResourceContents, String> {
        let uri = self.required_text("uri", "an embedded resource")?;
        let body = match (self.text("text")?, self.blob("blob")?, self.stream_tag()) {
            (Some(text), ..) => ResourceBody::Text(text),
            (None, Some(blob), _) => ResourceBody::Blob(blob),
            (None, None, Some(tag)) => ResourceBody::Stream(tag),
            (None, None, None) => {
                return Err("an embedded resource needs `text` or `blob`".to_owned());
            }
        };
        Ok(ResourceContents { uri, mime_type: self.text("mimeType")?, body, meta: self.meta()? })
    }

    fn stream_tag(&mut self) -> Option<u32> {
        self.take("streamTag")?.as_u64().and_then(|tag| u32::try_from(tag).ok())
    }

    fn into_link(
        mut self,
        annotations: Option<Box<Annotations>>,
        meta: Option<Box<Meta>>,
    ) -> Result<Content, String> {
        let uri = self.required_text("uri", "a resource link")?;
        let size = match self.take("size") {
            Some(size) => Some(size.as_u64().ok_or("`size` must be a whole number")?),
            None => None,
        };
        Ok(Content::ResourceLink(Box::new(ResourceLink {
            // Links in the form of seed 002 have no name.
            name: self.text("name")?.unwrap_or_else(|| name_of(&uri).to_owned()),
            title: self.text("title")?,
            description: self.text("description")?,
            mime_type: self.text("mimeType")?,
            size,
            annotations,
            meta,
            uri,
        })))
    }

    fn annotations(&mut self) -> Result<Option<Box<Annotations>>, String> {
        let Some(value) = self.take("annotations") else { return Ok(None) };
        serde_json::from_value(value).map(|hints| Some(Box::new(hints))).map_err(|_| {
            "`annotations` must be an object with `audience` (a list of \"user\" and \
             \"assistant\"), `priority` (a number) and `lastModified` (a string), or some of them"
                .to_owned()
        })
    }

    fn meta(&mut self) -> Result<Option<Box<Meta>>, String> {
        self.object("_meta").map(|meta| meta.map(Box::new))
    }

    fn required_text(&mut self, name: &str, of: &str) -> Result<String, String> {
        self.text(name)?.ok_or_else(|| format!("{of} needs `{name}`"))
    }

    fn text(&mut self, name: &str) -> Result<Option<String>, String> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(format!("`{name}` must be a string")),
        }
    }

    fn blob(&mut self, name: &str) -> Result<Option<Blob>, String> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let blob = Blob::from_base64(&text);
        blob.map(Some).map_err(|error| format!("`{name}` must be base64: {error}"))
    }

    fn object(&mut self, name: &str) -> Result<Option<Map<String, Value>>, String> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Object(members)) => Ok(Some(members)),
            Some(_) => Err(format!("`{name}` must be an object")),
        }
    }

    fn has(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(|value| !value.is_null())
    }

    /// Removes a member; `null` counts as absent.
    fn take(&mut self, name: &str) -> Option<Value> {
        self.0.remove(name).filter(|value| !value.is_null())
    }
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Members;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Members, A::Error> {
        let mut members = Map::new();
        while let Some((name, value)) = access.next_entry::<String, Value>()? {
            // It would be ambiguous which of the two values counts.
            if members.insert(name, value).is_some() {
                return Err(A::Error::custom("a member appears twice"));
            }
        }
        Ok(Members(members))
    }
}
