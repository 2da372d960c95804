//! The task of a session, derived from its status.

use mcp_flow_engine::{OpenQuestion, SessionStatus, View};
use mcp_flow_proto::model::{CreateTaskResult, DetailedTask, InputRequest, TaskState};
use mcp_flow_proto::{RpcError, method};
use mcp_flow_server::{Context, Outcome, ToolOutput};
use mcp_flow_session::event::{Ending, FaultName, SessionEnded};
use mcp_flow_session::prompt::FlowProgress;
use serde_json::{Map, Value};

use crate::interaction::Interaction;
use crate::tool::form::Form;
use crate::tool::output;

impl Interaction {
    /// Returns the task of a session, with the result as this caller would have got it.
    pub(crate) fn task(&self, context: &Context, view: &View) -> Result<DetailedTask, RpcError> {
        let task = self.task_without_payload(view);
        let state = match &view.status {
            SessionStatus::Working(_) if is_being_cancelled(view) => TaskState::Cancelled,
            SessionStatus::Working(_) => TaskState::Working,
            SessionStatus::Waiting(_) => {
                let requests = view
                    .questions()
                    .map(|question| Ok((request_key(question), request(context, question)?)));
                TaskState::InputRequired { input_requests: requests.collect::<Result<_, _>>()? }
            }
            SessionStatus::Ended(ended) => self.final_state(context, ended)?,
        };
        Ok(DetailedTask { state, ..task })
    }

    /// Replies with a completed task, whose result is encoded once. None if it has no result, or the
    /// connection's encoding is not JSON.
    pub(super) fn completed_task(&self, context: &Context, view: &View) -> Option<Outcome> {
        let SessionStatus::Ended(ended) = &view.status else { return None };
        if !matches!(status_of(&ended.ending), TaskState::Completed { .. }) {
            return None;
        }
        let payload = match context.reply_output(&self.output_of(ended)) {
            Ok(payload) => payload,
            Err(error) => return Some(Err(error)),
        };
        let result = payload.as_json()?;
        let task = self.task_without_payload(view);
        let head = CreateTaskResult::from(&task).result_type("complete");
        let mut json = serde_json::to_string(&head).ok()?;
        // The head is an object, and the result becomes its last member.
        json.pop();
        json.push_str(",\"result\":");
        json.push_str(result);
        json.push('}');
        Some(context.reply_json(json))
    }

    /// Returns the task of a session without the payload of its status.
    pub(crate) fn task_without_payload(&self, view: &View) -> DetailedTask {
        let since = |time: mcp_flow_session::Timestamp| {
            u64::try_from(time.since(view.created).as_millis()).unwrap_or(u64::MAX)
        };
        let (state, status_message) = match &view.status {
            SessionStatus::Working(_) if is_being_cancelled(view) => {
                (TaskState::Cancelled, view.closing.as_deref().and_then(describe_ending))
            }
            SessionStatus::Working(progress) => {
                let asleep = view.is_asleep().then(|| asleep(view));
                (TaskState::Working, asleep.or_else(|| progress.as_ref().map(describe)))
            }
            SessionStatus::Waiting(open) => (
                TaskState::InputRequired { input_requests: Map::new() },
                Some(open.prompt.message.clone()),
            ),
            SessionStatus::Ended(ended) => {
                (status_of(&ended.ending), describe_ending(&ended.ending))
            }
        };
        DetailedTask {
            task_id: view.id.to_string(),
            status_message,
            created_at: view.created.to_iso8601(),
            last_updated_at: view.touched.to_iso8601(),
            ttl_ms: view.deadline.map(since),
            poll_interval_ms: Some(POLL_INTERVAL_MS),
            state,
        }
    }

    /// Returns the tool result of a session that has ended.
    pub(crate) fn output_of(&self, ended: &SessionEnded) -> ToolOutput {
        let is_tool = self.inner.offered(&ended.flow).is_some_and(|offered| offered.is_tool);
        match &ended.ending {
            Ending::Completed { success: true, data, .. } if is_tool => output::restored(data),
            _ => output::of(ended),
        }
    }

    fn final_state(&self, context: &Context, ended: &SessionEnded) -> Result<TaskState, RpcError> {
        Ok(match status_of(&ended.ending) {
            TaskState::Completed { .. } => {
                let payload = context.reply_output(&self.output_of(ended))?;
                match payload.to_value() {
                    Some(Value::Object(result)) => TaskState::Completed { result },
                    _ => return Err(RpcError::internal()),
                }
            }
            TaskState::Failed { .. } => {
                let error = RpcError::internal();
                let error = serde_json::to_value(error.wire(context.revision()));
                TaskState::Failed { error: error.unwrap_or_default() }
            }
            state => state,
        })
    }
}

/// Key of a question in `inputRequests`. An invalid answer leads to another key.
pub(super) fn request_key(question: &OpenQuestion) -> String {
    format!("{}#{}", question.key, question.id())
}

fn request(context: &Context, question: &OpenQuestion) -> Result<Value, RpcError> {
    let params = Form::of(question)?.params(context.revision())?;
    let request = InputRequest { method: method::ELICITATION_CREATE, params };
    serde_json::to_value(request).map_err(|_| RpcError::internal())
}

/// Returns the status that an ending leads to, without its payload.
///
/// A flow that fails or expires has a result, like any tool that fails. Only bugs of the server are
/// protocol errors, as a panic of a handler is.
fn status_of(ending: &Ending) -> TaskState {
    match ending {
        Ending::Cancelled { reason } if !reason.as_deref().is_some_and(output::is_declined) => {
            TaskState::Cancelled
        }
        Ending::Failed(fault)
            if matches!(fault.name, FaultName::Panicked | FaultName::Diverged) =>
        {
            TaskState::Failed { error: Value::Null }
        }
        _ => TaskState::Completed { result: Map::new() },
    }
}

/// Returns whether a session was cancelled and only its compensations run: a task that is cancelled
/// says so at once.
fn is_being_cancelled(view: &View) -> bool {
    let ending = view.closing.as_deref();
    ending.is_some_and(|ending| matches!(status_of(ending), TaskState::Cancelled))
}

fn describe_ending(ending: &Ending) -> Option<String> {
    match ending {
        Ending::Completed { summary, .. } => summary.clone(),
        Ending::Cancelled { reason } => reason.clone(),
        Ending::Failed(fault) => Some(fault.message.clone()),
        Ending::Expired(_) => Some("The task has expired".to_owned()),
    }
}

/// Describes for people what a sleeping flow waits for.
fn asleep(view: &View) -> String {
    match (view.wakes, &view.awaits[..]) {
        (None, awaits) => format!("waits for `{}`", awaits.join("` or `")),
        (Some(wakes), []) => format!("asleep until {}", wakes.to_iso8601()),
        (Some(wakes), awaits) => {
            format!("waits for `{}` until {}", awaits.join("` or `"), wakes.to_iso8601())
        }
    }
}

/// Describes progress for people.
fn describe(progress: &FlowProgress) -> String {
    let FlowProgress { current, total, message } = progress;
    match message {
        Some(message) => format!("{message} ({current} of {total})"),
        None => format!("{current} of {total}"),
    }
}

/// Suggested time between two polls.
const POLL_INTERVAL_MS: u64 = 1_000;
