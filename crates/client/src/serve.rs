//! Requests from the server: ping, elicitation, sampling, roots and pushed interaction messages.
//!
//! Ping is answered at once; the host answers the others in tasks, of which a connection has a
//! limited number.

use std::sync::{Arc, Mutex, PoisonError};

use hashbrown::HashMap;
use mcp_flow_proto::error::{RATE_LIMITED, RpcErrorKind};
use mcp_flow_proto::model::{CreateMessage, ElicitationCapability, FormSchema, ListRootsResult};
use mcp_flow_proto::{Request, RequestId, RpcError, method, write};
use serde_json::{Map, Value, json};
use tokio::task::AbortHandle;

use crate::client::Shared;
use crate::host::{Asker, ElicitAnswer, Elicitation, SampleRefusal};
use crate::link::Link;

/// Handles one request from the server, at once or in a task.
pub(crate) fn answer(shared: &Arc<Shared>, link: &Arc<Link>, request: &Request<'_>) {
    match &*request.method {
        method::PING => reply(link, &request.id, Ok(json!({}))),
        method::ELICITATION_CREATE | method::SAMPLING_CREATE_MESSAGE | method::ROOTS_LIST => {
            let Ok(params) = request.params.decode::<Value>() else {
                let error = RpcError::invalid_params("params must be an object");
                return reply(link, &request.id, Err(error));
            };
            let method = request.method.to_string();
            let (shared, id) = (shared.clone(), request.id.clone());
            in_background(link, &request.id, async move |link: Arc<Link>| {
                let outcome = question(&shared, &link, &method, params).await;
                reply(&link, &id, outcome.map_err(Unanswered::into_error));
            });
        }
        method if method.starts_with("interaction.") => {
            crate::interaction::pushed(shared, link, request);
        }
        unknown => reply(link, &request.id, Err(RpcError::method_not_found(unknown))),
    }
}

/// Spawns the handler of a request, unless too many are running.
fn in_background<F>(link: &Arc<Link>, id: &RequestId, run: impl FnOnce(Arc<Link>) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let Some(place) = link.questions().enter(id) else {
        let error = RpcError::new(RATE_LIMITED).details("Too many concurrent requests.");
        return reply(link, id, Err(error));
    };
    let (future, task_link, key) = (run(link.clone()), link.clone(), id.clone());
    let task = tokio::spawn(async move {
        future.await;
        task_link.questions().leave(&key, place);
    });
    link.questions().owned_by(id, place, task.abort_handle());
}

/// Sends the response to a request from the server.
pub(crate) fn reply(link: &Link, id: &RequestId, outcome: Result<Value, RpcError>) {
    let encoding = link.encoding();
    let mut frame = Vec::new();
    let result = outcome.and_then(|result| {
        encoding.encode(&result).map_err(|error| RpcError::internal().details(error.to_string()))
    });
    match result {
        Ok(result) => write::result(&mut frame, encoding, id, &result),
        Err(error) => write::error(&mut frame, encoding, Some(id), &error, link.revision()),
    }
    link.respond(frame);
}

/// Failure to answer a request from the server.
#[derive(Debug)]
pub(crate) enum Unanswered {
    /// The host denied it, or the model failed.
    Refused(SampleRefusal),
    /// The request is invalid, or needs a capability that was not declared.
    Wrong(RpcError),
}

impl Unanswered {
    fn into_error(self) -> RpcError {
        let refusal = match self {
            Self::Wrong(error) => return error,
            Self::Refused(refusal) => refusal,
        };
        match &refusal {
            SampleRefusal::Denied(reason) => RpcError::new(USER_REJECTED).details(reason),
            SampleRefusal::Model(reason) => RpcError::new(MODEL_ERROR).details(reason),
            SampleRefusal::Timeout => RpcError::new(SAMPLING_TIMEOUT),
            SampleRefusal::RateLimited => RpcError::new(RATE_LIMITED),
        }
    }
}

/// Answers an elicitation, sampling or roots request, whether it came as a request or in an
/// `input_required` result.
pub(crate) async fn question(
    shared: &Shared,
    link: &Link,
    method: &str,
    params: Value,
) -> Result<Value, Unanswered> {
    let asker = shared.asker(link);
    let capabilities = shared.host.capabilities();
    let limit = shared.options.answer_limit;
    match method {
        method::ELICITATION_CREATE => {
            let Some(offered) = capabilities.elicitation else { return Err(not_offered(method)) };
            let asked = elicitation(params, offered).map_err(Unanswered::Wrong)?;
            let answer = elicit(shared, &asker, asked, limit).await;
            Ok(answer)
        }
        method::SAMPLING_CREATE_MESSAGE => {
            if capabilities.sampling.is_none() {
                return Err(not_offered(method));
            }
            let request: CreateMessage = serde_json::from_value(params)
                .map_err(|error| Unanswered::Wrong(RpcError::invalid_params(error.to_string())))?;
            let answering = shared.host.sample(&asker, request);
            let answer = tokio::time::timeout(limit, answering).await;
            let answer = answer.unwrap_or(Err(SampleRefusal::Timeout));
            let answer = answer.map_err(Unanswered::Refused)?;
            Ok(serde_json::to_value(answer.wire(link.revision())).unwrap_or_default())
        }
        method::ROOTS_LIST => {
            if capabilities.roots.is_none() {
                return Err(not_offered(method));
            }
            let roots = tokio::time::timeout(limit, shared.host.roots(&asker)).await;
            let roots = ListRootsResult { roots: roots.unwrap_or_default() };
            Ok(serde_json::to_value(roots).unwrap_or_default())
        }
        unknown => Err(Unanswered::Wrong(RpcError::method_not_found(unknown))),
    }
}

fn not_offered(method: &str) -> Unanswered {
    let error = RpcError::method_not_found(method);
    Unanswered::Wrong(error.details("This client did not declare the capability."))
}

async fn elicit(
    shared: &Shared,
    asker: &Asker,
    asked: Elicitation,
    limit: std::time::Duration,
) -> Value {
    let schema = match &asked {
        Elicitation::Form { schema, .. } => Some(schema.clone()),
        Elicitation::Url { .. } => None,
    };
    let answer = tokio::time::timeout(limit, shared.host.elicit(asker, asked)).await;
    match (answer.unwrap_or(ElicitAnswer::Cancel), schema) {
        (ElicitAnswer::Accept(content), Some(schema)) => {
            json!({"action": "accept", "content": with_defaults(content, &schema)})
        }
        (ElicitAnswer::Accept(_), None) => json!({"action": "accept"}),
        (ElicitAnswer::Decline, _) => json!({"action": "decline"}),
        (ElicitAnswer::Cancel, _) => json!({"action": "cancel"}),
    }
}

/// Adds the schema's default values for missing fields.
fn with_defaults(mut content: Map<String, Value>, schema: &Value) -> Map<String, Value> {
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, property) in properties.into_iter().flatten() {
        if let Some(default) = property.get("default")
            && !content.contains_key(name)
        {
            content.insert(name.clone(), default.clone());
        }
    }
    content
}

fn elicitation(mut params: Value, offered: ElicitationCapability) -> Result<Elicitation, RpcError> {
    let text = |params: &Value, name: &str| {
        let found = params.get(name).and_then(Value::as_str).map(str::to_owned);
        found.ok_or_else(|| RpcError::invalid_params(format!("{name} must be a string")))
    };
    let message = text(&params, "message")?;
    match params.get("mode").and_then(Value::as_str).unwrap_or("form") {
        "form" if offered.form => {
            let schema = params.get_mut("requestedSchema").map(Value::take).unwrap_or_default();
            let form = FormSchema::from_schema(&schema).ok();
            if !schema.is_object() {
                return Err(RpcError::invalid_params("requestedSchema must be an object"));
            }
            Ok(Elicitation::Form { message, schema, form })
        }
        "url" if offered.url => {
            let url = text(&params, "url")?;
            let id = params.get("elicitationId").and_then(Value::as_str).map(str::to_owned);
            Ok(Elicitation::Url { message, url, id })
        }
        mode => {
            let mode: String = mode.chars().take(32).collect();
            Err(RpcError::invalid_params(format!("unsupported elicitation mode {mode:?}")))
        }
    }
}

/// The user denied it (C-33).
const USER_REJECTED: RpcErrorKind = fault("USER_REJECTED", -1, "The user rejected the request");
/// The model failed.
const MODEL_ERROR: RpcErrorKind = fault("MODEL_ERROR", -32603, "The model failed");
/// The model timed out.
const SAMPLING_TIMEOUT: RpcErrorKind = fault("SAMPLING_TIMEOUT", -32603, "The model took too long");

const fn fault(name: &'static str, code: i32, message: &'static str) -> RpcErrorKind {
    RpcErrorKind { domain: "mcp", name, code, stateless_code: code, message }
}

/// Requests from the server that are pending on one connection.
#[derive(Debug)]
pub(crate) struct Questions {
    open: Mutex<Open>,
    most: usize,
}

#[derive(Debug, Default)]
struct Open {
    tasks: HashMap<RequestId, (u64, Option<AbortHandle>)>,
    next: u64,
    is_closed: bool,
}

impl Questions {
    pub(crate) fn new(most: usize) -> Self {
        Self { open: Mutex::default(), most }
    }

    /// Returns whether any request is pending.
    pub(crate) fn are_open(&self) -> bool {
        !self.lock().tasks.is_empty()
    }

    /// Registers a request and returns its ticket; `None` at the limit, or if the id is in use.
    fn enter(&self, id: &RequestId) -> Option<u64> {
        let mut open = self.lock();
        if open.is_closed || open.tasks.len() >= self.most || open.tasks.contains_key(id) {
            return None;
        }
        open.next += 1;
        let place = open.next;
        open.tasks.insert(id.clone(), (place, None));
        Some(place)
    }

    fn owned_by(&self, id: &RequestId, place: u64, task: AbortHandle) {
        let mut open = self.lock();
        if open.is_closed {
            return task.abort();
        }
        // If the entry is gone, the task has finished.
        if let Some(entry) = open.tasks.get_mut(id).filter(|entry| entry.0 == place) {
            entry.1 = Some(task);
        }
    }

    fn leave(&self, id: &RequestId, place: u64) {
        let mut open = self.lock();
        if open.tasks.get(id).is_some_and(|entry| entry.0 == place) {
            open.tasks.remove(id);
        }
    }

    /// Handles the server's `notifications/cancelled`.
    pub(crate) fn cancel(&self, id: &RequestId) {
        let task = self.lock().tasks.remove(id);
        if let Some((_, Some(task))) = task {
            task.abort();
        }
    }

    pub(crate) fn close(&self) {
        let tasks = {
            let mut open = self.lock();
            open.is_closed = true;
            std::mem::take(&mut open.tasks)
        };
        for (_, (_, task)) in tasks {
            if let Some(task) = task {
                task.abort();
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
