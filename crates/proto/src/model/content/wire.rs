//! Encoding of content by revision, in MCP's form or that of seed 002.
//!
//! Follows C-25, C-26 and C-40. A client never receives a content type its revision lacks, and
//! nothing is fetched to avoid that: content known only by its URL is sent as a link.

use std::borrow::Cow;

use serde::{Serialize, Serializer};

use super::resource::name_of;
use super::{Annotations, Base64, Content, Meta, ResourceBody, ResourceContents, seed_002};
use crate::revision::{Features, Revision};

/// The form in which content is encoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ContentForm {
    /// MCP's form of each revision.
    #[default]
    Official,
    /// The form of seed 002 in every revision, for clients that know no other.
    Seed002,
}

/// Content blocks to encode for a client of one revision.
#[derive(Clone, Copy, Debug)]
pub struct ContentList<'a> {
    /// The content blocks.
    pub items: &'a [Content],
    /// Revision of the client.
    pub revision: Revision,
    /// Form of the content.
    pub form: ContentForm,
}

impl Serialize for ContentList<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.items.iter().map(|item| item.wire(self.revision, self.form)))
    }
}

impl Content {
    /// Returns the content for a client of this revision.
    ///
    /// ```
    /// use mcp_flow_proto::Revision;
    /// use mcp_flow_proto::model::{Content, ContentForm};
    /// use serde_json::json;
    ///
    /// let link = Content::link("file:///a.txt", "a.txt");
    /// let wire = |revision, form| serde_json::to_value(link.wire(revision, form)).unwrap();
    ///
    /// assert_eq!(
    ///     wire(Revision::V2025_06_18, ContentForm::Official),
    ///     json!({"type": "resource_link", "uri": "file:///a.txt", "name": "a.txt"})
    /// );
    /// assert_eq!(
    ///     wire(Revision::V2024_11_05, ContentForm::Official),
    ///     json!({"type": "text", "text": "a.txt: file:///a.txt"})
    /// );
    /// assert_eq!(
    ///     wire(Revision::V2024_11_05, ContentForm::Seed002),
    ///     json!({"type": "resource", "uri": "file:///a.txt"})
    /// );
    /// ```
    pub fn wire(&self, revision: Revision, form: ContentForm) -> impl Serialize + '_ {
        let features = revision.features();
        let (annotations, meta) = self.extras();
        let seed_002 = match form {
            ContentForm::Official => None,
            ContentForm::Seed002 => seed_002::body(self, features),
        };
        let body = seed_002.unwrap_or_else(|| self.body(features));
        WireContent { annotations, meta: meta.filter(|_| features.structured_content), ..body }
    }

    fn body(&self, features: Features) -> WireContent<'_> {
        match self {
            Self::Text { text, .. } => {
                WireContent { text: Some(text.into()), ..WireContent::of("text") }
            }
            Self::Image { data, mime_type, url, .. } => WireContent {
                url: url.as_deref().filter(|_| features.seed_002_members),
                ..file("image", &data.0, mime_type)
            },
            Self::ImageUrl { url, mime_type, .. } => {
                let mime_type = mime_type.as_deref();
                if features.resource_links {
                    WireContent { mime_type, ..link(url, name_of(url)) }
                } else {
                    link_as_text(url, name_of(url))
                }
            }
            Self::Audio { data, mime_type, .. } => {
                if features.audio {
                    file("audio", &data.0, mime_type)
                } else {
                    let blob = Some(Base64(&data.0));
                    let (uri, mime_type) = (ResourceContents::INLINE_URI, Some(&**mime_type));
                    let resource = WireResource { uri, mime_type, blob, ..WireResource::default() };
                    WireContent { resource: Some(resource), ..WireContent::of("resource") }
                }
            }
            Self::Resource { resource, .. } => WireContent {
                resource: Some(WireResource::new(resource, features.structured_content)),
                ..WireContent::of("resource")
            },
            Self::Stream { tag, mime_type, .. } => WireContent {
                stream_tag: Some(*tag),
                mime_type: Some(mime_type),
                ..WireContent::of("ref/stream")
            },
            Self::ResourceLink(target) => {
                if features.resource_links {
                    WireContent {
                        title: target.title.as_deref(),
                        description: target.description.as_deref(),
                        mime_type: target.mime_type.as_deref(),
                        size: target.size,
                        ..link(&target.uri, &target.name)
                    }
                } else {
                    link_as_text(&target.uri, target.title.as_ref().unwrap_or(&target.name))
                }
            }
        }
    }
}

impl Serialize for Content {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.wire(NEWEST, ContentForm::Official).serialize(serializer)
    }
}

impl ResourceContents {
    /// Returns the contents for a client of this revision.
    pub fn wire(&self, revision: Revision) -> impl Serialize + '_ {
        WireResource::new(self, revision.features().structured_content)
    }
}

impl Serialize for ResourceContents {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        WireResource::new(self, NEWEST.features().structured_content).serialize(serializer)
    }
}

/// All members content can have; each type uses a few of them.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WireContent<'a> {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stream_tag: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) text: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) data: Option<Base64<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) url: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) uri: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) title: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) description: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) mime_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) resource: Option<WireResource<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) annotations: Option<&'a Annotations>,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub(super) meta: Option<&'a Meta>,
}

impl WireContent<'_> {
    pub(super) fn of(kind: &'static str) -> Self {
        Self { kind, ..Self::default() }
    }
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WireResource<'a> {
    uri: &'a str,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_tag: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mime_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    blob: Option<Base64<'a>>,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<&'a Meta>,
}

impl<'a> WireResource<'a> {
    fn new(resource: &'a ResourceContents, with_meta: bool) -> Self {
        let ResourceContents { uri, mime_type, body, meta } = resource;
        let meta = meta.as_deref().filter(|_| with_meta);
        let empty = Self { uri, mime_type: mime_type.as_deref(), meta, ..Self::default() };
        match body {
            ResourceBody::Text(text) => Self { text: Some(text), ..empty },
            ResourceBody::Blob(blob) => Self { blob: Some(Base64(&blob.0)), ..empty },
            ResourceBody::Stream(tag) => {
                Self { kind: Some("ref/stream"), stream_tag: Some(*tag), ..empty }
            }
        }
    }
}

pub(super) fn file<'a>(kind: &'static str, bytes: &'a [u8], mime_type: &'a str) -> WireContent<'a> {
    WireContent { data: Some(Base64(bytes)), mime_type: Some(mime_type), ..WireContent::of(kind) }
}

fn link<'a>(uri: &'a str, name: &'a str) -> WireContent<'a> {
    WireContent { uri: Some(uri), name: Some(name), ..WireContent::of("resource_link") }
}

fn link_as_text<'a>(uri: &'a str, name: &str) -> WireContent<'a> {
    let names_itself = name.is_empty() || name == uri;
    let text = if names_itself { uri.into() } else { format!("{name}: {uri}").into() };
    WireContent { text: Some(text), ..WireContent::of("text") }
}

const NEWEST: Revision = Revision::V2026_07_28;
