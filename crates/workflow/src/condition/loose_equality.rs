//! Loose comparison, as agents write values: `" Large "` equals `"large"`, `"5"` equals 5, `"yes"`
//! is true.

use serde_json::Value;

/// Returns whether two values are loosely equal.
pub(crate) fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::String(one), Value::String(other)) => plain(one) == plain(other),
        (Value::String(text), Value::Number(number))
        | (Value::Number(number), Value::String(text)) => {
            text.trim().parse().ok() == number.as_f64()
        }
        (Value::String(text), Value::Bool(flag)) | (Value::Bool(flag), Value::String(text)) => {
            truth(text) == Some(*flag)
        }
        (Value::Number(one), Value::Number(other)) => {
            one == other || one.as_f64() == other.as_f64()
        }
        (one, other) => one == other,
    }
}

/// Returns whether a value is truthy: present, and not false, 0 or an empty text.
pub(crate) fn is_true(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(flag) => *flag,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty() && truth(text) != Some(false),
        Value::Array(_) | Value::Object(_) => true,
    }
}

/// Returns whether a text contains a part, loosely.
pub(super) fn contains(text: &str, part: &Value) -> bool {
    let part = match part {
        Value::String(part) => plain(part),
        other => other.to_string(),
    };
    plain(text).contains(&part)
}

/// Normalizes a text for comparison: trimmed, lowercase.
pub(super) fn plain(text: &str) -> String {
    text.trim().to_lowercase()
}

fn truth(text: &str) -> Option<bool> {
    match &*plain(text) {
        "true" | "yes" => Some(true),
        "false" | "no" => Some(false),
        _ => None,
    }
}
