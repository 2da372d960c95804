//! Tool result of this crate: JSON encoded once.

use mcp_flow_server::{Context, IntoToolOutput, Outcome, ToolOutput};
use serde::Serialize;
use serde_json::Value;

/// Encoded result.
#[derive(Clone, Debug)]
pub(crate) struct EncodedResult(String);

impl EncodedResult {
    pub(crate) fn of(result: &(impl Serialize + ?Sized)) -> Self {
        let mut json = Vec::with_capacity(USUAL_LENGTH);
        // Strings, numbers and lists of them can always be encoded, and JSON is UTF-8.
        let written = serde_json::to_writer(&mut json, result).ok();
        Self(written.and_then(|()| String::from_utf8(json).ok()).unwrap_or_default())
    }

    pub(crate) fn value(&self) -> Value {
        serde_json::from_str(&self.0).unwrap_or_default()
    }
}

impl IntoToolOutput for EncodedResult {
    fn into_tool_output(self) -> ToolOutput {
        ToolOutput { structured: Some(self.value()), ..ToolOutput::text(self.0) }
    }

    fn reply(self, context: &Context) -> Outcome {
        context.reply_structured(self.0)
    }
}

/// Initial capacity.
const USUAL_LENGTH: usize = 2 * 1024;
