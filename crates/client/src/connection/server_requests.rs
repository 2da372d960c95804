//! Requests from the server: ping, elicitation, sampling, roots and pushed interaction messages.
//!
//! Ping is answered at once; the host answers the others in tasks, of which a connection has a
//! limited number.

use std::sync::Arc;

use hashbrown::HashMap;
use mcp_flow_proto::error::{CALL_TIMED_OUT, RATE_LIMITED, RpcErrorKind};
use mcp_flow_proto::model::{CreateMessage, ElicitationCapability, FormSchema, ListRootsResult};
use mcp_flow_proto::{Request, RequestId, RpcError, method, write};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tokio::task::AbortHandle;

use crate::client::ClientInner;
use crate::connection::Connection;
use crate::host::{ElicitAnswer, Elicitation, Host, SampleRefusal, ServerIdentity};

/// Handles one request from the server, at once or in a task.
pub(crate) fn handle_request(
    inner: &Arc<ClientInner>,
    connection: &Arc<Connection>,
    host: Arc<dyn Host>,
    request: &Request<'_>,
) {
    match &*request.method {
        method::PING => reply(connection, &request.id, Ok(json!({}))),
        method::ELICITATION_CREATE | method::SAMPLING_CREATE_MESSAGE | method::ROOTS_LIST => {
            let Ok(params) = request.params.decode::<Value>() else {
                let error = RpcError::invalid_params("params must be an object");
                return reply(connection, &request.id, Err(error));
            };
            let method = request.method.to_string();
            let (inner, id) = (inner.clone(), request.id.clone());
            in_background(connection, &request.id, async move |connection: Arc<Connection>| {
                let outcome = answer_request(&inner, &connection, &*host, &method, params).await;
                reply(&connection, &id, outcome.map_err(ServerRequestError::into_error));
            });
        }
        method if method.starts_with("interaction.") => {
            crate::interaction::pushed(inner, connection, request);
        }
        unknown => reply(connection, &request.id, Err(RpcError::method_not_found(unknown))),
    }
}

/// Spawns the handler of a request, unless too many are running.
fn in_background<F>(
    connection: &Arc<Connection>,
    id: &RequestId,
    run: impl FnOnce(Arc<Connection>) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let Some(ticket) = connection.server_requests().register(id) else {
        let error = RpcError::new(RATE_LIMITED).details("Too many concurrent requests.");
        return reply(connection, id, Err(error));
    };
    let (future, task_connection, key) = (run(connection.clone()), connection.clone(), id.clone());
    let task = tokio::spawn(async move {
        future.await;
        task_connection.server_requests().remove(&key, ticket);
    });
    connection.server_requests().set_task(id, ticket, task.abort_handle());
}

/// Sends the response to a request from the server.
pub(crate) fn reply(connection: &Connection, id: &RequestId, outcome: Result<Value, RpcError>) {
    let encoding = connection.encoding();
    let mut frame = Vec::new();
    let result = outcome.and_then(|result| {
        encoding.encode(&result).map_err(|error| RpcError::internal().details(error.to_string()))
    });
    match result {
        Ok(result) => write::result(&mut frame, encoding, id, &result),
        Err(error) => write::error(&mut frame, encoding, Some(id), &error, connection.revision()),
    }
    connection.respond(frame);
}

/// Failure to answer a request from the server.
#[derive(Debug)]
pub(crate) enum ServerRequestError {
    /// The host denied it, or the model failed.
    Denied(SampleRefusal),
    /// The request is invalid, or needs a capability that was not declared.
    Invalid(RpcError),
}

impl ServerRequestError {
    fn into_error(self) -> RpcError {
        let refusal = match self {
            Self::Invalid(error) => return error,
            Self::Denied(refusal) => refusal,
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
pub(crate) async fn answer_request(
    inner: &ClientInner,
    connection: &Connection,
    host: &dyn Host,
    method: &str,
    params: Value,
) -> Result<Value, ServerRequestError> {
    let server = inner.server_identity(connection);
    let limit = inner.options.answer_timeout;
    if let Some(answer) = host.answer(&server, method, &params) {
        let answer = tokio::time::timeout(limit, answer).await;
        let late = || Err(RpcError::new(CALL_TIMED_OUT).details("nobody answered in time"));
        return answer.unwrap_or_else(|_| late()).map_err(ServerRequestError::Invalid);
    }
    let capabilities = host.capabilities();
    match method {
        method::ELICITATION_CREATE => {
            let Some(offered) = capabilities.elicitation else { return Err(not_offered(method)) };
            let asked = elicitation(params, offered).map_err(ServerRequestError::Invalid)?;
            let answer = elicit(host, &server, asked, limit).await;
            Ok(answer)
        }
        method::SAMPLING_CREATE_MESSAGE => {
            if capabilities.sampling.is_none() {
                return Err(not_offered(method));
            }
            let request: CreateMessage = serde_json::from_value(params).map_err(|error| {
                ServerRequestError::Invalid(RpcError::invalid_params(error.to_string()))
            })?;
            let answering = host.sample(&server, request);
            let answer = tokio::time::timeout(limit, answering).await;
            let answer = answer.unwrap_or(Err(SampleRefusal::Timeout));
            let answer = answer.map_err(ServerRequestError::Denied)?;
            Ok(serde_json::to_value(answer.wire(connection.revision())).unwrap_or_default())
        }
        method::ROOTS_LIST => {
            if capabilities.roots.is_none() {
                return Err(not_offered(method));
            }
            let roots = tokio::time::timeout(limit, host.roots(&server)).await;
            let roots = ListRootsResult { roots: roots.unwrap_or_default() };
            Ok(serde_json::to_value(roots).unwrap_or_default())
        }
        unknown => Err(ServerRequestError::Invalid(RpcError::method_not_found(unknown))),
    }
}

fn not_offered(method: &str) -> ServerRequestError {
    let error = RpcError::method_not_found(method);
    ServerRequestError::Invalid(error.details("This client did not declare the capability."))
}

async fn elicit(
    host: &dyn Host,
    server: &ServerIdentity,
    asked: Elicitation,
    limit: std::time::Duration,
) -> Value {
    let schema = match &asked {
        Elicitation::Form { schema, .. } => Some(schema.clone()),
        Elicitation::Url { .. } => None,
    };
    let answer = tokio::time::timeout(limit, host.elicit(server, asked)).await;
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
pub(crate) struct PendingServerRequests {
    open: Mutex<Open>,
    most: usize,
}

#[derive(Debug, Default)]
struct Open {
    tasks: HashMap<RequestId, (u64, Option<AbortHandle>)>,
    next: u64,
    is_closed: bool,
}

impl PendingServerRequests {
    pub(crate) fn new(most: usize) -> Self {
        Self { open: Mutex::default(), most }
    }

    /// Returns whether any request is pending.
    pub(crate) fn are_open(&self) -> bool {
        !self.lock().tasks.is_empty()
    }

    /// Registers a request and returns its ticket; `None` at the limit, or if the id is in use.
    fn register(&self, id: &RequestId) -> Option<u64> {
        let mut open = self.lock();
        if open.is_closed || open.tasks.len() >= self.most || open.tasks.contains_key(id) {
            return None;
        }
        open.next += 1;
        let ticket = open.next;
        open.tasks.insert(id.clone(), (ticket, None));
        Some(ticket)
    }

    fn set_task(&self, id: &RequestId, ticket: u64, task: AbortHandle) {
        let mut open = self.lock();
        if open.is_closed {
            return task.abort();
        }
        // If the entry is gone, the task has finished.
        if let Some(entry) = open.tasks.get_mut(id).filter(|entry| entry.0 == ticket) {
            entry.1 = Some(task);
        }
    }

    fn remove(&self, id: &RequestId, ticket: u64) {
        let mut open = self.lock();
        if open.tasks.get(id).is_some_and(|entry| entry.0 == ticket) {
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

    fn lock(&self) -> parking_lot::MutexGuard<'_, Open> {
        self.open.lock()
    }
}
