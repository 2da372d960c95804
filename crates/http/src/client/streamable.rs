//! Streamable HTTP: every message is a POST, and its answer a message or a stream of them.
//!
//! Under 2026-07-28 there is nothing else. Before, there is a session, a stream for what the server
//! says unasked, and streams that are taken up again where they broke off.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use futures_util::future::BoxFuture;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{HeaderMap, HeaderValue};
use hyper::{Method, Response, StatusCode};
use mcp_flow_client::neutral;
use mcp_flow_client::transport::{
    Inbox, Opened, Outgoing, OutgoingKind, Transport, TransportError,
};
use mcp_flow_proto::{Revision, method};
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio_util::task::TaskTracker;
use url::Url;

use super::events::EventDecoder;
use super::wire::Wire;
use super::{mirror, sending};

/// One server, spoken to by Streamable HTTP.
#[derive(Debug)]
pub(super) struct Streamable {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    wire: Arc<Wire>,
    url: Url,
    inbox: Inbox,
    session: Mutex<Option<HeaderValue>>,
    revision: OnceLock<Revision>,
    /// Whether the server knows that the handshake is over; what comes next must not overtake it.
    initialized: watch::Sender<bool>,
    /// Whether the stream for what the server says unasked is open, or will not be: many servers
    /// lose what they say before.
    listening: watch::Sender<bool>,
    /// How many answers to the server's requests are on their way.
    answering: AtomicUsize,
    /// What is said and wants no answer, such as that a request is cancelled: on its way still when
    /// the connection is closed, it arrives all the same.
    telling: TaskTracker,
    running: Mutex<Running>,
}

/// What is under way.
#[derive(Debug, Default)]
struct Running {
    requests: std::collections::HashMap<i64, AbortHandle>,
    listener: Option<AbortHandle>,
    is_closed: bool,
}

pub(super) fn open(wire: Arc<Wire>, url: Url, inbox: Inbox) -> Arc<dyn Transport> {
    inbox.allow_any_order();
    let inner = Inner {
        wire,
        url,
        inbox,
        session: Mutex::new(None),
        revision: OnceLock::new(),
        initialized: watch::Sender::new(false),
        listening: watch::Sender::new(false),
        answering: AtomicUsize::new(0),
        telling: TaskTracker::new(),
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
                let mut running = self.inner.lock();
                if running.is_closed {
                    return;
                }
                let task = tokio::spawn(async move {
                    inner.exchange(id, message).await;
                    inner.lock().requests.remove(&id);
                });
                // Under the same lock as its end, which therefore comes after.
                running.requests.insert(id, task.abort_handle());
            }
            OutgoingKind::Notification { .. } => {
                self.inner.telling.spawn(async move { inner.tell(message).await });
            }
            OutgoingKind::Response => {
                // A server can ask without end, and take no answer.
                if inner.answering.fetch_add(1, Ordering::Relaxed) >= MOST_ANSWERS {
                    let what = "the server asks and does not take the answers".to_owned();
                    return inner.inbox.closed(TransportError::Garbage(what));
                }
                tokio::spawn(async move {
                    inner.tell(message).await;
                    inner.answering.fetch_sub(1, Ordering::Relaxed);
                });
            }
        }
    }

    fn cancel(&self, request: i64) -> bool {
        let task = self.inner.lock().requests.remove(&request);
        if let Some(task) = task {
            task.abort();
        }
        // The end of its stream cancels a request of the new era, and no other.
        self.inner.is_stateless()
    }

    fn agreed(&self, revision: Revision) {
        let _ = self.inner.revision.set(revision);
        if revision.is_stateless() {
            return;
        }
        let inner = Arc::downgrade(&self.inner);
        let listener = tokio::spawn(async move { listen(inner).await });
        self.inner.lock().listener = Some(listener.abort_handle());
    }

    fn wants_headers(&self) -> bool {
        true
    }

    fn open(&self, content: &Value) -> Option<BoxFuture<'_, Result<Opened, TransportError>>> {
        let link = content.get("uri")?.as_str()?.to_owned();
        link.starts_with("http").then(|| -> BoxFuture<'_, _> {
            Box::pin(async move {
                sending::open(&self.inner.wire, &self.inner.url.origin(), &link).await
            })
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.inner.stop();
        Box::pin(async move {
            self.inner.telling.close();
            let _ = tokio::time::timeout(FAREWELL, self.inner.telling.wait()).await;
            let session = self.inner.session().take();
            if let Some(session) = session {
                let mut request =
                    sending::request(Method::DELETE, &self.inner.url, Full::default());
                self.inner.add_headers(request.headers_mut(), None);
                request.headers_mut().insert(sending::SESSION, session);
                let _ = tokio::time::timeout(FAREWELL, self.inner.wire.send(request)).await;
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
    fn lock(&self) -> std::sync::MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn session(&self) -> std::sync::MutexGuard<'_, Option<HeaderValue>> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_stateless(&self) -> bool {
        self.revision.get().is_some_and(|revision| revision.is_stateless())
    }

    fn stop(&self) {
        let mut running = self.lock();
        running.is_closed = true;
        let listener = running.listener.take();
        for task in running.requests.drain().map(|(_, task)| task).chain(listener) {
            task.abort();
        }
    }

    /// The headers that every request of this connection has.
    fn add_headers(&self, headers: &mut HeaderMap, kind: Option<&OutgoingKind>) {
        let probing = matches!(kind, Some(OutgoingKind::Request { method, .. })
            if method == method::SERVER_DISCOVER);
        let revision = match self.revision.get() {
            Some(revision) => Some(*revision),
            None if probing => Some(Revision::V2026_07_28),
            None => None,
        };
        // Servers before did not know this header, and one of them might mind.
        if let Some(revision) = revision.filter(|revision| *revision >= Revision::V2025_06_18) {
            headers.insert(sending::VERSION, HeaderValue::from_static(revision.name()));
        }
        if let (Some(kind), true) = (kind, revision.is_some_and(Revision::is_stateless)) {
            mirror::add(headers, kind);
        }
        if let Some(session) = &*self.session() {
            headers.insert(sending::SESSION, session.clone());
        }
    }

    async fn post(&self, message: Outgoing) -> Result<Response<Incoming>, TransportError> {
        let mut request = sending::post(&self.url, message.frame);
        self.add_headers(request.headers_mut(), Some(&message.kind));
        self.wire.send(request).await
    }

    /// Sends what wants no answer.
    async fn tell(&self, message: Outgoing) {
        let initialized = matches!(&message.kind, OutgoingKind::Notification { method }
            if method == method::INITIALIZED);
        if !initialized {
            self.until_initialized().await;
        }
        let told = self.post(message).await;
        if initialized {
            self.initialized.send_replace(true);
        }
        match told {
            Ok(answer) if answer.status() == StatusCode::NOT_FOUND && self.has_session() => {
                self.session_is_over();
            }
            Ok(_) => {}
            Err(error) => tracing::debug!(%error, "a message could not be sent"),
        }
    }

    async fn until_initialized(&self) {
        if !self.is_stateless() {
            let mut initialized = self.initialized.subscribe();
            let _ = initialized.wait_for(|initialized| *initialized).await;
        }
    }

    /// Waits until the server can say what it has to say, but not for one that keeps its headers
    /// back until then.
    async fn until_listening(&self) {
        if !self.is_stateless() && !*self.listening.borrow() {
            let mut listening = self.listening.subscribe();
            let opened = listening.wait_for(|listening| *listening);
            let _ = tokio::time::timeout(HEAD_START, opened).await;
            self.listening.send_replace(true);
        }
    }

    /// Sends a request and hands over everything its answer holds.
    async fn exchange(&self, id: i64, message: Outgoing) {
        let opening = matches!(&message.kind, OutgoingKind::Request { method, .. }
            if [method::INITIALIZE, method::SERVER_DISCOVER].contains(&&**method));
        if !opening {
            self.until_initialized().await;
            self.until_listening().await;
        }
        let taken = match self.post(message).await {
            Ok(answer) => self.take(id, answer, opening).await,
            Err(error) => Err(error),
        };
        // Nothing happens here if the response has come.
        self.inbox.fail(
            id,
            taken.err().unwrap_or_else(|| {
                TransportError::Lost("the answer ended without a response".to_owned())
            }),
        );
    }

    async fn take(
        &self,
        id: i64,
        answer: Response<Incoming>,
        opening: bool,
    ) -> Result<(), TransportError> {
        let (head, body) = answer.into_parts();
        let limit = self.inbox.frame_limit();
        let media = sending::media_type(&head.headers);
        if !head.status.is_success() {
            let body = sending::whole(body, sending::LONGEST_REFUSAL).await.unwrap_or_default();
            if self.has_session() && head.status == StatusCode::NOT_FOUND && !opening {
                self.session_is_over();
                // Nothing was carried out: there was nobody to do it.
                let what = "the session is over".to_owned();
                return Err(TransportError::Unreachable { what, source: None });
            }
            // A host was named and nothing more, and it says that nothing is there.
            let is_nowhere = opening
                && head.status == StatusCode::NOT_FOUND
                && self.url.path() == "/"
                && !knows_no_method(&body);
            if !is_nowhere && media == "application/json" && self.inbox.receive_for(id, &body) {
                return Ok(());
            }
            let error = sending::refusal(head.status, &head.headers, &body);
            let elsewhere = [400, 404, 405, 406, 415, 501].contains(&head.status.as_u16());
            return Err(match opening && elsewhere {
                true => TransportError::Unsuitable(error.to_string()),
                false => error,
            });
        }
        if opening && let Some(session) = head.headers.get(sending::SESSION) {
            *self.session() = Some(session.clone());
        }
        match media.as_str() {
            "application/json" => {
                let body = sending::whole(body, limit).await?;
                self.inbox.receive(&body);
                if self.inbox.waits_for(id) {
                    let start = String::from_utf8_lossy(&body[..body.len().min(400)]);
                    let start = neutral::shorten(&start, 100);
                    let what = format!("the server answered with what is no response: {start:?}");
                    return Err(TransportError::Garbage(what));
                }
                Ok(())
            }
            "text/event-stream" => self.follow(id, body).await,
            _ if opening => {
                let what = format!("the server answered {} with {media:?}", head.status);
                Err(TransportError::Unsuitable(what))
            }
            _ => Err(TransportError::Garbage(format!(
                "the server answered {} with {media:?} instead of a message",
                head.status
            ))),
        }
    }

    /// Hands over the events of a stream until the response is among them, and takes it up again
    /// where it broke off, if the revision has that.
    async fn follow(&self, id: i64, body: Incoming) -> Result<(), TransportError> {
        let mut place = Place::default();
        let mut outcome = self.hand_over(body, &mut place).await;
        let mut attempt = 0;
        while self.inbox.waits_for(id) && !self.is_stateless() {
            let Some(last) = place.last.clone() else { return outcome };
            attempt += 1;
            if attempt > MOST_RESUMPTIONS {
                return outcome;
            }
            tokio::time::sleep(place.delay(attempt)).await;
            let mut request = sending::get_events(&self.url);
            self.add_headers(request.headers_mut(), None);
            let Ok(last) = HeaderValue::from_str(&last) else { return outcome };
            request.headers_mut().insert(sending::LAST_EVENT, last);
            outcome = match self.wire.send(request).await {
                Ok(answer) if answer.status().is_success() => {
                    let before = place.last.clone();
                    let outcome = self.hand_over(answer.into_body(), &mut place).await;
                    if place.last != before {
                        attempt = 0;
                    }
                    outcome
                }
                Ok(answer) => {
                    let (head, _) = answer.into_parts();
                    return Err(TransportError::Lost(format!(
                        "the stream broke off and could not be taken up again: {}",
                        head.status
                    )));
                }
                Err(error) => Err(error),
            };
        }
        outcome
    }

    async fn hand_over(&self, mut body: Incoming, place: &mut Place) -> Result<(), TransportError> {
        let limit = self.inbox.frame_limit();
        let mut decoder = EventDecoder::new(limit);
        while let Some(piece) = sending::piece(&mut body).await? {
            let mut take = |event: &super::events::Event| {
                place.last = event.id.clone().filter(|id| !id.is_empty());
                place.retry = event.retry.or(place.retry);
                if !event.data.is_empty() && matches!(event.name.as_str(), "" | "message") {
                    self.inbox.receive(&event.data);
                }
            };
            decoder.push(&piece, &mut take).map_err(|_| sending::too_long(limit))?;
        }
        Ok(())
    }

    fn has_session(&self) -> bool {
        self.session().is_some()
    }

    fn session_is_over(&self) {
        self.session().take();
        let what = "the server does not know the session any more".to_owned();
        self.inbox.closed(TransportError::Lost(what));
    }
}

/// Where in a stream one is.
#[derive(Debug, Default)]
struct Place {
    last: Option<String>,
    retry: Option<u64>,
}

impl Place {
    /// How long to wait before coming back: as long as the server says, and longer each time.
    fn delay(&self, attempt: u32) -> Duration {
        let asked = Duration::from_millis(self.retry.unwrap_or(500)).min(LONGEST_DELAY);
        asked
            .saturating_mul(2_u32.saturating_pow(attempt.saturating_sub(1).min(10)))
            .min(LONGEST_DELAY)
    }
}

/// Hears what the server says unasked, as long as it offers that and anybody is there.
async fn listen(inner: Weak<Inner>) {
    let mut place = Place::default();
    let mut attempt = 0;
    loop {
        let Some(inner) = inner.upgrade() else { return };
        inner.until_initialized().await;
        let mut request = sending::get_events(&inner.url);
        inner.add_headers(request.headers_mut(), None);
        if let Some(last) = place.last.as_deref().and_then(|last| HeaderValue::from_str(last).ok())
        {
            request.headers_mut().insert(sending::LAST_EVENT, last);
        }
        let answer = inner.wire.send(request).await;
        inner.listening.send_replace(true);
        match answer {
            Ok(answer) if answer.status().is_success() => {
                if sending::media_type(answer.headers()) != "text/event-stream" {
                    return;
                }
                attempt = 0;
                if let Err(error @ TransportError::Garbage(_)) =
                    inner.hand_over(answer.into_body(), &mut place).await
                {
                    return inner.inbox.closed(error);
                }
            }
            Ok(answer) if answer.status() == StatusCode::NOT_FOUND && inner.has_session() => {
                return inner.session_is_over();
            }
            // It has no such stream.
            Ok(answer) if answer.status().is_client_error() => return,
            Ok(_) | Err(_) => {}
        }
        if inner.inbox.is_abandoned() {
            return;
        }
        drop(inner);
        attempt += 1;
        tokio::time::sleep(place.delay(attempt)).await;
    }
}

/// Returns whether a refusal is that of a server which does not know the method it was asked for.
fn knows_no_method(body: &[u8]) -> bool {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    body["error"]["code"] == -32601
}

/// How long the stream for what the server says unasked may take to open before requests go ahead.
const HEAD_START: Duration = Duration::from_millis(500);

/// How many answers to the server's requests may be on their way.
const MOST_ANSWERS: usize = 256;

/// How long the server may take to hear what is said last, and again that a session is over.
const FAREWELL: Duration = Duration::from_secs(2);

/// How often a stream is taken up again without anything new on it.
const MOST_RESUMPTIONS: u32 = 5;

/// The longest wait before a stream is taken up again.
const LONGEST_DELAY: Duration = Duration::from_secs(30);
