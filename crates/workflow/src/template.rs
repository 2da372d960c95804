//! Templates: `{{a.b}}` in texts, filled in from the context.

use std::borrow::Cow;

use serde_json::Value;

use crate::condition::{WorkflowContext, find};

/// Fills in a text. Placeholders without a variable in the context are kept.
///
/// ```
/// use mcp_flow_workflow::fill;
/// use serde_json::json;
///
/// let context = json!({"user": {"name": "Ada"}});
/// let filled = fill("Hello {{ user.name }}, {{nobody}}", context.as_object().unwrap());
/// assert_eq!(filled, "Hello Ada, {{nobody}}");
/// ```
pub fn fill<'a>(text: &'a str, context: &WorkflowContext) -> Cow<'a, str> {
    Filling::from(context).fill(text)
}

/// Fills in a title: one line, with a limit, since titles are part of records.
pub(crate) fn fill_title(title: &str, context: &WorkflowContext) -> String {
    let filled = Filling { context, left: MAX_IN_TITLE }.fill(title);
    filled.chars().map(|one| if one.is_control() { ' ' } else { one }).collect()
}

/// Fills in several texts with a shared limit.
#[derive(Debug)]
pub(crate) struct Filling<'c> {
    context: &'c WorkflowContext,
    /// Bytes that may still be inserted.
    left: usize,
}

impl<'c> Filling<'c> {
    pub(crate) fn from(context: &'c WorkflowContext) -> Self {
        Self { context, left: MAX_FILLED }
    }

    pub(crate) fn fill<'a>(&mut self, text: &'a str) -> Cow<'a, str> {
        if !text.contains("{{") {
            return Cow::Borrowed(text);
        }
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(start) = rest.find("{{") {
            let (before, open) = rest.split_at(start);
            let Some(end) = open.find("}}") else { break };
            filled.push_str(before);
            match find(self.context, open[2..end].trim()) {
                None => filled.push_str(&open[..end + 2]),
                Some(_) if self.left == 0 => filled.push_str(LEFT_OUT),
                Some(Value::String(text)) => self.put(text, &mut filled),
                Some(value) => self.put(&value.to_string(), &mut filled),
            }
            rest = &open[end + 2..];
        }
        filled.push_str(rest);
        Cow::Owned(filled)
    }

    /// A template may repeat a long value many times.
    fn put(&mut self, value: &str, filled: &mut String) {
        let end = value.floor_char_boundary(self.left);
        filled.push_str(&value[..end]);
        if end < value.len() {
            filled.push_str(LEFT_OUT);
            self.left = 0;
        } else {
            self.left -= end;
        }
    }
}

/// Limit on the bytes inserted together.
const MAX_FILLED: usize = 256 * 1024;

/// Limit on the bytes of a title.
const MAX_IN_TITLE: usize = 1024;

/// Replacement of omitted text.
const LEFT_OUT: &str = "[...]";

#[cfg(test)]
mod tests {
    use super::{fill, fill_title};
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
            // Inserted text is not filled in again.
            ("{{e}}", "{{a}}"),
            ("→{{a}}→", "→x→"),
        ] {
            assert_eq!(fill(text, context.as_object().unwrap()), filled, "{text}");
        }
        let long = json!({"a": "é".repeat(100_000), "b": "x\n## y"});
        let title = |text| fill_title(text, long.as_object().unwrap());
        assert_eq!(title("{{b}} {{c}}"), "x ## y {{c}}");
        assert!(title("{{a}}{{a}}").len() < 2 * 1024);
        assert!(fill(&"{{a}}".repeat(100), long.as_object().unwrap()).len() < 300 * 1024);
    }
}
