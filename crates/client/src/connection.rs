//! One connection: sends requests, and dispatches received messages to pending requests, the host
//! and event listeners.
//!
//! `connect` opens and reopens it, `handshake` negotiates the revision, `server_requests` answers
//! the server.

pub(crate) mod connect;
mod era;
pub(crate) mod handshake;
pub(crate) mod pending;
pub(crate) mod server_requests;
pub(crate) mod signing;

use std::borrow::Cow;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use mcp_flow_proto::error::SIGNATURE_REFUSED;
use mcp_flow_proto::model::CancelParams;
use mcp_flow_proto::{
    Encoding, Incoming, InvalidMessage, Message, Notification, Raw, RequestId, Response,
};
use mcp_flow_proto::{Revision, excerpt, method, write};
use mcp_flow_seal::envelope::EnvelopeError;
use serde::Serialize;
use serde_json::json;
use tokio::sync::{oneshot, watch};

use crate::client::ClientInner;
use crate::connection::handshake::ServerInfo;
use crate::connection::pending::{Pending, ProgressSink, Reply, RequestFailure};
use crate::connection::server_requests::PendingServerRequests;
use crate::connection::signing::SignedChannel;
use crate::error::{Error, ServerError};
use crate::event::{ClientEvent, RequestProgress};
use crate::host::Host;
use crate::transport::{Outgoing, OutgoingKind, Transport, TransportError};

/// One connection to the server.
pub(crate) struct Connection {
    pending: Pending,
    next_id: AtomicI64,
    transport: OnceLock<Arc<dyn Transport>>,
    /// Signs messages before they reach the transport.
    signed: OnceLock<SignedChannel>,
    info: OnceLock<Arc<ServerInfo>>,
    /// `_meta` members of every stateless request, without braces.
    own_meta: OnceLock<String>,
    server_requests: PendingServerRequests,
    inner: Weak<ClientInner>,
    over: watch::Sender<bool>,
    invalid_messages: AtomicUsize,
    unsolicited: parking_lot::Mutex<Unsolicited>,
    invalid_sample: parking_lot::Mutex<Option<String>>,
}

/// Parts of a request besides its method and params.
#[derive(Clone, Default)]
pub(crate) struct RequestExtras<'a> {
    /// The caller's `_meta` members, without braces.
    pub(crate) meta: &'a str,
    /// Members of params that answer an `input_required` result.
    pub(crate) input: &'a [(&'static str, String)],
    pub(crate) name: Option<&'a str>,
    pub(crate) headers: &'a [(String, String)],
    pub(crate) progress: Option<Arc<ProgressSink>>,
    /// Replaces the `_meta` members that every stateless request has.
    pub(crate) own_meta: Option<&'a str>,
    /// Answers the server's requests that belong to this one, instead of the client's host.
    pub(crate) host: Option<Arc<dyn Host>>,
}

impl Connection {
    pub(crate) fn new(inner: Weak<ClientInner>, max_server_requests: usize) -> Self {
        Self {
            pending: Pending::default(),
            next_id: AtomicI64::new(1),
            transport: OnceLock::new(),
            signed: OnceLock::new(),
            info: OnceLock::new(),
            own_meta: OnceLock::new(),
            server_requests: PendingServerRequests::new(max_server_requests),
            inner,
            over: watch::Sender::new(false),
            invalid_messages: AtomicUsize::new(0),
            unsolicited: parking_lot::Mutex::new(Unsolicited { since: Instant::now(), count: 0 }),
            invalid_sample: parking_lot::Mutex::new(None),
        }
    }

    pub(crate) fn attach(&self, transport: Arc<dyn Transport>, signed: Option<SignedChannel>) {
        if let Some(signed) = signed.filter(|_| !transport.signs()) {
            let _ = self.signed.set(signed);
        }
        let _ = self.transport.set(transport);
    }

    pub(crate) fn transport(&self) -> Option<&Arc<dyn Transport>> {
        self.transport.get()
    }

    /// Stores the result of the handshake.
    pub(crate) fn set_server_info(&self, info: ServerInfo, own_meta: String) {
        if let Some(transport) = self.transport() {
            transport.negotiated(info.revision);
        }
        if info.revision.is_stateless() {
            let _ = self.own_meta.set(own_meta);
        }
        let _ = self.info.set(Arc::new(info));
    }

    pub(crate) fn info(&self) -> Option<&Arc<ServerInfo>> {
        self.info.get()
    }

    pub(crate) fn revision(&self) -> Revision {
        self.info().map_or(Revision::BASE, |info| info.revision)
    }

    pub(crate) fn encoding(&self) -> Encoding {
        self.transport().map_or(Encoding::Json, |transport| transport.encoding())
    }

    pub(crate) fn server_requests(&self) -> &PendingServerRequests {
        &self.server_requests
    }

    /// Sends a request and returns the exchange that waits for its response.
    pub(crate) fn request<P: Serialize + ?Sized>(
        self: &Arc<Self>,
        method: Cow<'static, str>,
        params: &P,
        extras: &RequestExtras<'_>,
    ) -> Result<Exchange, RequestError> {
        if self.transport().is_none() {
            return Err(RequestError::Unsent(TransportError::Lost("not connected yet".to_owned())));
        }
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let frame = self.encode(id, &method, params, extras);
        let frame = frame.map_err(|error| RequestError::Usage(error.to_string()))?;
        let reply = self.pending.add(id, extras.progress.clone(), extras.host.clone());
        let reply = reply.map_err(RequestError::Unsent)?;
        let exchange =
            Exchange { connection: self.clone(), id, reply, is_over: false, keeps_on_drop: false };
        let kind = OutgoingKind::Request {
            id,
            method,
            name: extras.name.map(str::to_owned),
            headers: extras.headers.to_vec(),
        };
        self.send(frame, kind);
        Ok(exchange)
    }

    fn encode<P: Serialize + ?Sized>(
        &self,
        id: i64,
        method: &str,
        params: &P,
        extras: &RequestExtras<'_>,
    ) -> Result<Vec<u8>, mcp_flow_proto::raw::EncodeError> {
        let own = extras.own_meta.or(self.own_meta.get().map(String::as_str)).unwrap_or_default();
        let token = extras.progress.as_ref().map(|_| format!("\"progressToken\":{id}"));
        let parts = [own, token.as_deref().unwrap_or_default(), extras.meta];
        let mut meta = String::new();
        for part in parts.into_iter().filter(|part| !part.is_empty()) {
            meta.push(if meta.is_empty() { '{' } else { ',' });
            meta.push_str(part);
        }
        let mut frame = Vec::with_capacity(192 + meta.len());
        let id = RequestId::from(id);
        let encoding = self.encoding();
        if meta.is_empty() && extras.input.is_empty() {
            write::request_with(&mut frame, encoding, &id, method, params, &[])?;
            return Ok(frame);
        }
        if !meta.is_empty() {
            meta.push('}');
        }
        let mut extras: Vec<(&str, &str)> =
            extras.input.iter().map(|(name, json)| (*name, json.as_str())).collect();
        if !meta.is_empty() {
            extras.push(("_meta", &meta));
        }
        write::request_with(&mut frame, encoding, &id, method, params, &extras)?;
        Ok(frame)
    }

    /// Sends a notification. Failures are ignored.
    pub(crate) fn notify<P: Serialize + ?Sized>(&self, method: Cow<'static, str>, params: &P) {
        let mut frame = Vec::new();
        if write::notification(&mut frame, self.encoding(), &method, params).is_ok() {
            self.send(frame, OutgoingKind::Notification { method });
        }
    }

    /// Sends the response to a request from the server.
    pub(crate) fn respond(&self, frame: Vec<u8>) {
        self.send(frame, OutgoingKind::Response);
    }

    fn send(&self, frame: Vec<u8>, kind: OutgoingKind) {
        let Some(transport) = self.transport() else { return };
        log_message("sent", self.encoding(), &frame);
        match self.signed.get() {
            None => transport.send(Outgoing { frame, kind }),
            Some(signed) => {
                signed.send(frame, |frame| transport.send(Outgoing { frame, kind }));
            }
        }
    }

    /// Receives one message.
    pub(crate) fn receive(self: &Arc<Self>, frame: &[u8]) {
        self.receive_in(self.encoding(), frame);
    }

    /// Receives one message in this encoding.
    pub(crate) fn receive_in(self: &Arc<Self>, encoding: Encoding, frame: &[u8]) {
        self.receive_decoded(encoding, frame, Incoming::decode(frame, encoding));
    }

    /// Receives one message that arrived on the response stream of a request.
    pub(crate) fn receive_during(self: &Arc<Self>, request: i64, frame: &[u8]) {
        let encoding = self.encoding();
        match Incoming::decode(frame, encoding) {
            Ok(Incoming::Message(message)) => {
                log_message("received", encoding, frame);
                self.dispatch(message, Some(request));
            }
            decoded => self.receive_decoded(encoding, frame, decoded),
        }
    }

    /// The host that answers a message: the one of the request it belongs to, or the client's.
    fn host(&self, inner: &ClientInner, during: Option<i64>) -> Arc<dyn Host> {
        self.pending.host(during).unwrap_or_else(|| inner.host.clone())
    }

    /// Receives one message that the transport has decoded.
    pub(crate) fn receive_decoded(
        self: &Arc<Self>,
        encoding: Encoding,
        frame: &[u8],
        decoded: Result<Incoming<'_>, InvalidMessage>,
    ) {
        log_message("received", encoding, frame);
        self.limit_unsolicited();
        match decoded {
            Ok(Incoming::Message(message)) => self.dispatch(message, None),
            Ok(Incoming::Batch(batch)) => self.dispatch_batch(batch),
            Err(refusal) => {
                self.note_invalid_message(&format!("{:?}", refusal.error.name()), frame);
            }
        }
    }

    /// Receives the response to one request, whatever its id. Returns false for an invalid message.
    pub(crate) fn receive_for(self: &Arc<Self>, id: i64, frame: &[u8]) -> bool {
        log_message("received", self.encoding(), frame);
        match Incoming::decode(frame, self.encoding()) {
            Ok(Incoming::Message(Message::Response(Response { outcome: Err(error), .. }))) => {
                self.pending.settle(id, Err(RequestFailure::Server(ServerError::from_raw(error))));
                true
            }
            Ok(incoming) => {
                match incoming {
                    Incoming::Message(message) => self.dispatch(message, Some(id)),
                    Incoming::Batch(batch) => self.dispatch_batch(batch),
                }
                true
            }
            Err(_) => false,
        }
    }

    /// Fails a request if its unsigned response shows that the server does not know signatures.
    /// Returns false for any other response.
    pub(crate) fn reject_unsigned(&self, id: i64, frame: &[u8]) -> bool {
        let Ok(Incoming::Message(Message::Response(Response { outcome: Err(error), .. }))) =
            Incoming::decode(frame, Encoding::Json)
        else {
            return false;
        };
        let unread = [-32600, -32700].contains(&ServerError::from_raw(error).code);
        if unread {
            self.fail(id, crate::connection::signing::explain(EnvelopeError::Unsigned, frame));
        }
        unread
    }

    pub(crate) fn is_pending(&self, id: i64) -> bool {
        self.pending.is_pending(id)
    }

    fn dispatch_batch(self: &Arc<Self>, batch: Raw<'_>) {
        let Ok(Some(elements)) = batch.elements(MAX_IN_BATCH) else {
            return self.note_invalid_message("a batch with too many messages", batch.bytes());
        };
        for element in elements {
            match Message::from_raw(element) {
                Ok(message) => self.dispatch(message, None),
                Err(_) => self.note_invalid_message("an invalid message", element.bytes()),
            }
        }
    }

    /// Dispatches a message; `during` is the request whose response stream it arrived on.
    fn dispatch(self: &Arc<Self>, message: Message<'_>, during: Option<i64>) {
        match message {
            Message::Response(response) => self.handle_response(&response),
            Message::Notification(notification) => {
                self.handle_notification(&notification, during);
            }
            Message::Request(request) => {
                if let Some(inner) = self.inner.upgrade() {
                    let host = self.host(&inner, during);
                    crate::connection::server_requests::handle_request(
                        &inner, self, host, &request,
                    );
                }
            }
        }
    }

    fn handle_response(&self, response: &Response<'_>) {
        let Some(RequestId::Integer(id)) = response.id else {
            if let Err(error) = response.outcome {
                let error = ServerError::from_raw(error);
                // After a failed verification the server rejects all later messages.
                if error.name() == Some(SIGNATURE_REFUSED.name) {
                    return self.close(TransportError::InvalidSignature(error.to_string()));
                }
            }
            // It cannot be matched to a request, which will time out.
            return self.note_invalid_message("a response without id", b"");
        };
        let reply = match response.outcome {
            Ok(result) => Ok(result.to_owned()),
            Err(error) => Err(RequestFailure::Server(ServerError::from_raw(error))),
        };
        // An unknown id belongs to a cancelled request.
        self.pending.settle(id, reply);
    }

    fn handle_notification(self: &Arc<Self>, notification: &Notification<'_>, during: Option<i64>) {
        match &*notification.method {
            method::PROGRESS => {
                let names = ["progressToken", "progress", "total", "message"];
                let Ok([token, progress, total, message]) = notification.params.members(names)
                else {
                    return;
                };
                let token = token.and_then(RequestId::from_raw);
                if let (Some(RequestId::Integer(id)), Some(progress)) =
                    (token, progress.and_then(Raw::as_number))
                {
                    let total = total.and_then(Raw::as_number);
                    let message = message.and_then(Raw::as_text).map(Cow::into_owned);
                    self.pending.report(id, RequestProgress { progress, total, message });
                }
            }
            method::CANCELLED => {
                if let Some(cancel) = CancelParams::from_params(notification.params) {
                    self.server_requests.cancel(&cancel.request_id);
                    // Under 2026-07-28 this is how a server ends a subscription. Before, it is about
                    // a request of the server, whose ids may be the same as ours.
                    if let RequestId::Integer(id) = cancel.request_id
                        && self.revision().is_stateless()
                    {
                        let reason = cancel.reason.unwrap_or_else(|| "no reason given".to_owned());
                        let what = format!("the server ended the subscription: {reason}");
                        self.fail(id, TransportError::Lost(what));
                    }
                }
            }
            _ => {
                if let Some(inner) = self.inner.upgrade() {
                    if notification.method == method::MESSAGE
                        && let Some(host) = self.pending.host(during)
                        && let Some(ClientEvent::Log { level, logger, data }) =
                            crate::calls::logging::read(notification.params)
                    {
                        return host.log(level, logger.as_deref(), data);
                    }
                    inner.handle_notification(notification);
                }
            }
        }
    }

    /// Closes the connection if the server floods it while nothing was asked.
    fn limit_unsolicited(&self) {
        if !self.pending.is_idle() {
            return;
        }
        let Some(limit) = self.inner.upgrade().map(|inner| inner.options.max_unsolicited) else {
            return;
        };
        let mut unsolicited = self.unsolicited.lock();
        if unsolicited.since.elapsed() >= UNSOLICITED_WINDOW {
            *unsolicited = Unsolicited { since: Instant::now(), count: 0 };
        }
        unsolicited.count += 1;
        let is_flood = unsolicited.count > limit;
        drop(unsolicited);
        if is_flood {
            self.close(TransportError::InvalidMessage(format!(
                "the server sent more than {limit} messages within {} while no request was pending",
                crate::error::Seconds(UNSOLICITED_WINDOW)
            )));
            if let Some(transport) = self.transport().cloned() {
                tokio::spawn(async move { transport.close().await });
            }
        }
    }

    /// Tolerates an invalid message, up to a limit: some servers log to standard output.
    fn note_invalid_message(&self, what: &str, frame: &[u8]) {
        let start: String = String::from_utf8_lossy(&frame[..frame.len().min(400)]).into_owned();
        let start = crate::sanitize::shorten(&start, 100);
        tracing::debug!(what, %start, "the server sent an invalid message");
        let text = if start.is_empty() { what.to_owned() } else { start };
        *self.invalid_sample.lock() = Some(text.clone());
        if self.invalid_messages.fetch_add(1, Ordering::Relaxed) >= MAX_INVALID_MESSAGES {
            self.close(TransportError::InvalidMessage(format!(
                "the server keeps sending invalid messages, such as {text:?}"
            )));
        }
    }

    /// The last invalid message from the server.
    pub(crate) fn last_invalid_message(&self) -> Option<String> {
        self.invalid_sample.lock().clone()
    }

    pub(crate) fn fail(&self, id: i64, error: TransportError) {
        self.pending.settle(id, Err(RequestFailure::Transport(error)));
    }

    /// Closes the connection and fails all pending and later requests.
    pub(crate) fn close(&self, error: TransportError) {
        if !self.pending.close(&error) {
            return;
        }
        self.server_requests.close();
        self.over.send_replace(true);
        if let Some(inner) = self.inner.upgrade() {
            inner.lost(self, &error);
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.pending.is_closed()
    }

    pub(crate) fn why_closed(&self) -> Option<TransportError> {
        self.pending.closed()
    }

    /// Waits until the connection is closed.
    pub(crate) async fn wait_closed(&self) {
        let _ = self.closed_signal().wait_for(|over| *over).await;
    }

    /// Becomes true when the connection is closed, without keeping it alive.
    pub(crate) fn closed_signal(&self) -> watch::Receiver<bool> {
        self.over.subscribe()
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Connection").field("info", &self.info).finish_non_exhaustive()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.server_requests.close();
    }
}

/// Failure to send a request.
#[derive(Debug)]
pub(crate) enum RequestError {
    Unsent(TransportError),
    Usage(String),
}

/// Messages of the server while no request was pending, since a time.
#[derive(Debug)]
struct Unsolicited {
    since: Instant,
    count: u32,
}

/// A pending request. Dropping it before its response has arrived cancels it.
#[derive(Debug)]
pub(crate) struct Exchange {
    connection: Arc<Connection>,
    pub(crate) id: i64,
    reply: oneshot::Receiver<Reply>,
    is_over: bool,
    /// True if dropping it must not cancel the request, as for the handshake.
    pub(crate) keeps_on_drop: bool,
}

impl Exchange {
    /// Waits for the response. Cancel safe.
    pub(crate) async fn reply(&mut self) -> Reply {
        let reply = (&mut self.reply).await;
        self.is_over = true;
        reply.unwrap_or_else(|_| {
            Err(RequestFailure::Transport(TransportError::Lost(
                "the connection was closed".to_owned(),
            )))
        })
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        if self.is_over || !self.connection.pending.forget(self.id) || self.keeps_on_drop {
            return;
        }
        let Some(transport) = self.connection.transport() else { return };
        if !transport.cancel(self.id) {
            let params = json!({"requestId": self.id, "reason": "no longer wanted"});
            self.connection.notify(method::CANCELLED.into(), &params);
        }
    }
}

impl From<RequestFailure> for Error {
    fn from(failed: RequestFailure) -> Self {
        match failed {
            RequestFailure::Server(error) => Self::Server(error),
            RequestFailure::Transport(source) => {
                Self::Lost { method: "a request".to_owned(), source }
            }
        }
    }
}

/// Logs a message if the target is enabled.
fn log_message(what: &'static str, encoding: Encoding, message: &[u8]) {
    if tracing::enabled!(target: MESSAGES, tracing::Level::TRACE) {
        let shown = excerpt(message, encoding);
        tracing::trace!(target: MESSAGES, bytes = message.len(), "{what} {shown}");
    }
}

/// Log target of messages.
const MESSAGES: &str = "mcp_flow::message";

/// Time in which messages of the server that belong to no request are counted.
const UNSOLICITED_WINDOW: Duration = Duration::from_secs(10);

/// Maximum number of messages in a batch.
const MAX_IN_BATCH: usize = 10_000;

/// Maximum number of invalid messages tolerated on one connection.
const MAX_INVALID_MESSAGES: usize = 1000;
