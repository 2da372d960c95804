//! The id of a message that is too large to be kept: some write it first, others last.

use serde_json::{Map, Value};

/// Finds the id of a message by its beginning and its end.
pub(crate) fn id_of(head: &[u8], tail: &[u8]) -> Option<Value> {
    id_at_beginning(head).or_else(|| id_at_end(tail))
}

/// Finds the member `id` of the message itself, not of what is nested in it.
fn id_at_beginning(head: &[u8]) -> Option<Value> {
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(byte) = head.get(at) {
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => {
                let text = &head[at + 1..];
                let end = at + 1 + string_length(text)?;
                let is_id = depth == 1 && &head[at + 1..end] == b"id";
                let behind = head[end + 1..].trim_ascii_start();
                if let (true, Some(value)) = (is_id, behind.strip_prefix(b":")) {
                    let mut values =
                        serde_json::Deserializer::from_slice(value).into_iter::<Value>();
                    let id = values.next()?.ok()?;
                    // A number at the very end may be cut off.
                    return (values.byte_offset() < value.len()).then_some(id);
                }
                at = end;
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// Length up to the closing quote.
fn string_length(text: &[u8]) -> Option<usize> {
    let mut is_escaped = false;
    text.iter().position(|byte| {
        let is_end = *byte == b'"' && !is_escaped;
        is_escaped = *byte == b'\\' && !is_escaped;
        is_end
    })
}

/// Finds a member `id` behind which the message ends: the rest is an object only if nothing else is open.
fn id_at_end(tail: &[u8]) -> Option<Value> {
    let text = String::from_utf8_lossy(tail);
    let candidates = text.rmatch_indices("\"id\"").take(MAX_CANDIDATES);
    candidates.into_iter().find_map(|(at, _)| {
        let members: Map<String, Value> =
            serde_json::from_str(&format!("{{{}", &text[at..])).ok()?;
        members.get("id").cloned()
    })
}

/// Limit on members `id` that are looked at.
const MAX_CANDIDATES: usize = 32;

#[cfg(test)]
mod tests {
    use super::id_of;
    use serde_json::{Value, json};

    #[test]
    fn ids_are_found_at_both_ends() {
        let filler = "x".repeat(5000);
        for (text, id) in [
            (format!("{{\"jsonrpc\":\"2.0\",\"id\": 7,\"result\":\"{filler}\"}}"), json!(7)),
            (
                format!("{{\"result\":{{\"id\":1,\"t\":\"{filler}\"}},\"id\":\"a b\"}}\n"),
                json!("a b"),
            ),
            (
                format!(
                    "{{\"result\":{{\"t\":\"{filler}\",\"id\":1}},\"jsonrpc\":\"2.0\",\"id\":2}}"
                ),
                json!(2),
            ),
            (
                format!(
                    "{{\"result\":{{\"t\":\"{filler}\",\"id\":1}},\"id\":2,\"jsonrpc\":\"2.0\"}}"
                ),
                json!(2),
            ),
            (format!("{{\"result\":\"{filler} \\\"id\\\":1}}\",\"id\":3}}"), json!(3)),
            (
                format!("{{\"method\":\"x\",\"params\":{{\"t\":\"{filler}\",\"id\":1}}}}"),
                Value::Null,
            ),
        ] {
            let bytes = text.as_bytes();
            let found = id_of(&bytes[..4096], &bytes[bytes.len() - 4096..]);
            assert_eq!(found.unwrap_or_default(), id, "{}", &text[text.len() - 40..]);
        }
    }
}
