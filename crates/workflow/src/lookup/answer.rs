//! What a tool of this crate answers: JSON that is written once.

use mcp_flow_proto::Revision;
use mcp_flow_server::{Context, IntoToolOutput, Outcome, ToolOutput};
use serde::Serialize;
use serde_json::Value;

/// The JSON of a result.
#[derive(Clone, Debug)]
pub(crate) struct Answer(String);

impl Answer {
    pub(crate) fn of(result: &(impl Serialize + ?Sized)) -> Self {
        // Texts, numbers and lists of them can always be written.
        Self(serde_json::to_string(result).unwrap_or_default())
    }

    pub(crate) fn into_json(self) -> String {
        self.0
    }

    pub(crate) fn value(&self) -> Value {
        serde_json::from_str(&self.0).unwrap_or_default()
    }
}

impl IntoToolOutput for Answer {
    fn into_tool_output(self) -> ToolOutput {
        ToolOutput { structured: Some(self.value()), ..ToolOutput::text(self.0) }
    }

    /// The text of it is all that older revisions have a place for.
    fn reply(self, context: &Context) -> Outcome {
        if context.revision() < Revision::V2025_06_18 {
            return context.reply_text(self.0);
        }
        context.reply_output(&self.into_tool_output())
    }
}
