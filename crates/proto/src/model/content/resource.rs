//! Resources in content: embedded, or as a link.

use super::{Annotations, Blob, Meta};
use crate::text::prefix;

/// A resource and its contents.
///
/// ```
/// use mcp_flow_proto::model::{Content, ResourceContents};
///
/// let page = ResourceContents::text("file:///a.html", "<p>hi").with_mime_type("text/html");
/// let wire = serde_json::to_string(&Content::embedded(page)).unwrap();
/// assert_eq!(
///     wire,
///     r#"{"type":"resource","resource":{"uri":"file:///a.html","mimeType":"text/html","text":"<p>hi"}}"#
/// );
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceContents {
    /// URI of the resource; [`INLINE_URI`](Self::INLINE_URI) if it has none.
    pub uri: String,
    /// MIME type of the contents.
    pub mime_type: Option<String>,
    /// The contents.
    pub body: ResourceBody,
    /// Additional members.
    pub meta: Option<Box<Meta>>,
}

/// The contents of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResourceBody {
    /// Text.
    Text(String),
    /// Bytes.
    Blob(Blob),
    /// Contents sent on the execution stream with this tag, on `/mcp-flow` only (C-50).
    Stream(u32),
}

impl ResourceBody {
    /// Returns the size of the contents in memory.
    pub fn len(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Blob(blob) => blob.0.len(),
            Self::Stream(_) => 0,
        }
    }

    /// Returns whether no contents are in memory.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl ResourceContents {
    /// The URI of embedded content that is not an addressable resource.
    ///
    /// The official form requires a URI, and seed 002's form has none.
    pub const INLINE_URI: &'static str = "inline:content";

    /// Creates a resource with text contents.
    pub fn text(uri: impl Into<String>, text: impl Into<String>) -> Self {
        let body = ResourceBody::Text(text.into());
        Self { uri: uri.into(), mime_type: None, body, meta: None }
    }

    /// Creates a resource with binary contents.
    pub fn bytes(uri: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        let body = ResourceBody::Blob(Blob(bytes.into()));
        Self { uri: uri.into(), mime_type: None, body, meta: None }
    }

    /// Creates a resource whose contents are sent on an execution stream.
    pub fn stream(uri: impl Into<String>, tag: u32) -> Self {
        Self { uri: uri.into(), mime_type: None, body: ResourceBody::Stream(tag), meta: None }
    }

    /// Sets the MIME type.
    #[must_use]
    pub fn with_mime_type(mut self, mime_type: impl Into<String>) -> Self {
        self.mime_type = Some(mime_type.into());
        self
    }
}

/// A link to a resource that can be read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResourceLink {
    /// URI of the resource.
    pub uri: String,
    /// Short name for programs.
    pub name: String,
    /// Display name.
    pub title: Option<String>,
    /// Description of the resource.
    pub description: Option<String>,
    /// MIME type of the contents.
    pub mime_type: Option<String>,
    /// Size in bytes, if known.
    pub size: Option<u64>,
    /// Audience and priority.
    pub annotations: Option<Box<Annotations>>,
    /// Additional members.
    pub meta: Option<Box<Meta>>,
}

/// Derives a name from a URI: its last segment, at most 64 characters of it.
pub(super) fn name_of(uri: &str) -> &str {
    let path = uri.split(['?', '#']).next().unwrap_or_default();
    let name = path.rsplit('/').find(|part| !part.is_empty()).unwrap_or(uri);
    prefix(name, 64)
}

#[cfg(test)]
mod tests {
    use super::name_of;

    #[test]
    fn a_uri_gives_a_short_name() {
        for (uri, name) in [
            ("https://a.example/pictures/cat.png?size=2#top", "cat.png"),
            ("resource://example", "example"),
            ("file:///folder/", "folder"),
            ("urn:isbn:1", "urn:isbn:1"),
            ("", ""),
            ("#top", "#top"),
        ] {
            assert_eq!(name_of(uri), name, "{uri}");
        }
        assert_eq!(name_of(&"é".repeat(1000)).chars().count(), 64);
    }
}
