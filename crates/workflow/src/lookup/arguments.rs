//! Arguments of the lookup tools.

use mcp_flow_proto::RpcError;
use serde::Deserialize;
use serde_json::Value;

use crate::condition::WorkflowContext;

/// Arguments of `workflow_get`.
#[derive(Debug, Deserialize)]
pub(super) struct Get {
    pub(super) id: String,
}

/// Arguments of `workflow_next`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NextStep {
    pub(super) workflow_id: String,
    pub(super) current_step: Option<String>,
    pub(super) completed_steps: Vec<String>,
    #[serde(default)]
    pub(super) context: WorkflowContext,
}

/// Arguments of `workflow_validate`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Validate {
    pub(super) workflow_id: String,
    pub(super) step_id: String,
    pub(super) output: String,
}

/// Rejects a context above the size limit.
pub(crate) fn check_context(context: &WorkflowContext) -> Result<(), RpcError> {
    too_large(context).map_or(Ok(()), |message| Err(RpcError::invalid_params(message)))
}

/// Returns an error message if a context is above the size limit.
pub(crate) fn too_large(context: &WorkflowContext) -> Option<String> {
    let size = size(context);
    (size > MAX_CONTEXT_BYTES).then(|| {
        format!(
            "context has about {size} bytes, at most {MAX_CONTEXT_BYTES} are taken; keep what the \
             steps need"
        )
    })
}

/// Returns a warning if a context is close to the size limit.
pub(super) fn warn_of_context(context: &WorkflowContext) -> Option<String> {
    let size = size(context);
    (size > MAX_CONTEXT_BYTES / 5 * 4).then(|| {
        format!("The context has about {size} of at most {MAX_CONTEXT_BYTES} bytes; take out what is not needed any more.")
    })
}

fn size(context: &WorkflowContext) -> usize {
    context.iter().map(|(name, value)| name.len() + weight(value) + 4).sum()
}

/// Approximate length of a value as JSON.
fn weight(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 5,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().map(|item| weight(item) + 1).sum::<usize>() + 2,
        Value::Object(members) => size(members) + 2,
    }
}

/// Limit on the size of a context: 256 KiB.
const MAX_CONTEXT_BYTES: usize = 256 * 1024;
