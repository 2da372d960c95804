//! Tasks: calls that outlive their request (`io.modelcontextprotocol/tasks`).

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::raw::{Params, Raw, ValueKind};

/// Name under which clients and servers declare the tasks extension.
pub const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// Value of `resultType` of a [`CreateTaskResult`].
pub const TASK_RESULT_TYPE: &str = "task";

/// A task with the payload of its status, as in `tasks/get` and `notifications/tasks`.
///
/// A [`CreateTaskResult`] is read as one too; its payload is empty, whatever its status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DetailedTask {
    /// Identifier that the server chose.
    pub task_id: String,
    /// Description of the status for people, such as the progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_message: Option<String>,
    /// Time of creation, in ISO 8601.
    pub created_at: String,
    /// Time of the last change, in ISO 8601.
    pub last_updated_at: String,
    /// Time after creation at which the server may discard the task; none if it is unlimited.
    #[serde(default)]
    pub ttl_ms: Option<u64>,
    /// Suggested time between two polls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub poll_interval_ms: Option<u64>,
    /// Status and its payload.
    #[serde(flatten)]
    pub state: TaskState,
}

/// Status of a task, with its payload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum TaskState {
    /// The call is being processed.
    Working,
    /// The server needs input.
    InputRequired {
        /// Open requests, in the form of [`InputRequest`](super::InputRequest), by key.
        #[serde(default)]
        input_requests: Map<String, Value>,
    },
    /// The call returned a result, perhaps one with `isError`.
    Completed {
        /// Result of the call, as it would have been returned at once.
        #[serde(default)]
        result: Map<String, Value>,
    },
    /// The call failed with a JSON-RPC error.
    Failed {
        /// The error object.
        #[serde(default)]
        error: Value,
    },
    /// The call was cancelled.
    Cancelled,
}

impl TaskState {
    /// Returns the name of the status.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::InputRequired { .. } => "input_required",
            Self::Completed { .. } => "completed",
            Self::Failed { .. } => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Returns whether the status never changes again.
    pub fn is_final(&self) -> bool {
        !matches!(self, Self::Working | Self::InputRequired { .. })
    }
}

/// Result of a call that continues as a task: the task without its payload.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CreateTaskResult<'a> {
    result_type: &'static str,
    task_id: &'a str,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    status_message: Option<&'a str>,
    created_at: &'a str,
    last_updated_at: &'a str,
    ttl_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    poll_interval_ms: Option<u64>,
}

impl CreateTaskResult<'_> {
    /// Sets another `resultType`, for a result that begins with the members of a task.
    #[must_use]
    pub fn result_type(self, result_type: &'static str) -> Self {
        Self { result_type, ..self }
    }
}

impl<'a> From<&'a DetailedTask> for CreateTaskResult<'a> {
    fn from(task: &'a DetailedTask) -> Self {
        Self {
            result_type: TASK_RESULT_TYPE,
            task_id: &task.task_id,
            status: task.state.name(),
            status_message: task.status_message.as_deref(),
            created_at: &task.created_at,
            last_updated_at: &task.last_updated_at,
            ttl_ms: task.ttl_ms,
            poll_interval_ms: task.poll_interval_ms,
        }
    }
}

/// Params of `tasks/get`, `tasks/cancel` and, with answers, `tasks/update`.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskParams {
    /// Identifier of the task; none if it is missing or not a string, so that no task has it.
    pub task_id: Option<String>,
    /// Answers by the keys of the input requests.
    pub input_responses: Option<Map<String, Value>>,
}

impl TaskParams {
    /// Reads the params. The error is a sentence naming the invalid member.
    pub fn from_params(params: Params<'_>) -> Result<Self, String> {
        let [task_id, responses] =
            params.members(["taskId", "inputResponses"]).map_err(|error| error.to_string())?;
        let task_id = task_id.and_then(Raw::as_text).map(Cow::into_owned);
        let input_responses = match responses.map(|responses| (responses.kind(), responses)) {
            None | Some((ValueKind::Null, _)) => None,
            Some((ValueKind::Object, responses)) => responses
                .decode()
                .map_err(|error| format!("inputResponses is malformed: {error}"))?,
            Some(_) => return Err("inputResponses must be an object".to_owned()),
        };
        Ok(Self { task_id, input_responses })
    }
}

#[cfg(test)]
mod tests {
    use super::{CreateTaskResult, DetailedTask, TaskParams};
    use crate::raw::{Params, Raw};
    use serde_json::{Value, json};

    #[test]
    fn tasks_of_every_status_are_read_and_written() {
        for (payload, is_final) in [
            (json!({"status": "working"}), false),
            (json!({"status": "input_required", "inputRequests": {"a": {"method": "x"}}}), false),
            (json!({"status": "completed", "result": {"content": [], "isError": true}}), true),
            (json!({"status": "failed", "error": {"code": -32603, "message": "no"}}), true),
            (json!({"status": "cancelled"}), true),
        ] {
            let mut wire = json!({"taskId": "a", "createdAt": "2026-07-28T00:00:00Z",
                "lastUpdatedAt": "2026-07-28T00:00:01Z", "ttlMs": null, "pollIntervalMs": 500,
                "statusMessage": "1 of 2"});
            let members = wire.as_object_mut().unwrap();
            members.extend(payload.as_object().unwrap().clone());
            let task: DetailedTask = serde_json::from_value(wire.clone()).unwrap();
            assert_eq!(serde_json::to_value(&task).unwrap(), wire);
            assert_eq!((task.state.name(), task.state.is_final()), (status(&wire), is_final));
            let created = serde_json::to_value(CreateTaskResult::from(&task)).unwrap();
            assert_eq!((&created["resultType"], status(&created)), (&json!("task"), status(&wire)));
            for member in ["inputRequests", "result", "error"] {
                assert_eq!(created.get(member), None);
            }
            let seed: DetailedTask = serde_json::from_value(created).unwrap();
            assert_eq!(seed.state.name(), task.state.name());
        }
        for malformed in [
            json!({"taskId": "a"}),
            json!({"taskId": "a", "createdAt": "",
            "lastUpdatedAt": "", "status": "lost"}),
        ] {
            assert!(serde_json::from_value::<DetailedTask>(malformed).is_err());
        }
    }

    #[test]
    fn params_are_read_or_the_error_names_the_member() {
        for (text, expected) in [
            (r#"{"taskId":"a"}"#, Ok((true, None))),
            (r#"{"taskId":"a","inputResponses":{"k":{},"l":7}}"#, Ok((true, Some(2)))),
            ("{}", Ok((false, None))),
            (r#"{"taskId":7}"#, Ok((false, None))),
            (r#"{"taskId":"a","inputResponses":[]}"#, Err("inputResponses must be an object")),
        ] {
            let read = TaskParams::from_params(Params::new(Some(Raw::Json(text))));
            let read = read.map(|params| {
                (params.task_id.is_some(), params.input_responses.map(|answers| answers.len()))
            });
            assert_eq!(read.as_ref().map_err(String::as_str), expected.as_ref().map_err(|e| *e));
        }
    }

    fn status(task: &Value) -> &str {
        task["status"].as_str().unwrap()
    }
}
