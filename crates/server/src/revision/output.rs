//! A tool's output in the form of the client's revision.

use std::borrow::Cow;

use mcp_flow_proto::Revision;
use mcp_flow_proto::model::{CallResult, Content, ContentForm, ContentList};
use serde_json::Value;

use super::{add_server_info, result_type};
use crate::tool::ToolOutput;

/// Builds the wire form of a tool's output for a revision, and hands it to `write`.
pub(crate) fn with_wire_output<T>(
    output: &ToolOutput,
    revision: Revision,
    form: ContentForm,
    server_info: impl FnOnce() -> Value,
    write: impl FnOnce(&CallResult<'_>) -> T,
) -> T {
    let features = revision.features();
    let items = if output.is_error { message_first(output) } else { Cow::from(&output.content) };
    let message = if output.is_error { items.first().and_then(text_of) } else { None };
    let mut meta = Cow::Borrowed(&output.meta);
    if let Some(message) = message.filter(|_| !features.seed_002_members) {
        meta.to_mut().insert("errorMessage".to_owned(), message.into());
    }
    if revision.is_stateless() {
        add_server_info(meta.to_mut(), server_info());
    }
    write(&CallResult {
        result_type: result_type(revision),
        content: ContentList { items: &items, revision, form },
        structured_content: output.structured.as_ref().filter(|value| {
            features.structured_content && (features.structured_values || value.is_object())
        }),
        is_error: output.is_error,
        error_message: message.filter(|_| features.seed_002_members),
        meta: Some(&*meta).filter(|meta| !meta.is_empty()),
    })
}

/// The content of a failure with its first text moved or put in front (C-24).
fn message_first(output: &ToolOutput) -> Cow<'_, [Content]> {
    let content = &output.content;
    match content.iter().position(|item| text_of(item).is_some()) {
        Some(0) => Cow::from(content),
        Some(position) => {
            let mut content = content.clone();
            content[..=position].rotate_right(1);
            Cow::from(content)
        }
        None => {
            let structured = output.structured.as_ref().map(Value::to_string);
            let message = structured.unwrap_or_else(|| UNEXPLAINED.to_owned());
            std::iter::once(Content::text(message)).chain(content.iter().cloned()).collect()
        }
    }
}

/// The text of an item, unless blank.
fn text_of(content: &Content) -> Option<&str> {
    match content {
        Content::Text { text, .. } if !text.trim().is_empty() => Some(text),
        _ => None,
    }
}

/// The message of a failure without one.
const UNEXPLAINED: &str = "The tool failed without saying why.";

#[cfg(test)]
mod tests {
    use super::with_wire_output;
    use crate::tool::ToolOutput;
    use mcp_flow_proto::Revision;
    use mcp_flow_proto::model::{Content, ContentForm};
    use serde_json::{Value, json};

    /// MCP-019, MCP-028, C-24: every failure has its message first, and again where clients of each
    /// revision look for it.
    #[test]
    fn failures_have_a_message_in_every_revision() {
        let image = || Content::image([1], "image/png");
        let failed =
            |content: Vec<Content>| ToolOutput { is_error: true, ..ToolOutput::content(content) };
        let mut explained = ToolOutput::failure("no such file");
        explained.meta.insert("error".into(), json!({"code": 7}));
        let mut structured = failed(vec![]);
        structured.structured = Some(json!({"reason": 7}));
        for (output, types, message) in [
            (ToolOutput::failure("no such file"), vec!["text"], "no such file"),
            (explained, vec!["text"], "no such file"),
            (
                failed(vec![image(), Content::text("broken"), image(), Content::text("more")]),
                vec!["text", "image", "image", "text"],
                "broken",
            ),
            (failed(vec![Content::text(" "), Content::text("why")]), vec!["text", "text"], "why"),
            (failed(vec![image()]), vec!["text", "image"], "The tool failed without saying why."),
            (failed(vec![]), vec!["text"], "The tool failed without saying why."),
            (structured, vec!["text"], "{\"reason\":7}"),
        ] {
            for revision in Revision::ALL {
                let sent = wire(&output, revision);
                let content = sent["content"].as_array().unwrap();
                let sent_types: Vec<_> = content.iter().map(|item| &item["type"]).collect();
                assert_eq!(sent_types, types, "{revision}");
                assert_eq!(
                    (&sent["isError"], &content[0]["text"]),
                    (&json!(true), &json!(message))
                );
                let (old, new) = (sent.get("errorMessage"), sent["_meta"].get("errorMessage"));
                let message = Some(json!(message));
                let (here, elsewhere) = match revision {
                    Revision::V2024_11_05 => (old, new),
                    _ => (new, old),
                };
                assert_eq!((here, elsewhere), (message.as_ref(), None), "{revision}: {sent}");
                assert_eq!(sent["_meta"].get("error"), output.meta.get("error"));
            }
        }
    }

    #[test]
    fn success_content_is_unchanged() {
        let image = Content::image([1], "image/png");
        for revision in Revision::ALL {
            let sent = wire(&ToolOutput::content([image.clone(), Content::text("b")]), revision);
            assert_eq!(sent["content"][0]["type"], "image");
            assert_eq!((sent.get("errorMessage"), sent["_meta"].get("errorMessage")), (None, None));
            assert_eq!(wire(&ToolOutput::default(), revision)["content"], json!([]));
        }
    }

    #[test]
    fn stateless_results_carry_the_server_info() {
        let wire = wire(&ToolOutput::text("5"), Revision::V2026_07_28);
        assert_eq!(wire["resultType"], "complete");
        assert_eq!(wire["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "test");
    }

    fn wire(output: &ToolOutput, revision: Revision) -> Value {
        let info = || json!({"name": "test"});
        with_wire_output(output, revision, ContentForm::Official, info, |wire| {
            serde_json::to_value(wire).unwrap()
        })
    }
}
