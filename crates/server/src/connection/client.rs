//! Requests and notifications from the server to the client.
//!
//! A [`Client`] pairs requests with the responses that `dispatch` passes on. It does not decide what may be
//! asked under which revision: that is `server::ask`.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use mcp_flow_proto::model::TraceContext;
use mcp_flow_proto::raw::EncodeError;
use mcp_flow_proto::{DecodeError, OwnedRaw, Raw, RequestId, method, write};
use mcp_flow_telemetry::{Span, SpanKind};
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::call::Call;
use super::exchange::ReplyQueue;
use super::permit::LentPermit;
use super::{ConnectionInner, Route, SendPosition};

/// Sends requests and notifications to the client of one connection.
#[derive(Clone, Debug)]
pub struct Client {
    connection: Arc<ConnectionInner>,
    /// The call that sends, which lends its permit while it waits for the response.
    call: Option<Arc<Call>>,
}

impl Client {
    pub(crate) fn new(connection: Arc<ConnectionInner>, call: Option<Arc<Call>>) -> Self {
        Self { connection, call }
    }

    /// Sends a request and waits for the response, up to the server's time limit.
    ///
    /// A request that is not answered in time is cancelled.
    pub async fn request<T: DeserializeOwned>(
        &self,
        method: &str,
        params: &(impl Serialize + Sync),
    ) -> Result<T, ClientError> {
        let limit = self.connection.limits.client_request_time;
        self.request_within(limit, method, params).await
    }

    /// Like [`request`](Self::request), with another time limit.
    pub async fn request_within<T: DeserializeOwned>(
        &self,
        limit: Duration,
        method: &str,
        params: &(impl Serialize + Sync),
    ) -> Result<T, ClientError> {
        self.request_observed(limit, method, params, |_| ()).await
    }

    /// Like [`request_within`](Self::request_within). Calls `queued` with the send position at which the
    /// request is queued, under the lock of the queue: nothing is taken from it in between.
    pub async fn request_observed<T: DeserializeOwned>(
        &self,
        limit: Duration,
        method: &str,
        params: &(impl Serialize + Sync),
        queued: impl FnOnce(SendPosition) + Send,
    ) -> Result<T, ClientError> {
        if self.call.as_ref().is_some_and(|call| call.revision().is_stateless()) {
            return Err(ClientError::NotAllowed);
        }
        self.until_ready().await;
        let (mut open, answer) = OpenRequest::new(self)?;
        let (encoding, id) = (self.connection.output.encoding(), RequestId::Integer(open.id));
        let mut message = Vec::new();
        let mut span = Span::start(SpanKind::Client, || method.to_owned().into());
        span.set("mcp.method.name", || method.to_owned());
        let trace = self.call.as_ref().and_then(|call| call.handler.trace());
        match span.context().as_ref().or(trace) {
            Some(trace) => {
                let params =
                    traced(serde_json::to_value(params).map_err(EncodeError::from)?, trace);
                write::request(&mut message, encoding, &id, method, &params)?;
            }
            None => write::request(&mut message, encoding, &id, method, params)?,
        }
        self.send(&message, |position| {
            open.record_queued(position);
            queued(position);
        });
        let answer = {
            let _lent = self.call.as_deref().map(LentPermit::new);
            tokio::time::timeout(limit, answer).await.map_err(|_| {
                span.fail("timeout", || "the client did not answer".to_owned());
                ClientError::TimedOut(limit)
            })?
        };
        open.answered = true;
        match answer.map_err(|_| ClientError::Closed)? {
            Ok(result) => Ok(result.as_raw().decode()?),
            Err(error) => Err(ClientError::Refused(error.as_raw().decode().unwrap_or_default())),
        }
    }

    /// Sends a notification, once the client is ready.
    pub async fn notify(
        &self,
        method: &str,
        params: &(impl Serialize + Sync),
    ) -> Result<(), ClientError> {
        // The handshake may change the encoding.
        self.until_ready().await;
        self.connection.output.notify(self.route(), method, params)?;
        Ok(())
    }

    /// The same client outside any call: messages do not take the route of the call's reply, and may
    /// follow it.
    #[must_use]
    pub fn outside_the_call(&self) -> Self {
        Self { connection: self.connection.clone(), call: None }
    }

    /// The send position of a message that is queued next. It is unsent at positions before that.
    pub fn queue_position(&self) -> SendPosition {
        self.connection.output.send_position().of_queued()
    }

    /// Returns whether the client can be sent unsolicited messages. Over Streamable HTTP it can
    /// while it has a listening stream.
    pub fn is_reachable(&self) -> bool {
        self.connection.is_reachable()
    }

    /// Returns whether the client reads more slowly than messages are queued. Messages that can wait
    /// should.
    pub fn is_congested(&self) -> bool {
        self.connection.output.is_congested()
    }

    /// Returns whether the connection has closed, or is closing.
    pub fn is_closed(&self) -> bool {
        self.connection.client.open.lock().closed
    }

    /// Waits until the connection closes.
    pub async fn closed(&self) {
        self.connection.client.closed().await;
    }
}

impl Client {
    /// The route of the call that sends.
    fn route(&self) -> &Route {
        static COMMON: Route = Route::COMMON;
        self.call.as_ref().map_or(&COMMON, |call| &call.route)
    }

    /// Queues a message on the route of the call, and calls `queued` with its send position.
    fn send(&self, message: &[u8], queued: impl FnOnce(SendPosition)) {
        let output = &self.connection.output;
        let write = |out: &mut Vec<u8>| {
            queued(output.send_position().of_queued());
            out.extend_from_slice(message);
        };
        output.send(self.route(), message.len(), || true, write);
    }

    /// Waits until the client may be sent unsolicited messages. Within a call it may.
    async fn until_ready(&self) {
        if self.call.is_none() {
            let ready = self.connection.state().lifecycle.ready();
            ready.wait().await;
        }
    }
}

/// Error of a request to the client.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The revision has no requests from server to client.
    #[error("a client of this revision cannot be sent requests")]
    NotAllowed,
    /// Too many requests to this client are outstanding. Retry when some are answered.
    #[error("the client has not answered {0} requests; ask again later")]
    TooMany(usize),
    /// No response in time. The request was cancelled.
    #[error("the client did not answer within {0:?}")]
    TimedOut(Duration),
    /// The connection closed before a response.
    #[error("the connection ended before the client answered")]
    Closed,
    /// The client responded with an error.
    #[error("the client refused: {}", .0["message"].as_str().unwrap_or("no reason given"))]
    Refused(serde_json::Value),
    /// The response cannot be decoded.
    #[error("the client's answer cannot be used: {0}")]
    Malformed(#[from] DecodeError),
    /// The request cannot be encoded.
    #[error(transparent)]
    Encode(#[from] EncodeError),
}

/// The outstanding requests to the client, by id.
#[derive(Debug)]
pub(crate) struct ClientRequests {
    open: Mutex<OpenRequests>,
    /// Created when first waited for.
    ended: OnceLock<CancellationToken>,
    limit: usize,
}

#[derive(Debug, Default)]
struct OpenRequests {
    waiting: HashMap<i64, Unanswered>,
    last_id: i64,
    closed: bool,
}

/// A request that waits for its response.
#[derive(Debug)]
struct Unanswered {
    answer: oneshot::Sender<Answer>,
    /// None until it is queued.
    queued: Option<QueuedRequest>,
}

/// The place of a request among the messages to the client.
#[derive(Debug)]
struct QueuedRequest {
    position: SendPosition,
    /// The queue of an exchange, and the segments taken from it before.
    queue: Option<(Arc<ReplyQueue>, u64)>,
}

impl QueuedRequest {
    /// Returns whether the sender of a message received at this position can know the request.
    fn is_known_at(&self, received: SendPosition) -> bool {
        // The position counts segments of all queues; the request is in one of them.
        let is_sent = self.queue.as_ref().is_none_or(|(queue, taken)| queue.taken() > *taken);
        is_sent && !received.is_before_sending(self.position)
    }
}

type Answer = Result<OwnedRaw, OwnedRaw>;

impl ClientRequests {
    pub(crate) fn new(limit: usize) -> Self {
        Self { open: Mutex::default(), ended: OnceLock::new(), limit }
    }

    /// Passes a response to the request it answers. One that was received before its request was
    /// sent is a guess, and ignored (C-62).
    pub(crate) fn resolve(
        &self,
        id: i64,
        outcome: Result<Raw<'_>, Raw<'_>>,
        received: SendPosition,
    ) {
        let mut open = self.open.lock();
        let Some(Unanswered { queued: Some(queued), .. }) = open.waiting.get(&id) else { return };
        if !queued.is_known_at(received) {
            return;
        }
        let request = open.waiting.remove(&id);
        drop(open);
        if let Some(Unanswered { answer, .. }) = request {
            // The receiver may be dropped at this very moment.
            let _ = answer.send(outcome.map(Raw::to_owned).map_err(Raw::to_owned));
        }
    }

    /// Fails all outstanding requests: no response will come any more.
    pub(crate) fn close(&self) {
        let mut open = self.open.lock();
        open.closed = true;
        open.waiting.clear();
        drop(open);
        if let Some(ended) = self.ended.get() {
            ended.cancel();
        }
    }

    async fn closed(&self) {
        // Created before the check: a later close cancels it.
        let ended = self.ended.get_or_init(CancellationToken::new).clone();
        let is_closed = self.open.lock().closed;
        if !is_closed {
            ended.cancelled().await;
        }
    }
}

/// One outstanding request; removed, and cancelled at the client, when dropped unanswered.
struct OpenRequest<'a> {
    client: &'a Client,
    id: i64,
    answered: bool,
}

impl<'a> OpenRequest<'a> {
    fn new(client: &'a Client) -> Result<(Self, oneshot::Receiver<Answer>), ClientError> {
        let requests = &client.connection.client;
        let mut open = requests.open.lock();
        if open.closed {
            return Err(ClientError::Closed);
        }
        if open.waiting.len() >= requests.limit {
            return Err(ClientError::TooMany(requests.limit));
        }
        open.last_id += 1;
        let id = open.last_id;
        let (answer, receiver) = oneshot::channel();
        open.waiting.insert(id, Unanswered { answer, queued: None });
        Ok((Self { client, id, answered: false }, receiver))
    }

    /// Records that the request is being queued. Responses received before are ignored.
    fn record_queued(&self, position: SendPosition) {
        let queue = self.client.route().queue.as_ref();
        let queue = queue.map(|queue| (queue.clone(), queue.taken()));
        let mut open = self.client.connection.client.open.lock();
        if let Some(request) = open.waiting.get_mut(&self.id) {
            request.queued = Some(QueuedRequest { position, queue });
        }
    }
}

impl Drop for OpenRequest<'_> {
    fn drop(&mut self) {
        if self.answered {
            return;
        }
        let connection = &self.client.connection;
        connection.client.open.lock().waiting.remove(&self.id);
        let params = json!({"requestId": self.id, "reason": "the server stopped waiting"});
        connection
            .output
            .notify(self.client.route(), method::CANCELLED, &params)
            .expect("a number and a text can be encoded");
    }
}

/// Adds the trace context of a call to the params of a request made for it (MCP-077).
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
