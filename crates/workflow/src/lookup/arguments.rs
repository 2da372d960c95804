//! What the tools are called with.

use mcp_flow_proto::RpcError;
use serde::Deserialize;
use serde_json::Value;

use crate::condition::Context;

/// The arguments of `workflow_get`.
#[derive(Debug, Deserialize)]
pub(super) struct Get {
    pub(super) id: String,
}

/// The arguments of `workflow_next`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NextStep {
    pub(super) workflow_id: String,
    pub(super) current_step: Option<String>,
    pub(super) completed_steps: Vec<String>,
    #[serde(default)]
    pub(super) context: Context,
}

/// The arguments of `workflow_validate`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Validate {
    pub(super) workflow_id: String,
    pub(super) step_id: String,
    pub(super) output: String,
}

/// Refuses a context that is too large.
pub(crate) fn check_context(context: &Context) -> Result<(), RpcError> {
    too_large(context).map_or(Ok(()), |told| Err(RpcError::invalid_params(told)))
}

/// Whether a context is too large, in a sentence.
pub(crate) fn too_large(context: &Context) -> Option<String> {
    let size = size(context);
    (size > LARGEST_CONTEXT).then(|| {
        format!(
            "context has about {size} bytes, at most {LARGEST_CONTEXT} are taken; keep what the \
             steps need"
        )
    })
}

/// Warns of a context that will soon be too large.
pub(super) fn warn_of_context(context: &Context) -> Option<String> {
    let size = size(context);
    (size > LARGEST_CONTEXT / 5 * 4).then(|| {
        format!("The context has about {size} of at most {LARGEST_CONTEXT} bytes; take out what is not needed any more.")
    })
}

fn size(context: &Context) -> usize {
    context.iter().map(|(name, value)| name.len() + weight(value) + 4).sum()
}

/// About how long a value is as JSON.
fn weight(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 5,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().map(|item| weight(item) + 1).sum::<usize>() + 2,
        Value::Object(members) => size(members) + 2,
    }
}

/// 256 KiB.
const LARGEST_CONTEXT: usize = 256 * 1024;
