//! Resources: how they are listed and read.

use std::borrow::Cow;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::{Annotations, Icon, Meta, ResourceContents, Standing};
use crate::raw::{Params, Raw};
use crate::revision::Revision;

/// A resource as its author describes it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResourceDefinition {
    /// What it is read by.
    pub uri: String,
    /// What it is called.
    pub description: Description,
    /// How many bytes reading it gives, if known.
    pub size: Option<u64>,
}

/// Resources that are alike, by the form of their URIs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TemplateDefinition {
    /// Their URIs, with `{name}` for what differs (RFC 6570).
    pub uri_template: String,
    /// What they are called.
    pub description: Description,
}

/// What resources and templates say of themselves beside their URI.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Description {
    /// Short name.
    pub name: String,
    /// Name for people.
    pub title: Option<String>,
    /// What it is, for a model to choose by.
    pub text: Option<String>,
    /// What kind of content reading it gives.
    pub mime_type: Option<String>,
    /// Pictures to show for it.
    pub icons: Vec<Icon>,
    /// For whom, and how important.
    pub annotations: Option<Box<Annotations>>,
    /// Anything else.
    pub meta: Meta,
}

impl ResourceDefinition {
    /// The definition as a client of this revision knows it.
    ///
    /// ```
    /// use mcp_flow_proto::Revision;
    /// use mcp_flow_proto::model::ResourceDefinition;
    /// use serde_json::json;
    ///
    /// let mut page = ResourceDefinition { uri: "page:/a".into(), ..Default::default() };
    /// page.description.name = "a".into();
    /// page.description.title = Some("Page A".into());
    /// let wire = |revision| serde_json::to_value(page.wire(revision)).unwrap();
    ///
    /// assert_eq!(wire(Revision::V2024_11_05), json!({"uri": "page:/a", "name": "a"}));
    /// assert_eq!(
    ///     wire(Revision::V2025_06_18),
    ///     json!({"uri": "page:/a", "name": "a", "title": "Page A"})
    /// );
    /// ```
    pub fn wire(&self, revision: Revision) -> impl Serialize + '_ {
        WireResource {
            uri: Some(&self.uri),
            size: self.size,
            ..WireResource::new(&self.description, revision)
        }
    }
}

impl TemplateDefinition {
    /// The definition as a client of this revision knows it.
    pub fn wire(&self, revision: Revision) -> impl Serialize + '_ {
        WireResource {
            uri_template: Some(&self.uri_template),
            ..WireResource::new(&self.description, revision)
        }
    }
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct WireResource<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    uri: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uri_template: Option<&'a str>,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mime_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    #[serde(skip_serializing_if = "<[Icon]>::is_empty")]
    icons: &'a [Icon],
    #[serde(skip_serializing_if = "Option::is_none")]
    annotations: Option<&'a Annotations>,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<&'a Meta>,
}

impl<'a> WireResource<'a> {
    fn new(description: &'a Description, revision: Revision) -> Self {
        let features = revision.features();
        let meta = Some(&description.meta);
        Self {
            name: &description.name,
            title: description.title.as_deref().filter(|_| features.titles),
            description: description.text.as_deref(),
            mime_type: description.mime_type.as_deref(),
            icons: if features.icons { &description.icons } else { &[] },
            annotations: description.annotations.as_deref(),
            meta: meta.filter(|meta| features.structured_content && !meta.is_empty()),
            ..Self::default()
        }
    }
}

/// Reads the `uri` that params name a resource by; the error is a sentence naming what is wrong.
pub fn uri_from_params(params: Params<'_>) -> Result<Cow<'_, str>, String> {
    let [uri] = params.members(["uri"]).map_err(|error| error.to_string())?;
    let uri = uri.ok_or("uri is required")?;
    Raw::as_text(uri).ok_or_else(|| "uri must be a string".to_owned())
}

/// What reading a resource gives, as it goes over the wire.
#[derive(Debug)]
pub struct ReadResult<'a> {
    /// Usually one entry.
    pub contents: &'a [ResourceContents],
    /// For whom.
    pub revision: Revision,
    /// What makes it stand alone, under revisions that have results stand alone.
    pub standing: Option<Standing>,
}

impl Serialize for ReadResult<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let standing = self.standing.as_ref().map_or(0, |_| Standing::MEMBERS);
        let mut map = serializer.serialize_map(Some(1 + standing))?;
        let contents: Vec<_> =
            self.contents.iter().map(|entry| entry.wire(self.revision)).collect();
        map.serialize_entry("contents", &contents)?;
        if let Some(standing) = &self.standing {
            standing.write(&mut map)?;
        }
        map.end()
    }
}

/// The params of `notifications/resources/updated`.
#[derive(Debug, Serialize)]
pub struct UpdatedParams<'a> {
    /// Which resource.
    pub uri: &'a str,
    /// Which subscription it is told by, where there are several.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

#[cfg(test)]
mod tests {
    use super::{Description, ResourceDefinition, TemplateDefinition, uri_from_params};
    use crate::model::{Annotations, Icon, Meta};
    use crate::raw::{Params, Raw};
    use crate::revision::Revision;
    use serde_json::json;

    /// PAT-015: what a revision has no place for is left out.
    #[test]
    fn a_definition_follows_the_revision() {
        let description = Description {
            name: "a".to_owned(),
            title: Some("A".to_owned()),
            text: Some("about".to_owned()),
            mime_type: Some("text/plain".to_owned()),
            icons: vec![Icon { src: "data:,".to_owned(), ..Icon::default() }],
            annotations: Some(Box::new(Annotations::default())),
            meta: Meta::from_iter([("x".to_owned(), json!(1))]),
        };
        let resource = ResourceDefinition {
            uri: "x:/a".to_owned(),
            description: description.clone(),
            size: Some(3),
        };
        let template = TemplateDefinition { uri_template: "x:/{a}".to_owned(), description };
        for revision in Revision::ALL {
            let recent = revision >= Revision::V2025_06_18;
            let newer = revision >= Revision::V2025_11_25;
            let resource = serde_json::to_value(resource.wire(revision)).unwrap();
            let template = serde_json::to_value(template.wire(revision)).unwrap();
            assert_eq!((&resource["uri"], &resource["size"]), (&json!("x:/a"), &json!(3)));
            assert_eq!(template["uriTemplate"], "x:/{a}");
            assert_eq!(template.get("uri").or(template.get("size")), None);
            for wire in [resource, template] {
                for (member, is_there) in [
                    ("name", true),
                    ("description", true),
                    ("mimeType", true),
                    ("annotations", true),
                    ("title", recent),
                    ("_meta", recent),
                    ("icons", newer),
                ] {
                    assert_eq!(wire.get(member).is_some(), is_there, "{revision} {member}");
                }
            }
        }
    }

    #[test]
    fn a_uri_is_read_or_its_fault_is_named() {
        for (text, expected) in [
            (r#"{"uri":"x:/a"}"#, Ok("x:/a")),
            ("{}", Err("uri is required")),
            (r#"{"uri":7}"#, Err("uri must be a string")),
            (r#"{"uri":null}"#, Err("uri must be a string")),
        ] {
            let uri = uri_from_params(Params::new(Some(Raw::Json(text))));
            assert_eq!(uri.as_deref().map_err(String::as_str), expected, "{text}");
        }
    }
}
