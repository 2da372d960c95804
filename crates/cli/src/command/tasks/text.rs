//! A task as text for people.

use mcp_flow::client::model::{DetailedTask, TaskState};
use serde_json::Value;

use super::answer::name;
use crate::terminal::output::{content, sanitize};

/// Describes a task: its status, then its open questions or its result.
pub(super) fn of(task: &DetailedTask) -> String {
    let mut lines = vec![format!("{}  {}", sanitize(&task.task_id), task.state.name())];
    if let Some(message) = &task.status_message
        && !matches!(task.state, TaskState::InputRequired { .. })
    {
        lines.push(format!("  {}", sanitize(message)));
    }
    match &task.state {
        TaskState::InputRequired { input_requests } => {
            let questions = input_requests.iter().map(|(key, request)| question(key, request));
            lines.extend(questions);
        }
        TaskState::Completed { result } => {
            let pieces = result.get("content").and_then(Value::as_array);
            let text = content::text(pieces.map(Vec::as_slice).unwrap_or_default());
            let failed = if result.get("isError") == Some(&true.into()) { "failed: " } else { "" };
            lines.extend(text.lines().map(|line| format!("  {failed}{line}")));
        }
        TaskState::Failed { error } => {
            lines.push(format!("  error {}", sanitize(&error.to_string())));
        }
        TaskState::Working | TaskState::Cancelled => {}
    }
    lines.push(format!("  Created at {}", sanitize(&task.created_at)));
    lines.join("\n")
}

fn question(key: &str, request: &Value) -> String {
    let message = request["params"]["message"].as_str();
    let asks = message.or_else(|| request["method"].as_str()).unwrap_or_default();
    format!("  {}: {}", sanitize(name(key)), sanitize(asks))
}
