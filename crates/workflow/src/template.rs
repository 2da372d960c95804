//! `{{a.b}}` in texts, filled in from the context.

use std::borrow::Cow;

use serde_json::Value;

use crate::condition::{Context, find};

/// Fills in a text. What the context does not have stays as it is written.
///
/// ```
/// use mcp_flow_workflow::fill;
/// use serde_json::json;
///
/// let context = json!({"user": {"name": "Ada"}});
/// let filled = fill("Hello {{ user.name }}, {{nobody}}", context.as_object().unwrap());
/// assert_eq!(filled, "Hello Ada, {{nobody}}");
/// ```
pub fn fill<'a>(text: &'a str, context: &Context) -> Cow<'a, str> {
    if !text.contains("{{") {
        return Cow::Borrowed(text);
    }
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("{{") {
        let (before, open) = rest.split_at(start);
        let Some(end) = open.find("}}") else { break };
        filled.push_str(before);
        let whole = &open[..end + 2];
        match find(context, open[2..end].trim()) {
            Some(Value::String(text)) => filled.push_str(text),
            Some(value) => filled.push_str(&value.to_string()),
            None => filled.push_str(whole),
        }
        // A context may repeat a long text many times.
        if filled.len() > LONGEST {
            let end = filled.floor_char_boundary(LONGEST);
            filled.truncate(end);
            filled.push_str(" [...]");
            return Cow::Owned(filled);
        }
        rest = &open[end + 2..];
    }
    filled.push_str(rest);
    Cow::Owned(filled)
}

/// How long a text may become by being filled in.
const LONGEST: usize = 256 * 1024;

#[cfg(test)]
mod tests {
    use super::fill;
    use serde_json::json;

    #[test]
    fn templates_are_filled_from_the_context() {
        let context = json!({"a": "x", "n": 5, "o": {"p": [1, "two"]}, "e": "{{a}}", "d.t": true});
        for (text, filled) in [
            ("plain", "plain"),
            ("{{a}}{{ a }}", "xx"),
            ("{{n}} {{o.p}} {{o.p.1}}", "5 [1,\"two\"] two"),
            ("{{d.t}}", "true"),
            ("{{missing}} {{a", "{{missing}} {{a"),
            ("{{}} {{ }}", "{{}} {{ }}"),
            // What is filled in is not filled in again.
            ("{{e}}", "{{a}}"),
            ("→{{a}}→", "→x→"),
        ] {
            assert_eq!(fill(text, context.as_object().unwrap()), filled, "{text}");
        }
        let long = json!({"a": "é".repeat(100_000)});
        assert!(fill(&"{{a}}".repeat(100), long.as_object().unwrap()).len() < 300 * 1024);
    }
}
