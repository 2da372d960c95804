//! What the server asks of the client: requests with a time limit, and notifications.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use mcp_flow_proto::model::TraceContext;
use mcp_flow_proto::raw::EncodeError;
use mcp_flow_proto::{DecodeError, OwnedRaw, Raw, RequestId, method, write};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::{Moment, Route, Shared};
use crate::context::Context;

/// Speaks to the client of one connection.
#[derive(Clone, Debug)]
pub struct Client {
    shared: Arc<Shared>,
    /// The call that speaks, whose place others may have while it waits for the answer.
    call: Option<Context>,
}

impl Client {
    pub(crate) fn new(shared: Arc<Shared>, call: Option<Context>) -> Self {
        Self { shared, call }
    }

    /// Asks the client something and waits for its answer, up to the server's time limit.
    ///
    /// A client that does not answer in time is told that the request is cancelled.
    pub async fn request<T: DeserializeOwned>(
        &self,
        method: &str,
        params: &(impl Serialize + Sync),
    ) -> Result<T, ClientError> {
        let limit = self.shared.limits.client_request_time;
        self.request_within(limit, method, params).await
    }

    /// As [`request`](Self::request), with a time limit of its own.
    pub async fn request_within<T: DeserializeOwned>(
        &self,
        limit: Duration,
        method: &str,
        params: &(impl Serialize + Sync),
    ) -> Result<T, ClientError> {
        if self.call.as_ref().is_some_and(|call| call.revision().is_stateless()) {
            return Err(ClientError::NotAllowed);
        }
        self.until_ready().await;
        let (mut open, answer) = OpenRequest::new(self)?;
        let (encoding, id) = (self.shared.encoding(), RequestId::Integer(open.id));
        let mut message = Vec::new();
        match self.call.as_ref().and_then(Context::trace) {
            Some(trace) => {
                let params =
                    traced(serde_json::to_value(params).map_err(EncodeError::from)?, trace);
                write::request(&mut message, encoding, &id, method, &params)?;
            }
            None => write::request(&mut message, encoding, &id, method, params)?,
        }
        self.send(&message);
        let answer = {
            let _lent = self.call.as_ref().map(LentPlace::new);
            tokio::time::timeout(limit, answer).await.map_err(|_| ClientError::TimedOut(limit))?
        };
        open.answered = true;
        match answer.map_err(|_| ClientError::Closed)? {
            Ok(result) => Ok(result.as_raw().decode()?),
            Err(error) => Err(ClientError::Refused(error.as_raw().decode().unwrap_or_default())),
        }
    }

    /// Tells the client something, once it is ready to be told.
    pub async fn notify(
        &self,
        method: &str,
        params: &(impl Serialize + Sync),
    ) -> Result<(), ClientError> {
        // The handshake may change the encoding.
        self.until_ready().await;
        let mut message = Vec::new();
        write::notification(&mut message, self.shared.encoding(), method, params)?;
        self.send(&message);
        Ok(())
    }

    /// The same client, spoken to outside any call: what is sent does not go the way of the call's
    /// reply, and may come after it.
    #[must_use]
    pub fn outside_the_call(&self) -> Self {
        Self { shared: self.shared.clone(), call: None }
    }

    /// The present moment of the connection. What is sent after this has not left by then.
    pub fn moment(&self) -> Moment {
        self.shared.moment()
    }

    /// Whether the client can be sent what it did not ask for. Over Streamable HTTP it can while
    /// it listens.
    pub fn is_reachable(&self) -> bool {
        self.shared.is_reachable()
    }

    /// Whether the client does not read as fast as it is sent to. What can wait should.
    pub fn is_congested(&self) -> bool {
        self.shared.is_congested()
    }

    /// Whether the connection has ended, or is about to.
    pub fn is_closed(&self) -> bool {
        self.shared.client.open().closed
    }

    /// Waits until nothing can be asked of the client any more, because the connection ends.
    pub async fn closed(&self) {
        self.shared.client.closed().await;
    }
}

impl Client {
    /// Sends a message on the way of the call that speaks.
    fn send(&self, message: &[u8]) {
        let common = Route::default();
        let route = self.call.as_ref().map_or(&common, Context::route);
        self.shared.send(route, message.len(), || true, |out| out.extend_from_slice(message));
    }

    /// Waits until the client may be sent what it did not ask for. Within a call it has asked.
    async fn until_ready(&self) {
        if self.call.is_none() {
            let ready = self.shared.state().lifecycle.ready();
            ready.wait().await;
        }
    }
}

/// Why the client did not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The revision has no requests from server to client.
    #[error("a client of this revision cannot be sent requests")]
    NotAllowed,
    /// Too many requests wait for this client already. Ask again when some are answered.
    #[error("the client has not answered {0} requests; ask again later")]
    TooMany(usize),
    /// No answer came in time. The client was told that the request is cancelled.
    #[error("the client did not answer within {0:?}")]
    TimedOut(Duration),
    /// The connection ended before an answer came.
    #[error("the connection ended before the client answered")]
    Closed,
    /// The client answered with an error.
    #[error("the client refused: {}", .0["message"].as_str().unwrap_or("no reason given"))]
    Refused(serde_json::Value),
    /// The client answered with something else than was asked for.
    #[error("the client's answer cannot be used: {0}")]
    Malformed(#[from] DecodeError),
    /// What was to be sent cannot be written.
    #[error(transparent)]
    Encode(#[from] EncodeError),
}

/// Requests that wait for the client, by id.
#[derive(Debug)]
pub(crate) struct ClientRequests {
    open: Mutex<OpenRequests>,
    /// Made when somebody wants to know of the end.
    ended: OnceLock<CancellationToken>,
    limit: usize,
}

#[derive(Debug, Default)]
struct OpenRequests {
    waiting: HashMap<i64, oneshot::Sender<Answer>>,
    last_id: i64,
    closed: bool,
}

type Answer = Result<OwnedRaw, OwnedRaw>;

impl ClientRequests {
    pub(crate) fn new(limit: usize) -> Self {
        Self { open: Mutex::default(), ended: OnceLock::new(), limit }
    }

    /// Hands an answer to whoever waits for it.
    pub(crate) fn settle(&self, id: i64, outcome: Result<Raw<'_>, Raw<'_>>) {
        let waiting = self.open().waiting.remove(&id);
        if let Some(waiting) = waiting {
            // Whoever asked may have stopped waiting at this very moment.
            let _ = waiting.send(outcome.map(Raw::to_owned).map_err(Raw::to_owned));
        }
    }

    /// Ends all waiting: no answer will come any more.
    pub(crate) fn close(&self) {
        let mut open = self.open();
        open.closed = true;
        open.waiting.clear();
        drop(open);
        if let Some(ended) = self.ended.get() {
            ended.cancel();
        }
    }

    async fn closed(&self) {
        // Made before looking: whoever closes after that finds it.
        let ended = self.ended.get_or_init(CancellationToken::new).clone();
        if !self.open().closed {
            ended.cancelled().await;
        }
    }

    fn open(&self) -> MutexGuard<'_, OpenRequests> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One open request; forgotten, and cancelled at the client, when nobody waits for it any more.
struct OpenRequest<'a> {
    client: &'a Client,
    id: i64,
    answered: bool,
}

impl<'a> OpenRequest<'a> {
    fn new(client: &'a Client) -> Result<(Self, oneshot::Receiver<Answer>), ClientError> {
        let requests = &client.shared.client;
        let mut open = requests.open();
        if open.closed {
            return Err(ClientError::Closed);
        }
        if open.waiting.len() >= requests.limit {
            return Err(ClientError::TooMany(requests.limit));
        }
        open.last_id += 1;
        let id = open.last_id;
        let (sender, receiver) = oneshot::channel();
        open.waiting.insert(id, sender);
        Ok((Self { client, id, answered: false }, receiver))
    }
}

impl Drop for OpenRequest<'_> {
    fn drop(&mut self) {
        if self.answered {
            return;
        }
        let shared = &self.client.shared;
        shared.client.open().waiting.remove(&self.id);
        let params = json!({"requestId": self.id, "reason": "the server stopped waiting"});
        let mut message = Vec::new();
        write::notification(&mut message, shared.encoding(), method::CANCELLED, &params)
            .expect("a number and a text can be encoded");
        self.client.send(&message);
    }
}

/// Lends a waiting call's place to others.
struct LentPlace<'a>(&'a Context);

impl<'a> LentPlace<'a> {
    fn new(call: &'a Context) -> Self {
        call.lend_place();
        Self(call)
    }
}

impl Drop for LentPlace<'_> {
    fn drop(&mut self) {
        self.0.take_place_back();
    }
}

/// Params of a request that belongs to the trace of the call it is made for (MCP-077).
fn traced(mut params: Value, trace: &TraceContext) -> Value {
    if params.is_null() {
        params = json!({});
    }
    if let Value::Object(members) = &mut params {
        let meta = members.entry("_meta").or_insert_with(|| json!({}));
        if let Value::Object(meta) = meta {
            trace.add_to(meta);
        }
    }
    params
}
