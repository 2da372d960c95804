//! Truncation of texts, and escaping in JSON Pointers.

use std::borrow::Cow;

/// The first `longest` characters of a text.
///
/// ```
/// assert_eq!(mcp_flow_proto::text::prefix("é漢x", 2), "é漢");
/// ```
pub fn prefix(text: &str, longest: usize) -> &str {
    text.char_indices().nth(longest).map_or(text, |(end, _)| &text[..end])
}

/// The whole characters in the first `longest` bytes of a text.
///
/// ```
/// assert_eq!(mcp_flow_proto::text::prefix_bytes("é漢x", 3), "é");
/// ```
pub fn prefix_bytes(text: &str, longest: usize) -> &str {
    &text[..text.floor_char_boundary(longest)]
}

/// The first `longest` characters of a text, with dots in place of the rest.
///
/// ```
/// assert_eq!(mcp_flow_proto::text::truncate("abcd", 3), "abc...");
/// ```
pub fn truncate(text: &str, longest: usize) -> Cow<'_, str> {
    match prefix(text, longest) {
        whole if whole.len() == text.len() => whole.into(),
        prefix => format!("{prefix}...").into(),
    }
}

/// Escapes the name of a member for a JSON Pointer (RFC 6901).
pub fn escape_pointer(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// The name of a member in a segment of a JSON Pointer.
pub fn unescape_pointer(segment: &str) -> String {
    segment.replace("~1", "/").replace("~0", "~")
}
