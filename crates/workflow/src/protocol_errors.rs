//! Errors of workflows, with their codes on the wire (C-01).

use mcp_flow_proto::RpcError;
use mcp_flow_proto::error::RpcErrorKind;
use serde_json::json;

use crate::library::BrokenFile;
use crate::next::LoopFault;

const fn fault(
    name: &'static str,
    code: i32,
    stateless_code: i32,
    message: &'static str,
) -> RpcErrorKind {
    RpcErrorKind { domain: "workflow", name, code, stateless_code, message }
}

/// The server failed, or the given context is not usable.
pub const SERVER_ERROR: RpcErrorKind = fault("SERVER_ERROR", -32000, -31200, "Server error");
/// No workflow has this id.
pub const WORKFLOW_NOT_FOUND: RpcErrorKind =
    fault("WORKFLOW_NOT_FOUND", -32001, -31201, "Workflow not found");
/// The file of the workflow cannot be used.
pub const INVALID_WORKFLOW: RpcErrorKind =
    fault("INVALID_WORKFLOW", -32002, -31202, "Invalid workflow");
/// The workflow has no step with this id.
pub const STEP_NOT_FOUND: RpcErrorKind = fault("STEP_NOT_FOUND", -32003, -31203, "Step not found");

/// The caller has no run with this id.
pub(crate) const RUN_NOT_FOUND: RpcErrorKind =
    fault("RUN_NOT_FOUND", -32000, -31204, "Run not found");
/// The token was not issued by this server to this caller.
pub(crate) const BAD_TOKEN: RpcErrorKind = fault("BAD_TOKEN", -32000, -31205, "Bad token");
/// The token was used before, with a different output.
pub(crate) const OLD_TOKEN: RpcErrorKind = fault("OLD_TOKEN", -32000, -31206, "Old token");
/// The run waits for a person, not for the agent.
pub(crate) const WAITING_FOR_CONFIRMATION: RpcErrorKind =
    fault("WAITING_FOR_CONFIRMATION", -32000, -31207, "Waiting for confirmation");
/// The run cannot continue.
pub(crate) const RUN_FAILED: RpcErrorKind = fault("RUN_FAILED", -32000, -31208, "Run failed");

/// Error for an unknown workflow (WFL-029).
pub(crate) fn workflow_not_found(id: &str, near: Option<&str>) -> RpcError {
    let error = RpcError::new(WORKFLOW_NOT_FOUND).with("workflowId", id);
    match near {
        Some(near) => error.with("suggestions", json!([near])),
        None => error,
    }
}

/// Error for a broken file (WFL-030).
pub(crate) fn invalid_workflow(id: &str, broken: &BrokenFile) -> RpcError {
    let problems: Vec<_> = broken
        .problems
        .iter()
        .map(|problem| {
            let position = problem.position;
            json!({"line": position.line, "column": position.column, "message": problem.message})
        })
        .collect();
    RpcError::new(INVALID_WORKFLOW)
        .with("workflowId", id)
        .details(broken.reason())
        .with("file", broken.file_name())
        .with("problems", problems)
}

/// Error for a workflow that requires a newer server (WFL-063).
pub(crate) fn too_new(id: &str, needed: &str, version: &str) -> RpcError {
    RpcError::new(INVALID_WORKFLOW)
        .with("workflowId", id)
        .details(format!("it requires server {needed}; this is {version}"))
        .with("minimumServerVersion", needed)
        .with("serverVersion", version)
}

/// Error for an unknown step (WFL-043).
pub(crate) fn step_not_found(id: &str, near: Option<&str>) -> RpcError {
    let error = RpcError::new(STEP_NOT_FOUND).with("stepId", id);
    match near {
        Some(near) => error.with("suggestions", json!([near])),
        None => error,
    }
}

pub(crate) fn loop_failed(fault: &LoopFault) -> RpcError {
    RpcError::new(SERVER_ERROR).details(fault.to_string()).with("stepId", fault.step.as_str())
}

/// Hint for a model on how to resolve an error.
pub(crate) fn hint(error: &RpcError, suggestion: Option<&str>) -> String {
    match (error.name(), suggestion) {
        ("WORKFLOW_NOT_FOUND", Some(near)) => {
            format!("Did you mean `{near}`? workflow_list lists all there are.")
        }
        ("WORKFLOW_NOT_FOUND", None) => "workflow_list lists all there are.".to_owned(),
        ("STEP_NOT_FOUND", Some(near)) => {
            format!("Did you mean `{near}`? workflow_get shows all steps.")
        }
        ("STEP_NOT_FOUND", None) => "workflow_get shows all steps.".to_owned(),
        _ => String::new(),
    }
}
