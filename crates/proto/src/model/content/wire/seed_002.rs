//! Seed 002's form of content, where it differs from MCP's (C-25, C-26, C-40).

use super::{WireContent, file};
use crate::model::{Content, ResourceBody, ResourceContents};
use crate::revision::Features;

/// Returns the content in the form of seed 002; `None` if it is the same as MCP's.
pub(super) fn body(content: &Content, features: Features) -> Option<WireContent<'_>> {
    Some(match content {
        Content::Image { data, mime_type, url, .. } => {
            WireContent { url: url.as_deref(), ..file("image", &data.0, mime_type) }
        }
        Content::ImageUrl { url, mime_type, .. } => {
            let mime_type = mime_type.as_deref();
            WireContent { url: Some(url), mime_type, ..WireContent::of("image") }
        }
        Content::Audio { data, mime_type, .. } if !features.audio => {
            file("embedded", &data.0, mime_type)
        }
        Content::Resource { resource, .. } => embedded(resource),
        Content::ResourceLink(target) => {
            WireContent { uri: Some(&target.uri), ..WireContent::of("resource") }
        }
        Content::Text { .. } | Content::Audio { .. } | Content::Stream { .. } => return None,
    })
}

/// Seed 002 has binary contents only, so text is sent as bytes.
fn embedded(resource: &ResourceContents) -> WireContent<'_> {
    let (bytes, fallback) = match &resource.body {
        ResourceBody::Text(text) => (text.as_bytes(), "text/plain"),
        ResourceBody::Blob(blob) => (&*blob.0, "application/octet-stream"),
        ResourceBody::Stream(_) => (&[][..], "application/octet-stream"),
    };
    file("embedded", bytes, resource.mime_type.as_deref().unwrap_or(fallback))
}
