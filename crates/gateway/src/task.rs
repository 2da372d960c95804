//! Calls that an upstream continues as tasks.
//!
//! The task of a stateless upstream is followed to its end, so that every caller gets its result. Its questions are those of a
//! round of the call whose state is the task: the answers are sent to the task, which is followed
//! again, after a restart as well.
//!
//! Under 2025-11-25 a tool may require that its caller asks for a task. Waiting for the result of that
//! task is then part of the live call, with its questions, and ends with the connection.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use mcp_flow_client::model::{DetailedTask, TaskState};
use mcp_flow_client::{Client, Error, Host, ServerError};
use mcp_flow_proto::model::Meta;
use mcp_flow_proto::{OwnedRaw, Revision, RpcError, method};
use mcp_flow_server::Context;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::error;
use crate::forward::{Progress, Requester, failed, read_questions, start};
use crate::isolation::Caller;
use crate::pool::Lease;
use crate::question::CallHost;
use crate::upstream::Upstream;

/// State of a request to a stateless upstream between two rounds.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(untagged)]
pub(crate) enum RoundState {
    /// State that the upstream expects back.
    Request(String),
    /// The request continues as this task.
    Task { task: String },
}

/// A task of an upstream that a session waits for.
#[derive(Debug)]
struct OpenTask {
    upstream: Arc<Upstream>,
    caller: Caller,
    id: String,
}

/// Tasks of upstreams that sessions wait for, by the keys of their calls.
#[derive(Debug, Default)]
pub(crate) struct OpenTasks {
    tasks: Mutex<HashMap<String, OpenTask>>,
}

impl OpenTasks {
    /// Notes the task of a call, if it has one, to be cancelled with its session.
    pub(crate) fn insert(
        &self,
        key: &str,
        upstream: &Arc<Upstream>,
        caller: &Caller,
        state: Option<&RoundState>,
    ) {
        if let Some(RoundState::Task { task }) = state {
            let (upstream, caller) = (upstream.clone(), caller.clone());
            let open = OpenTask { upstream, caller, id: task.clone() };
            self.tasks.lock().insert(key.to_owned(), open);
        }
    }

    /// Notes how a call goes on. The task of one that has failed is not needed any more.
    pub(crate) fn note(
        &self,
        key: &str,
        upstream: &Arc<Upstream>,
        caller: &Caller,
        sent: &Result<Progress, RpcError>,
    ) {
        match sent {
            Ok(Progress::Asked(_, state)) => self.insert(key, upstream, caller, state.as_ref()),
            Ok(_) => {
                self.tasks.lock().remove(key);
            }
            Err(_) => {}
        }
    }

    /// Cancels the task of a call whose session has ended.
    pub(crate) fn cancel(&self, key: &str) {
        let Some(OpenTask { upstream, caller, id }) = self.tasks.lock().remove(key) else { return };
        tokio::spawn(async move {
            if let Ok(lease) = upstream.lease(&caller, None).await {
                // The task may have ended.
                let _ = lease.client().cancel_task(&id).await;
            }
        });
    }
}

/// The task in a result.
pub(crate) fn read_task(upstream: &Upstream, result: &OwnedRaw) -> Result<DetailedTask, RpcError> {
    result.as_raw().decode().map_err(|problem| {
        error::unusable(upstream.name(), &format!("the task cannot be decoded: {problem}"))
    })
}

/// Follows a task that a call has begun. Dropping the future cancels the task.
pub(crate) async fn follow_new(
    upstream: &Upstream,
    requester: &Requester,
    lease: &Lease,
    id: String,
) -> Result<Progress, RpcError> {
    let unfinished = CancelOnDrop::new(lease.client(), &id);
    let progress = follow(upstream, requester, lease, &id, Map::new()).await;
    unfinished.disarm();
    progress
}

/// Sends answers to a task, and follows it to its end or its next questions.
pub(crate) async fn follow(
    upstream: &Upstream,
    requester: &Requester,
    lease: &Lease,
    id: &str,
    answers: Map<String, Value>,
) -> Result<Progress, RpcError> {
    let Requester { capabilities, context, .. } = requester;
    let host = Arc::new(CallHost::for_round(context.clone(), *capabilities).with_tasks());
    let request = lease.client().follow_task(id).encoded();
    let answered: Vec<String> = answers.keys().cloned().collect();
    let following: BoxFuture<'_, _> = start(request, host, Some((answers, None)), context.as_ref());
    let raw = following.await.map_err(|failure| failed(upstream, failure))?;
    let task = read_task(upstream, &raw)?;
    match task.state {
        TaskState::Completed { .. } => match raw.as_raw().members(["result"]) {
            Ok([Some(result)]) => Ok(Progress::Result(result.to_owned())),
            _ => Err(error::unusable(upstream.name(), "the completed task has no result")),
        },
        TaskState::Failed { error } => Err(failed(upstream, Error::Server(server_error(&error)))),
        TaskState::InputRequired { mut input_requests } => {
            input_requests.retain(|key, _| !answered.contains(key));
            let questions = read_questions(upstream.name(), *capabilities, input_requests)?;
            Ok(Progress::Asked(questions, Some(RoundState::Task { task: task.task_id })))
        }
        TaskState::Cancelled | TaskState::Working => {
            let reason = task.status_message;
            Err(failed(upstream, Error::Cancelled { task: task.task_id, reason }))
        }
    }
}

fn server_error(error: &Value) -> ServerError {
    ServerError {
        code: error["code"].as_i64().unwrap_or_default(),
        message: error["message"].as_str().unwrap_or("no error message").to_owned(),
        data: error["data"].clone(),
    }
}

/// Returns whether an upstream of 2025-11-25 takes calls of a tool only as tasks.
pub(crate) async fn is_required(lease: &Lease, tool: &str) -> bool {
    // What the client has listed on this connection is found at once.
    lease.revision() == Revision::V2025_11_25
        && matches!(lease.client().tool(tool).await, Ok(Some(tool)) if tool.requires_task)
}

/// Calls a tool of an upstream of 2025-11-25 as a task, and waits for the result of the task. Dropping
/// the future cancels it.
pub(crate) fn call_as_task(
    client: &Client,
    (name, arguments, meta): (&str, Value, Meta),
    host: Arc<dyn Host>,
    context: Option<&Context>,
) -> BoxFuture<'static, Result<OwnedRaw, Error>> {
    let params = json!({"name": name, "arguments": arguments, "task": {"ttl": TASK_LIFETIME}});
    let call = client.request(method::TOOLS_CALL, params).encoded().meta(meta);
    let called = start(call, host.clone(), None, context);
    let (client, context) = (client.clone(), context.cloned());
    Box::pin(async move {
        let created = called.await?;
        let task: Option<Value> = match created.as_raw().members(["task"]) {
            Ok([task]) => task.and_then(|task| task.decode().ok()),
            Err(_) => None,
        };
        // An upstream may have called it all the same.
        let Some(id) = task.as_ref().and_then(|task| task["taskId"].as_str()) else {
            return Ok(created);
        };
        let unfinished = CancelOnDrop::new(&client, id);
        let waiting = client.request(TASKS_RESULT, json!({"taskId": id})).encoded();
        let waiting = waiting.timeout(MAX_TASK_DURATION);
        let result = start(waiting, host, None, context.as_ref()).await;
        unfinished.disarm();
        result
    })
}

/// Request for the result of a task, under 2025-11-25. It is answered when the task has ended.
const TASKS_RESULT: &str = "tasks/result";

/// Longest time that a task under 2025-11-25 is waited for.
const MAX_TASK_DURATION: Duration = Duration::from_secs(3600);

/// Time for which an upstream keeps such a task, in milliseconds.
const TASK_LIFETIME: u64 = 3_600_000;

/// Cancels a task on drop, unless disarmed.
struct CancelOnDrop {
    client: Client,
    id: Option<String>,
}

impl CancelOnDrop {
    fn new(client: &Client, id: &str) -> Self {
        Self { client: client.clone(), id: Some(id.to_owned()) }
    }

    fn disarm(mut self) {
        self.id = None;
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        let (Some(id), Ok(runtime)) = (self.id.take(), tokio::runtime::Handle::try_current())
        else {
            return;
        };
        runtime.spawn(self.client.cancel_task(&id).into_future());
    }
}
