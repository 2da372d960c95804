//! Resources inside content: embedded whole, or by reference.

use super::{Annotations, Blob, Meta};
use crate::text::prefix;

/// A resource with what it holds.
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
    /// Which resource; [`INLINE_URI`](Self::INLINE_URI) if it is none that has a name.
    pub uri: String,
    /// What kind of content it holds.
    pub mime_type: Option<String>,
    /// What it holds.
    pub body: ResourceBody,
    /// Anything else.
    pub meta: Option<Box<Meta>>,
}

/// What a resource holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResourceBody {
    /// Text.
    Text(String),
    /// Bytes.
    Blob(Blob),
    /// What comes on the execution stream of this tag, on `/mcp-flow` only (C-50).
    Stream(u32),
}

impl ResourceBody {
    /// How many bytes there are of it in memory.
    pub fn len(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Blob(blob) => blob.0.len(),
            Self::Stream(_) => 0,
        }
    }

    /// Whether nothing of it is in memory.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl ResourceContents {
    /// The URI of content that is embedded without being a resource anywhere.
    ///
    /// The official form requires some URI, and seed 002's form has none.
    pub const INLINE_URI: &'static str = "inline:content";

    /// A resource that holds text.
    pub fn text(uri: impl Into<String>, text: impl Into<String>) -> Self {
        let body = ResourceBody::Text(text.into());
        Self { uri: uri.into(), mime_type: None, body, meta: None }
    }

    /// A resource that holds bytes.
    pub fn bytes(uri: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        let body = ResourceBody::Blob(Blob(bytes.into()));
        Self { uri: uri.into(), mime_type: None, body, meta: None }
    }

    /// A resource that comes on a stream.
    pub fn stream(uri: impl Into<String>, tag: u32) -> Self {
        Self { uri: uri.into(), mime_type: None, body: ResourceBody::Stream(tag), meta: None }
    }

    /// The same resource, said to be of this kind.
    #[must_use]
    pub fn with_mime_type(mut self, mime_type: impl Into<String>) -> Self {
        self.mime_type = Some(mime_type.into());
        self
    }
}

/// A reference to a resource that can be read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResourceLink {
    /// Where it is.
    pub uri: String,
    /// Short name for programs.
    pub name: String,
    /// Name for people.
    pub title: Option<String>,
    /// What it is.
    pub description: Option<String>,
    /// What kind of content reading it gives.
    pub mime_type: Option<String>,
    /// How many bytes reading it gives, if known.
    pub size: Option<u64>,
    /// For whom, and how important.
    pub annotations: Option<Box<Annotations>>,
    /// Anything else.
    pub meta: Option<Box<Meta>>,
}

/// A name for a URI that came without one: its last part, at most 64 characters of it.
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
