//! The content of results, as a person reads it.

use serde_json::Value;

use super::neutral;

/// The pieces of a result, one after the other. What cannot be shown as text is told of.
pub(crate) fn text(pieces: &[Value]) -> String {
    let texts: Vec<_> = pieces.iter().map(piece).collect();
    texts.join("\n")
}

fn piece(piece: &Value) -> String {
    let member = |name: &str| piece[name].as_str().map(neutral).unwrap_or_default();
    match piece["type"].as_str() {
        Some("text") => member("text"),
        Some(kind @ ("image" | "audio")) => {
            format!("[{kind}: {}, {}]", member("mimeType"), size_of_base64(&piece["data"]))
        }
        Some("resource") => contents(&piece["resource"]),
        Some("resource_link") => {
            let name = piece["title"].as_str().or(piece["name"].as_str()).unwrap_or("resource");
            let size = piece["size"].as_u64().map(|size| format!(", {}", bytes(size)));
            format!("[{}: {}{}]", neutral(name), member("uri"), size.unwrap_or_default())
        }
        Some("ref/stream") => {
            format!("[{}, too large to show; --output DIR saves it]", member("mimeType"))
        }
        // Kinds of a later revision, or of the server's own: shown as they are.
        _ => neutral(&piece.to_string()),
    }
}

/// What is in a resource.
pub(crate) fn contents(resource: &Value) -> String {
    if let Some(text) = resource["text"].as_str() {
        return neutral(text);
    }
    let uri = resource["uri"].as_str().map(neutral).unwrap_or_default();
    let kind = resource["mimeType"].as_str().map(neutral);
    let kind = kind.unwrap_or_else(|| "of unknown kind".to_owned());
    if resource["blob"].is_null() {
        return format!("[{uri}: {kind}, too large to show; --output DIR saves it]");
    }
    format!("[{uri}: {kind}, {}]", size_of_base64(&resource["blob"]))
}

/// Messages of a prompt: who says what.
pub(crate) fn messages(messages: &[Value]) -> String {
    let one = |message: &Value| {
        let role = message["role"].as_str().map(neutral).unwrap_or_default();
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

/// A size as people say it.
pub(crate) fn bytes(count: u64) -> String {
    indicatif::HumanBytes(count).to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    /// MCP-037, PAT-023: every kind of content is shown, unknown kinds are kept, and nothing in
    /// them reaches the terminal as a command.
    #[test]
    fn every_kind_of_content_is_shown() {
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
                json!({"type": "resource", "resource": {"uri": "a:b", "blob": "AAAA"}}),
                "[a:b: of unknown kind, 3 B]",
            ),
            (
                json!({"type": "resource_link", "name": "x", "uri": "a:b", "size": 2048}),
                "[x: a:b, 2.00 KiB]",
            ),
            (json!({"type": "hologram", "depth": 3}), r#"{"type":"hologram","depth":3}"#),
        ] {
            assert_eq!(super::text(std::slice::from_ref(&piece)), shown, "{piece}");
        }
    }
}
