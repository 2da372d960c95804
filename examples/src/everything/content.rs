//! Tools that return one kind of content each, and one that fails.

use mcp_flow::model::ResourceContents;
use mcp_flow::prelude::*;
use mcp_flow::{BadTool, IntoTools};

/// All tools of this module.
pub fn tools() -> Result<Vec<Tool>, BadTool> {
    tools![
        test_simple_text,
        test_image_content,
        test_audio_content,
        test_embedded_resource,
        test_multiple_content_types,
        test_error_handling,
    ]
    .into_tools()
}

/// Returns a text
#[tool(quick)]
fn test_simple_text() -> &'static str {
    "This is a simple text response for testing."
}

/// Returns an image
#[tool(quick)]
fn test_image_content() -> Content {
    image()
}

/// Returns a sound
#[tool(quick)]
fn test_audio_content() -> Content {
    Content::audio(*include_bytes!("silence.wav"), "audio/wav")
}

/// Returns an embedded resource
#[tool(quick)]
fn test_embedded_resource() -> Content {
    let text = "This is an embedded resource content.";
    let resource = ResourceContents::text("test://embedded-resource", text);
    Content::embedded(resource.with_mime_type("text/plain"))
}

/// Returns a text, an image and a resource, in this order
#[tool(quick)]
fn test_multiple_content_types() -> [Content; 3] {
    let text = r#"{"test":"data","value":123}"#;
    let resource = ResourceContents::text("test://mixed-content-resource", text);
    [
        Content::text("Multiple content types test:"),
        image(),
        Content::embedded(resource.with_mime_type("application/json")),
    ]
}

/// Always fails
#[tool(quick)]
fn test_error_handling() -> Result<(), &'static str> {
    Err("This tool intentionally returns an error for testing")
}

/// A single pixel.
pub(super) fn image() -> Content {
    Content::image(*PIXEL, "image/png")
}

pub(super) const PIXEL: &[u8; 70] = include_bytes!("pixel.png");
