//! The Streamable HTTP transport: every message is a POST, answered by a message or an event stream.
//!
//! Revisions before 2026-07-28 add a session, an event stream by GET for unsolicited messages, and
//! resumption of interrupted streams.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use futures_util::future::BoxFuture;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{HeaderMap, HeaderValue};
use hyper::{Method, Response, StatusCode};
use mcp_flow_client::sanitize;
use mcp_flow_client::transport::{
    ContentStream, Inbox, Outgoing, OutgoingKind, Transport, TransportError,
};
use mcp_flow_proto::{Revision, method};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio_util::task::TaskTracker;
use url::Url;

use crate::event_decoder::{Event, EventDecoder};
use crate::pool::Pool;
use crate::{exchange, mirrored_headers};

/// Connection to one server over Streamable HTTP.
#[derive(Debug)]
struct Streamable {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    pool: Arc<Pool>,
    url: Url,
    inbox: Inbox,
    /// True if it is not known that there is an endpoint at the URL.
    is_guessed: bool,
    session: Mutex<Option<HeaderValue>>,
    revision: OnceLock<Revision>,
    /// Set once `notifications/initialized` is delivered; later messages must not overtake it.
    initialized: watch::Sender<bool>,
    /// Set once the event stream by GET is open or refused: many servers lose unsolicited messages
    /// that they send before.
    listening: watch::Sender<bool>,
    /// Responses to the server's requests that are not delivered yet.
    pending_responses: AtomicUsize,
    /// Tasks that send notifications, such as cancellations. Closing waits for them.
    notifications: TaskTracker,
    running: Mutex<Running>,
}

/// Tasks in flight.
#[derive(Debug, Default)]
struct Running {
    requests: std::collections::HashMap<i64, AbortHandle>,
    listener: Option<AbortHandle>,
    is_closed: bool,
}

/// Creates the transport. Connections are opened by the first request. At a guessed URL, a rejection of
/// that request may say no more than that there is no endpoint.
pub(crate) fn open(
    pool: Arc<Pool>,
    url: Url,
    inbox: Inbox,
    is_guessed: bool,
) -> Arc<dyn Transport> {
    inbox.allow_reordering();
    let inner = Inner {
        pool,
        url,
        inbox,
        is_guessed,
        session: Mutex::new(None),
        revision: OnceLock::new(),
        initialized: watch::Sender::new(false),
        listening: watch::Sender::new(false),
        pending_responses: AtomicUsize::new(0),
        notifications: TaskTracker::new(),
        running: Mutex::default(),
    };
    Arc::new(Streamable { inner: Arc::new(inner) })
}

impl Transport for Streamable {
    fn name(&self) -> &'static str {
        "streamable-http"
    }

    fn send(&self, message: Outgoing) {
        let inner = self.inner.clone();
        match &message.kind {
            OutgoingKind::Request { id, .. } => {
                let id = *id;
                let mut running = self.inner.running.lock();
                if running.is_closed {
                    return;
                }
                let task = tokio::spawn(async move {
                    inner.exchange(id, message).await;
                    inner.running.lock().requests.remove(&id);
                });
                // Inserted under the lock that its removal takes, so the removal comes after.
                running.requests.insert(id, task.abort_handle());
            }
            OutgoingKind::Notification { .. } => {
                self.inner.notifications.spawn(async move { inner.deliver(message).await });
            }
            OutgoingKind::Response => {
                // A server could send requests forever without reading the responses.
                let pending = inner.pending_responses.fetch_add(1, Ordering::Relaxed);
                if pending >= MAX_PENDING_RESPONSES {
                    let what =
                        "the server sends requests and does not accept the responses".to_owned();
                    return inner.inbox.closed(TransportError::InvalidMessage(what));
                }
                tokio::spawn(async move {
                    inner.deliver(message).await;
                    inner.pending_responses.fetch_sub(1, Ordering::Relaxed);
                });
            }
        }
    }

    fn cancel(&self, request: i64) -> bool {
        let task = self.inner.running.lock().requests.remove(&request);
        if let Some(task) = task {
            task.abort();
        }
        // Closing the response stream cancels only stateless requests.
        self.inner.is_stateless()
    }

    fn negotiated(&self, revision: Revision) {
        let _ = self.inner.revision.set(revision);
        if revision.is_stateless() {
            return;
        }
        let inner = Arc::downgrade(&self.inner);
        let listener = tokio::spawn(async move { listen(inner).await });
        self.inner.running.lock().listener = Some(listener.abort_handle());
    }

    fn needs_headers(&self) -> bool {
        true
    }

    fn attributes_messages(&self) -> bool {
        true
    }

    fn open(
        &self,
        content: &Value,
    ) -> Option<BoxFuture<'_, Result<ContentStream, TransportError>>> {
        let url = exchange::own_link(&self.inner.url.origin(), content)?;
        Some(Box::pin(exchange::open_link(&self.inner.pool, url)))
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.inner.stop();
        Box::pin(async move {
            self.inner.notifications.close();
            let _ = tokio::time::timeout(CLOSE_TIMEOUT, self.inner.notifications.wait()).await;
            let session = self.inner.session.lock().take();
            if let Some(session) = session {
                let mut request =
                    exchange::request(Method::DELETE, &self.inner.url, Full::default());
                self.inner.add_headers(request.headers_mut(), None);
                request.headers_mut().insert(exchange::SESSION, session);
                let _ = tokio::time::timeout(CLOSE_TIMEOUT, self.inner.pool.send(request)).await;
            }
        })
    }
}

impl Drop for Streamable {
    fn drop(&mut self) {
        self.inner.stop();
    }
}

impl Inner {
    fn is_stateless(&self) -> bool {
        self.revision.get().is_some_and(|revision| revision.is_stateless())
    }

    fn stop(&self) {
        let mut running = self.running.lock();
        running.is_closed = true;
        let listener = running.listener.take();
        for task in running.requests.drain().map(|(_, task)| task).chain(listener) {
            task.abort();
        }
    }

    /// Adds the headers that every request of this connection has.
    fn add_headers(&self, headers: &mut HeaderMap, kind: Option<&OutgoingKind>) {
        let is_probe = matches!(kind, Some(OutgoingKind::Request { method, .. })
            if method == method::SERVER_DISCOVER);
        let revision = match self.revision.get() {
            Some(revision) => Some(*revision),
            None if is_probe => Some(Revision::V2026_07_28),
            None => None,
        };
        // Earlier revisions do not have this header, and a server might reject it.
        if let Some(revision) = revision.filter(|revision| *revision >= Revision::V2025_06_18) {
            headers.insert(exchange::VERSION, HeaderValue::from_static(revision.name()));
        }
        if let (Some(kind), true) = (kind, revision.is_some_and(Revision::is_stateless)) {
            mirrored_headers::add(headers, kind);
        }
        if let Some(session) = &*self.session.lock() {
            headers.insert(exchange::SESSION, session.clone());
        }
    }

    async fn post(&self, message: Outgoing) -> Result<Response<Incoming>, TransportError> {
        let mut request = exchange::post(&self.url, message.frame);
        self.add_headers(request.headers_mut(), Some(&message.kind));
        self.pool.send(request).await
    }

    /// Sends a notification or response.
    async fn deliver(&self, message: Outgoing) {
        let is_initialized = matches!(&message.kind, OutgoingKind::Notification { method }
            if method == method::INITIALIZED);
        if !is_initialized {
            self.until_initialized().await;
        }
        let delivered = self.post(message).await;
        if is_initialized {
            self.initialized.send_replace(true);
        }
        match delivered {
            Ok(response) if self.has_session() && response.status().is_client_error() => {
                let (head, body) = response.into_parts();
                let body = exchange::read_body(body, exchange::MAX_ERROR_BODY).await;
                if is_session_unknown(head.status, &body.unwrap_or_default()) {
                    self.end_session();
                }
            }
            Ok(_) => {}
            Err(error) => tracing::debug!(%error, "cannot send a message"),
        }
    }

    async fn until_initialized(&self) {
        if !self.is_stateless() {
            let mut initialized = self.initialized.subscribe();
            let _ = initialized.wait_for(|initialized| *initialized).await;
        }
    }

    /// Waits until the event stream by GET is open, for a bounded time: some servers send its headers
    /// only with the first event.
    async fn until_listening(&self) {
        if !self.is_stateless() && !*self.listening.borrow() {
            let mut listening = self.listening.subscribe();
            let opened = listening.wait_for(|listening| *listening);
            let _ = tokio::time::timeout(LISTEN_TIMEOUT, opened).await;
            self.listening.send_replace(true);
        }
    }

    /// Sends a request and passes its response to the inbox.
    async fn exchange(&self, id: i64, message: Outgoing) {
        let is_opening = matches!(&message.kind, OutgoingKind::Request { method, .. }
            if [method::INITIALIZE, method::SERVER_DISCOVER].contains(&&**method));
        if !is_opening {
            self.until_initialized().await;
            self.until_listening().await;
        }
        let received = match self.post(message).await {
            Ok(response) => self.receive(id, response, is_opening).await,
            Err(error) => Err(error),
        };
        // Has no effect if the response has arrived.
        self.inbox.fail(
            id,
            received.err().unwrap_or_else(|| {
                TransportError::Lost("the stream ended without a response".to_owned())
            }),
        );
    }

    /// Passes the messages of an HTTP response to the inbox.
    async fn receive(
        &self,
        id: i64,
        response: Response<Incoming>,
        is_opening: bool,
    ) -> Result<(), TransportError> {
        let (head, body) = response.into_parts();
        let media = exchange::media_type(&head.headers);
        if !head.status.is_success() {
            let body =
                exchange::read_body(body, exchange::MAX_ERROR_BODY).await.unwrap_or_default();
            if self.has_session() && !is_opening && is_session_unknown(head.status, &body) {
                // The request was not processed, so it may be retried; of the others that is not
                // known.
                let what = "the session has ended".to_owned();
                self.inbox.fail(id, TransportError::Unreachable { what, source: None });
                self.end_session();
                return Ok(());
            }
            let is_not_found = is_opening
                && head.status == StatusCode::NOT_FOUND
                && self.is_guessed
                && !is_method_not_found(&body);
            if !is_not_found && media == "application/json" && self.inbox.receive_for(id, &body) {
                return Ok(());
            }
            let error = exchange::rejection(head.status, &head.headers, &body);
            let is_unsuitable = [400, 404, 405, 406, 415, 501].contains(&head.status.as_u16())
                || (self.is_guessed
                    && [301, 302, 303, 307, 308, 410, 422].contains(&head.status.as_u16()));
            return Err(match is_opening && is_unsuitable {
                true => TransportError::Unsuitable(error.to_string()),
                false => error,
            });
        }
        if is_opening && let Some(session) = head.headers.get(exchange::SESSION) {
            *self.session.lock() = Some(session.clone());
        }
        match media.as_str() {
            "application/json" => {
                let body = exchange::read_message(body, &self.inbox).await?;
                self.inbox.receive(&body);
                if self.inbox.is_pending(id) {
                    let start = String::from_utf8_lossy(&body[..body.len().min(400)]);
                    let start = sanitize::shorten(&start, 100);
                    let what = format!("the body is not a response to the request: {start:?}");
                    return Err(TransportError::InvalidMessage(what));
                }
                Ok(())
            }
            "text/event-stream" => self.follow(id, body).await,
            _ if is_opening => {
                let what = format!("the server answered {} with {media:?}", head.status);
                Err(TransportError::Unsuitable(what))
            }
            _ => Err(TransportError::InvalidMessage(format!(
                "the server answered {} with {media:?} instead of a message",
                head.status
            ))),
        }
    }

    /// Reads an event stream until it has delivered the response, and resumes it when it is
    /// interrupted, if the revision supports that.
    async fn follow(&self, id: i64, body: Incoming) -> Result<(), TransportError> {
        let mut position = StreamPosition::default();
        let mut outcome = self.read_events(Some(id), body, &mut position).await;
        let mut attempt = 0;
        while self.inbox.is_pending(id) && !self.is_stateless() {
            let Some(last) = position.last.clone() else { return outcome };
            attempt += 1;
            if attempt > MAX_RESUMPTIONS {
                return outcome;
            }
            tokio::time::sleep(position.backoff(attempt)).await;
            let mut request = exchange::get_events(&self.url);
            self.add_headers(request.headers_mut(), None);
            let Ok(last) = HeaderValue::from_str(&last) else { return outcome };
            request.headers_mut().insert(exchange::LAST_EVENT, last);
            outcome = match self.pool.send(request).await {
                Ok(response) if response.status().is_success() => {
                    let before = position.last.clone();
                    let outcome =
                        self.read_events(Some(id), response.into_body(), &mut position).await;
                    if position.last != before {
                        attempt = 0;
                    }
                    outcome
                }
                Ok(response) => {
                    return Err(TransportError::Lost(format!(
                        "the event stream was interrupted and cannot be resumed: {}",
                        response.status()
                    )));
                }
                Err(error) => Err(error),
            };
        }
        outcome
    }

    /// Passes the messages of an event stream to the inbox until it ends.
    async fn read_events(
        &self,
        request: Option<i64>,
        mut body: Incoming,
        position: &mut StreamPosition,
    ) -> Result<(), TransportError> {
        let limit = self.inbox.frame_limit();
        let mut decoder = EventDecoder::new(limit);
        if request.is_some() {
            decoder = decoder.spooling(self.inbox.clone());
        }
        while let Some(chunk) = exchange::read_chunk(&mut body).await? {
            let mut take = |event: &Event| {
                position.last = event.id.clone().filter(|id| !id.is_empty());
                position.retry = event.retry.or(position.retry);
                if !event.data.is_empty() && matches!(event.name.as_str(), "" | "message") {
                    match request {
                        Some(request) => self.inbox.receive_during(request, &event.data),
                        None => self.inbox.receive(&event.data),
                    }
                }
            };
            decoder.push(&chunk, &mut take).map_err(|error| error.explain(limit))?;
        }
        Ok(())
    }

    fn has_session(&self) -> bool {
        self.session.lock().is_some()
    }

    fn end_session(&self) {
        self.session.lock().take();
        let what = "the server no longer knows the session".to_owned();
        self.inbox.closed(TransportError::Lost(what));
    }
}

/// Position in an event stream, from which it can be resumed.
#[derive(Debug, Default)]
struct StreamPosition {
    /// Id of the last event.
    last: Option<String>,
    /// Reconnection time in milliseconds, as asked for by the server.
    retry: Option<u64>,
}

impl StreamPosition {
    /// Returns the exponential backoff before an attempt to resume.
    fn backoff(&self, attempt: u32) -> Duration {
        let asked = Duration::from_millis(self.retry.unwrap_or(500)).min(MAX_BACKOFF);
        asked
            .saturating_mul(2_u32.saturating_pow(attempt.saturating_sub(1).min(10)))
            .min(MAX_BACKOFF)
    }
}

/// Reads unsolicited messages from the event stream by GET, reconnecting while the client exists and
/// the server offers the stream.
async fn listen(inner: Weak<Inner>) {
    let mut position = StreamPosition::default();
    let mut attempt = 0;
    loop {
        let Some(inner) = inner.upgrade() else { return };
        inner.until_initialized().await;
        let mut request = exchange::get_events(&inner.url);
        inner.add_headers(request.headers_mut(), None);
        let last = position.last.as_deref();
        if let Some(last) = last.and_then(|last| HeaderValue::from_str(last).ok()) {
            request.headers_mut().insert(exchange::LAST_EVENT, last);
        }
        let response = inner.pool.send(request).await;
        inner.listening.send_replace(true);
        match response {
            Ok(response) if response.status().is_success() => {
                if exchange::media_type(response.headers()) != "text/event-stream" {
                    return;
                }
                attempt = 0;
                if let Err(error @ TransportError::InvalidMessage(_)) =
                    inner.read_events(None, response.into_body(), &mut position).await
                {
                    return inner.inbox.closed(error);
                }
            }
            Ok(response) if response.status().is_client_error() => {
                let (head, body) = response.into_parts();
                let body = exchange::read_body(body, exchange::MAX_ERROR_BODY).await;
                if inner.has_session() && is_session_unknown(head.status, &body.unwrap_or_default())
                {
                    inner.end_session();
                }
                // Otherwise the server does not offer the stream.
                return;
            }
            Ok(_) | Err(_) => {}
        }
        if inner.inbox.is_abandoned() {
            return;
        }
        drop(inner);
        attempt += 1;
        tokio::time::sleep(position.backoff(attempt)).await;
    }
}

/// Returns whether a rejection says that the server does not know the session: 404, as specified, or
/// 400 with an error about it, as servers send that keep no record of ended sessions.
fn is_session_unknown(status: StatusCode, body: &[u8]) -> bool {
    if status != StatusCode::BAD_REQUEST {
        return status == StatusCode::NOT_FOUND;
    }
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let message = body["error"]["message"].as_str().unwrap_or_default().to_ascii_lowercase();
    let is_of_transport = matches!(body["error"]["code"].as_i64(), Some(-32600 | -32099..=-32000));
    is_of_transport && ["session", "not initialized"].iter().any(|word| message.contains(word))
}

/// Returns whether an error body is the JSON-RPC error "method not found".
fn is_method_not_found(body: &[u8]) -> bool {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    body["error"]["code"] == -32601
}

/// Time that requests wait for the event stream by GET to open.
const LISTEN_TIMEOUT: Duration = Duration::from_millis(500);

/// Limit on undelivered responses to the server's requests.
const MAX_PENDING_RESPONSES: usize = 256;

/// Time to send the last notifications on close, and again to delete the session.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Attempts to resume a stream that delivers nothing new.
const MAX_RESUMPTIONS: u32 = 5;

/// Longest wait before a stream is resumed.
const MAX_BACKOFF: Duration = Duration::from_secs(30);
