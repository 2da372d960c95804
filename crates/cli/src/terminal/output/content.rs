//! Content of results as text for people.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mcp_flow::client::model::{Content, ResourceContents};
use serde_json::Value;

use super::sanitize;

/// Formats the pieces of a result. Binary content is described.
pub(crate) fn text(pieces: &[Value]) -> String {
    let texts: Vec<_> = pieces.iter().map(piece).collect();
    texts.join("\n")
}

fn piece(original: &Value) -> String {
    let piece = &*Content::official_form(original);
    let member = |name: &str| piece[name].as_str().map(sanitize).unwrap_or_default();
    match piece["type"].as_str() {
        Some("text") => member("text"),
        Some(kind @ ("image" | "audio")) => {
            format!("[{kind}: {}, {}]", member("mimeType"), size_of_base64(&piece["data"]))
        }
        Some("resource") => contents(&piece["resource"]),
        Some("resource_link") if original["type"] == "image" => {
            format!("[image: {}]", member("uri"))
        }
        Some("resource_link") => {
            let name = piece["title"].as_str().or(piece["name"].as_str()).unwrap_or("resource");
            let size = piece["size"].as_u64().map(|size| format!(", {}", bytes(size)));
            format!("[{}: {}{}]", sanitize(name), member("uri"), size.unwrap_or_default())
        }
        Some("ref/stream") => {
            format!("[{}, sent as a stream; save it with --output DIR]", member("mimeType"))
        }
        // Types of a later revision or of the server's own.
        _ => sanitize(&piece.to_string()),
    }
}

/// Returns whether a piece has to be fetched, so that it can be saved and not shown.
pub(crate) fn is_linked(piece: &Value) -> bool {
    let resource = &piece["resource"];
    match piece["type"].as_str() {
        Some("ref/stream") => true,
        Some("resource") => resource["text"].is_null() && resource["blob"].is_null(),
        _ => false,
    }
}

/// Formats the contents of a resource.
pub(crate) fn contents(resource: &Value) -> String {
    if let Some(text) = text_of(resource) {
        return sanitize(&text);
    }
    let uri = match resource["uri"].as_str() {
        Some(ResourceContents::INLINE_URI) => "embedded".to_owned(),
        uri => uri.map(sanitize).unwrap_or_default(),
    };
    let kind = resource["mimeType"].as_str().map(sanitize);
    let kind = kind.unwrap_or_else(|| "unknown type".to_owned());
    if resource["blob"].is_null() {
        return format!("[{uri}: {kind}, sent apart; save it with --output DIR]");
    }
    format!("[{uri}: {kind}, {}]", size_of_base64(&resource["blob"]))
}

/// Returns the text of a resource. Seed 002 sends texts as bytes.
fn text_of(resource: &Value) -> Option<Cow<'_, str>> {
    if let Some(text) = resource["text"].as_str() {
        return Some(text.into());
    }
    let is_inline = resource["uri"] == ResourceContents::INLINE_URI;
    let is_text = resource["mimeType"].as_str().is_some_and(|kind| kind.starts_with("text/"));
    let bytes =
        STANDARD.decode(resource["blob"].as_str().filter(|_| is_inline && is_text)?).ok()?;
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

/// Formats the messages of a prompt with their roles.
pub(crate) fn messages(messages: &[Value]) -> String {
    let one = |message: &Value| {
        let role = message["role"].as_str().map(sanitize).unwrap_or_default();
        let content = &message["content"];
        let pieces = content.as_array().map_or(std::slice::from_ref(content), Vec::as_slice);
        format!("{role}: {}", text(pieces))
    };
    messages.iter().map(one).collect::<Vec<_>>().join("\n\n")
}

fn size_of_base64(data: &Value) -> String {
    let text = data.as_str().unwrap_or_default().trim_end_matches('=');
    bytes(text.len() as u64 * 3 / 4)
}

/// Formats a size for people.
pub(crate) fn bytes(count: u64) -> String {
    indicatif::HumanBytes(count).to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    /// MCP-037, PAT-023, C-25, C-26: every type of content is shown, in the official forms and those
    /// of seed 002, unknown types as JSON, and no control characters reach the terminal.
    #[test]
    fn every_type_of_content_is_shown() {
        for (piece, shown) in [
            (json!({"type": "text", "text": "a\u{1b}[2Jb"}), "a␛[2Jb"),
            (
                json!({"type": "image", "mimeType": "image/png", "data": "AAAA"}),
                "[image: image/png, 3 B]",
            ),
            (
                json!({"type": "audio", "mimeType": "audio/wav", "data": "AA=="}),
                "[audio: audio/wav, 1 B]",
            ),
            (json!({"type": "resource", "resource": {"uri": "a:b", "text": "inside"}}), "inside"),
            (
                json!({"type": "resource", "resource": {"uri": "a:b", "mimeType": "text/plain"}}),
                "[a:b: text/plain, sent apart; save it with --output DIR]",
            ),
            (
                json!({"type": "resource", "resource": {"uri": "a:b", "blob": "AAAA"}}),
                "[a:b: unknown type, 3 B]",
            ),
            (
                json!({"type": "resource_link", "name": "x", "uri": "a:b", "size": 2048}),
                "[x: a:b, 2.00 KiB]",
            ),
            (json!({"type": "image", "url": "https://h/a\u{1b}.png"}), "[image: https://h/a␛.png]"),
            (json!({"type": "resource", "uri": "file:///x/y.txt"}), "[y.txt: file:///x/y.txt]"),
            (
                json!({"type": "embedded", "mimeType": "application/pdf", "data": "AAAA"}),
                "[embedded: application/pdf, 3 B]",
            ),
            (json!({"type": "embedded", "mimeType": "text/plain", "data": "aGkbIQ=="}), "hi␛!"),
            (
                json!({"type": "image", "url": "data:image/png;base64,AAAA"}),
                "[image: image/png, 3 B]",
            ),
            (json!({"type": "embedded", "data": 7}), r#"{"type":"embedded","data":7}"#),
            (json!({"type": "hologram", "depth": 3}), r#"{"type":"hologram","depth":3}"#),
        ] {
            assert_eq!(super::text(std::slice::from_ref(&piece)), shown, "{piece}");
        }
    }
}
