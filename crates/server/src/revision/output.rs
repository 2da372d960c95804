//! A tool's output in the shape its revision has.

use std::borrow::Cow;

use mcp_flow_proto::Revision;
use mcp_flow_proto::model::{CallResult, ContentForm, ContentList};
use serde_json::Value;

use super::{add_server_info, result_type};
use crate::tool::ToolOutput;

/// Gives a tool's output the shape its revision has, and hands it to `write`.
pub(crate) fn with_wire_output<T>(
    output: &ToolOutput,
    revision: Revision,
    form: ContentForm,
    server_info: impl FnOnce() -> Value,
    write: impl FnOnce(&CallResult<'_>) -> T,
) -> T {
    let features = revision.features();
    let failure = output.failure_text();
    let mut meta = Cow::Borrowed(&output.meta);
    // An error object says the same and more.
    let said_elsewhere = features.seed_002_members || output.meta.contains_key("error");
    if let Some(failure) = failure.filter(|_| !said_elsewhere) {
        meta.to_mut().insert("errorMessage".to_owned(), failure.into());
    }
    if revision.is_stateless() {
        add_server_info(meta.to_mut(), server_info());
    }
    write(&CallResult {
        result_type: result_type(revision),
        content: ContentList { items: &output.content, revision, form },
        structured_content: output.structured.as_ref().filter(|_| features.structured_content),
        is_error: output.is_error,
        error_message: failure.filter(|_| features.seed_002_members),
        meta: Some(&*meta).filter(|meta| !meta.is_empty()),
    })
}

#[cfg(test)]
mod tests {
    use super::with_wire_output;
    use crate::tool::ToolOutput;
    use mcp_flow_proto::Revision;
    use mcp_flow_proto::model::ContentForm;
    use serde_json::{Value, json};

    /// MCP-019, C-24: the failure is repeated where clients of each revision look for it.
    #[test]
    fn a_failure_is_told_in_every_revision() {
        let failed = ToolOutput::failure("no such file");
        let oldest = wire(&failed, Revision::V2024_11_05);
        assert_eq!(oldest["errorMessage"], "no such file");
        assert_eq!(oldest["content"][0]["text"], "no such file");
        for revision in &Revision::ALL[1..] {
            let newer = wire(&failed, *revision);
            assert_eq!(newer.get("errorMessage"), None);
            assert_eq!(newer["_meta"]["errorMessage"], "no such file");
            assert_eq!(newer["isError"], true);
        }
    }

    #[test]
    fn a_stateless_result_stands_alone() {
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
