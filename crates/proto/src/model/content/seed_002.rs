//! Seed 002's form of content, where it differs from MCP's (C-25, C-26, C-40): encoding for clients
//! that know no other, and conversion to the official form.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::wire::{WireContent, file};
use super::{Content, ResourceBody, ResourceContents};
use crate::revision::Features;

impl Content {
    /// Converts a content block from seed 002's form to the official one: a resource by its `uri`, an
    /// embedded one by its `data`. An image by its `url` has no official form; it becomes a link,
    /// unless it is a data URL. All other blocks stay as they are.
    ///
    /// ```
    /// use mcp_flow_proto::model::Content;
    /// use serde_json::json;
    ///
    /// let link = json!({"type": "resource", "uri": "file:///a.txt"});
    /// assert_eq!(Content::official_form(&link)["type"], "resource_link");
    /// ```
    pub fn official_form(block: &Value) -> Cow<'_, Value> {
        let lacks = |member: &str| block[member].is_null();
        let url = block["url"].as_str().unwrap_or_default();
        if block["type"] == "image"
            && lacks("data")
            && let Some((kind, data)) =
                url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"))
        {
            return Cow::Owned(json!({"type": "image", "mimeType": kind, "data": data}));
        }
        let is_of_seed_002 = match block["type"].as_str() {
            Some("image") => lacks("data"),
            Some("resource") => lacks("resource"),
            Some("embedded") => true,
            _ => false,
        };
        let read = is_of_seed_002.then(|| serde_json::from_value::<Self>(block.clone()).ok());
        match read.flatten().and_then(|content| serde_json::to_value(content).ok()) {
            Some(official) => Cow::Owned(official),
            None => Cow::Borrowed(block),
        }
    }
}

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
