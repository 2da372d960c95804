//! Errors of decoding, in plain words.
//!
//! Parsers and deserializers describe an error for their own developers. This module rewords it for the
//! author of the text, whoever parsed it: where the text breaks, or which member is wrong. Nothing that a
//! parser says reaches a peer without passing here.

use serde_json::error::Category;

use crate::raw::{Raw, ValueKind};
use crate::{cbor, json};

/// The reason a value could not be decoded.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// The bytes are malformed.
    #[error("{0}")]
    Syntax(String),
    /// The bytes are well formed but have another type than expected.
    #[error("{0}")]
    Shape(String),
}

impl DecodeError {
    /// Names the member of a JSON text that has another type than expected.
    #[cold]
    pub(crate) fn in_json(text: &str, error: &serde_json::Error) -> Self {
        let message = json_message(error);
        if !error.is_data() && !is_out_of_range(&message) {
            return Self::Syntax(json_problem(error));
        }
        let lines = text.split_inclusive('\n').take(error.line().saturating_sub(1));
        let offset = lines.map(str::len).sum::<usize>() + error.column();
        Self::in_value(Raw::Json(text), offset, usize::MAX, &message)
    }

    /// Names the member of a CBOR item that has another type than expected: the one that ends at the
    /// offset, inside `depth` containers.
    #[cold]
    pub(crate) fn in_cbor(bytes: &[u8], offset: usize, depth: usize, message: &str) -> Self {
        // These are errors of the container, which the element at the offset does not share.
        let is_whole = OF_CONTAINERS.iter().any(|start| message.starts_with(start));
        let depth = depth.saturating_sub(usize::from(is_whole));
        Self::in_value(Raw::Cbor(bytes), offset, depth, message)
    }

    fn in_value(raw: Raw<'_>, offset: usize, depth: usize, message: &str) -> Self {
        Self::Shape(match path(raw, offset, depth).as_str() {
            "" => reword(message, plain_type),
            path => match (missing(message), mismatch(message)) {
                (Some(name), _) => format!("`{path}.{name}` is required"),
                (None, Some((found, expected))) => {
                    format!("`{path}` must be {}, not {}", plain_type(expected), plain_type(found))
                }
                (None, None) => format!("`{path}`: {}", reword(message, plain_type)),
            },
        })
    }
}

/// Describes why a text is not the JSON that was expected, with line and column if they are known.
///
/// ```
/// use mcp_flow_proto::decode_error::json_problem;
///
/// let error = serde_json::from_str::<Vec<u8>>("[1,\n\"a\"]").unwrap_err();
/// let problem = "line 2, column 3: expected a whole number from 0 to 255, found string \"a\"";
/// assert_eq!(json_problem(&error), problem);
/// ```
pub fn json_problem(error: &serde_json::Error) -> String {
    let message = json_message(error);
    let message = match error.classify() {
        Category::Eof => "the text ends before the JSON is complete".to_owned(),
        Category::Syntax if !is_out_of_range(&message) => format!("invalid JSON, {message}"),
        _ => reword(&message, plain_type),
    };
    match error.line() {
        0 => message,
        line => format!("line {line}, column {}: {message}", error.column()),
    }
}

/// Rewords the message of any deserializer. `type_name` replaces the name that it has for a type.
pub fn reword(message: &str, type_name: impl Fn(&str) -> &str) -> String {
    if let Some(name) = missing(message) {
        return format!("`{name}` is required");
    }
    if is_out_of_range(message) {
        return "a number is too large; send it as a string".to_owned();
    }
    match mismatch(message) {
        Some((found, expected)) => {
            format!("expected {}, found {}", type_name(expected), type_name(found))
        }
        None => message.replacen("unknown field `", "unknown member `", 1),
    }
}

/// Returns the words for a type that a deserializer names as in Rust.
pub fn plain_type(name: &str) -> &str {
    match name {
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" => "a whole number from 0 to 4294967295",
        "u64" | "usize" => "a whole number from 0",
        "i8" => "a whole number from -128 to 127",
        "i16" | "i32" | "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        "unit" | "unit value" => "null",
        "a borrowed string" => "a string without escapes",
        "a boolean" => "true or false",
        "a map" | "map" => "an object",
        "a sequence" | "sequence" => "an array",
        name if name.starts_with("struct ") => "an object",
        name if name.starts_with("tuple struct ") => "an array",
        other => other,
    }
}

/// Returns the name of a required member that a deserializer did not find.
fn missing(message: &str) -> Option<&str> {
    message.strip_prefix("missing field `")?.strip_suffix('`')
}

/// Returns what a deserializer found, and what it expected instead.
fn mismatch(message: &str) -> Option<(&str, &str)> {
    let prefixes = ["invalid type: ", "invalid value: ", "unknown variant "];
    let rest = prefixes.into_iter().find_map(|prefix| message.strip_prefix(prefix))?;
    rest.split_once(", expected ")
}

fn is_out_of_range(message: &str) -> bool {
    message.starts_with("number out of range")
}

/// The message of an error without its position.
fn json_message(error: &serde_json::Error) -> String {
    let mut message = error.to_string();
    if error.line() > 0 {
        message.truncate(message.rfind(" at line ").unwrap_or(message.len()));
    }
    message
}

/// Returns the path of the innermost value around an offset, at most `depth` containers deep.
fn path(mut raw: Raw<'_>, mut offset: usize, depth: usize) -> String {
    let mut path = String::new();
    for _ in 0..depth.min(MAX_SEGMENTS) {
        let Some((segment, child)) = child_at(raw, offset) else { break };
        if !path.is_empty() && !segment.starts_with('[') {
            path.push('.');
        }
        path.push_str(crate::text::prefix(&segment, MAX_NAME));
        offset -= distance(raw, child);
        raw = child;
    }
    path
}

/// Returns the member or element around an offset, and its name or index.
fn child_at(raw: Raw<'_>, offset: usize) -> Option<(String, Raw<'_>)> {
    let mut found = None;
    let is_around = |child: Raw<'_>| {
        let start = distance(raw, child);
        start <= offset && offset <= start + child.bytes().len()
    };
    let mut visit = |child, segment: &dyn Fn() -> String| {
        if found.is_none() && is_around(child) {
            found = Some((segment(), child));
        }
        Ok::<_, DecodeError>(())
    };
    let mut index = 0;
    let element = |child| {
        let segment = format!("[{index}]");
        index += 1;
        visit(child, &|| segment.clone())
    };
    let walked = match (raw.kind(), raw) {
        (ValueKind::Array, _) => raw.each_element(element),
        (ValueKind::Object, Raw::Json(text)) => json::each_member(text, |name, child| {
            visit(Raw::Json(child), &|| name.text().into_owned())
        }),
        (ValueKind::Object, Raw::Cbor(bytes)) => {
            cbor::each_member(bytes, |name, child| visit(Raw::Cbor(child), &|| name.to_owned()))
        }
        _ => Ok(()),
    };
    walked.ok().and(found)
}

/// The number of bytes between the start of a value and that of a value inside it.
fn distance(outer: Raw<'_>, inner: Raw<'_>) -> usize {
    inner.bytes().as_ptr().addr() - outer.bytes().as_ptr().addr()
}

/// Openings of the errors that containers have, not their elements.
const OF_CONTAINERS: [&str; 4] =
    ["missing field", "invalid length", "unknown field", "duplicate field"];

/// Limits on a path in an error.
const MAX_SEGMENTS: usize = 8;
const MAX_NAME: usize = 64;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;
    use serde_json::{Value, json};

    use super::json_problem;
    use crate::raw::{Encoding, Raw};

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only errors are of interest")]
    struct Order {
        #[serde(default)]
        count: u8,
        #[serde(default)]
        level: Level,
        #[serde(default)]
        parts: Vec<Part>,
        #[serde(default)]
        by_name: BTreeMap<String, Part>,
        #[serde(default)]
        pair: Option<(u8, u8)>,
    }

    #[derive(Debug, Default, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Level {
        #[default]
        Low,
        High,
    }

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only errors are of interest")]
    struct Part {
        name: String,
        size: Option<f64>,
    }

    /// WT-036: both encodings name the member, and nothing of the parser remains.
    #[test]
    fn errors_name_the_invalid_member() {
        for (value, expected) in [
            (json!(7), "expected an object, found integer `7`"),
            (
                json!({"count": "x"}),
                "`count` must be a whole number from 0 to 255, not string \"x\"",
            ),
            (
                json!({"count": 256}),
                "`count` must be a whole number from 0 to 255, not integer `256`",
            ),
            (json!({"level": "loud"}), "`level` must be `low` or `high`, not `loud`"),
            (
                json!({"count": true}),
                "`count` must be a whole number from 0 to 255, not boolean `true`",
            ),
            (json!({"parts": {}}), "`parts` must be an array, not an object"),
            (json!({"parts": [{"name": "a"}, {}]}), "`parts[1].name` is required"),
            (
                json!({"parts": [{"name": "a", "size": "b"}]}),
                "`parts[0].size` must be a number, not",
            ),
            (json!({"parts": ["x"]}), "`parts[0]` must be an object, not string \"x\""),
            (
                json!({"by_name": {"a": {"name": "b"}, "c": {"size": 1}}}),
                "`by_name.c.name` is required",
            ),
            (
                json!({"by_name": {"a": {"name": null}}}),
                "`by_name.a.name` must be a string, not null",
            ),
            (json!({"pair": [1]}), "`pair`: invalid length 1, expected a tuple of size 2"),
            (json!({"parts": [], "other": 1}), "unknown member `other`, expected one of"),
        ] {
            let (text, cbor) = (value.to_string(), Encoding::Cbor.encode(&value).unwrap());
            for raw in [Raw::Json(&text), Raw::Cbor(&cbor)] {
                let error = raw.decode::<Order>().unwrap_err().to_string();
                assert!(error.starts_with(expected), "{raw:?}: {error}");
                assert!(!error.contains(" at line ") && !error.contains("position"), "{error}");
            }
        }
        let spaced = "{\n \"parts\": [\n  {\"name\": \"\\u00e9\"},\n  {\"name\": 3}\n ]\n}";
        let error = Raw::Json(spaced).decode::<Order>().unwrap_err().to_string();
        assert_eq!(error, "`parts[1].name` must be a string, not integer `3`");
        let large = format!("{{\"parts\": [{{\"size\": 1{}}}]}}", "0".repeat(400));
        let error = Raw::Json(&large).decode::<Order>().unwrap_err().to_string();
        assert_eq!(error, "`parts[0].size`: a number is too large; send it as a string");
    }

    #[test]
    fn syntax_errors_have_line_and_column() {
        for (text, expected) in [
            ("{\"a\":", "line 1, column 5: the text ends before the JSON is complete"),
            ("{nope}", "line 1, column 2: invalid JSON, key must be a string"),
            ("[1,\n2}", "line 2, column 2: invalid JSON, expected `,` or `]`"),
            ("1 x", "line 1, column 3: invalid JSON, trailing characters"),
        ] {
            let error = serde_json::from_str::<Value>(text).unwrap_err();
            assert_eq!(json_problem(&error), expected);
            assert_eq!(Raw::Json(text).decode::<Value>().unwrap_err().to_string(), expected);
        }
    }
}
