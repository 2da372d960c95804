//! HTTP+SSE of 2024-11-05: messages come on one stream, and go to an address it names.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use hyper::body::Incoming;
use mcp_flow_client::neutral;
use mcp_flow_client::transport::{
    Inbox, Opened, Outgoing, OutgoingKind, Transport, TransportError,
};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio_util::task::TaskTracker;
use url::Url;

use super::events::{Event, EventDecoder};
use super::sending;
use super::wire::Wire;

/// One connection: a stream, and a task that posts.
#[derive(Debug)]
struct Legacy {
    wire: Arc<Wire>,
    url: Url,
    /// None once the connection is closed.
    messages: Mutex<Option<mpsc::UnboundedSender<Outgoing>>>,
    /// How many answers to the server's requests are on their way.
    answering: Arc<AtomicUsize>,
    inbox: Inbox,
    tasks: [AbortHandle; 2],
    posting: TaskTracker,
}

/// Opens the stream and waits for the address it names (MCP-033).
pub(super) async fn open(
    wire: Arc<Wire>,
    url: Url,
    inbox: Inbox,
) -> Result<Arc<dyn Transport>, TransportError> {
    let answer = wire.send(sending::get_events(&url)).await?;
    let (head, body) = answer.into_parts();
    if !head.status.is_success() {
        let body = sending::whole(body, sending::LONGEST_REFUSAL).await.unwrap_or_default();
        return Err(sending::refusal(head.status, &head.headers, &body));
    }
    if sending::media_type(&head.headers) != "text/event-stream" {
        let what = "there is no MCP server at this address: it answers with no events";
        return Err(TransportError::Unsuitable(what.to_owned()));
    }
    let mut stream = Stream::new(body, &inbox);
    let endpoint = stream.endpoint(&url).await?;
    // Bounded by what callers wait for; see `Transport::send`.
    let (messages, outgoing) = mpsc::unbounded_channel();
    let reading = tokio::spawn(async move { stream.read().await });
    let answering = Arc::new(AtomicUsize::new(0));
    let posting = Posting {
        wire: wire.clone(),
        endpoint,
        inbox: inbox.clone(),
        answering: answering.clone(),
    };
    let tracker = TaskTracker::new();
    let task = tracker.spawn(posting.post_all(outgoing));
    let tasks = [reading.abort_handle(), task.abort_handle()];
    let messages = Mutex::new(Some(messages));
    Ok(Arc::new(Legacy { wire, url, messages, answering, inbox, tasks, posting: tracker }))
}

impl Transport for Legacy {
    fn name(&self) -> &'static str {
        "sse"
    }

    fn send(&self, message: Outgoing) {
        if matches!(message.kind, OutgoingKind::Response)
            && self.answering.fetch_add(1, Ordering::Relaxed) >= MOST_ANSWERS
        {
            // A server can ask without end, and take no answer.
            let what = "the server asks and does not take the answers".to_owned();
            return self.inbox.closed(TransportError::Garbage(what));
        }
        // A task that has ended has said so to the inbox.
        let messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = messages.as_ref().map(|messages| messages.send(message));
    }

    fn open(&self, content: &Value) -> Option<BoxFuture<'_, Result<Opened, TransportError>>> {
        let link = content.get("uri")?.as_str()?.to_owned();
        link.starts_with("http").then(|| -> BoxFuture<'_, _> {
            Box::pin(async move { sending::open(&self.wire, &self.url.origin(), &link).await })
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        // What waits still, such as that a request is cancelled, is posted before the end.
        self.messages.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.posting.close();
        Box::pin(async move {
            let _ = tokio::time::timeout(FAREWELL, self.posting.wait()).await;
            self.tasks.iter().for_each(AbortHandle::abort);
        })
    }
}

impl Drop for Legacy {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

/// The stream, read as far as it has come.
struct Stream {
    body: Incoming,
    decoder: EventDecoder,
    inbox: Inbox,
    limit: usize,
}

impl Stream {
    fn new(body: Incoming, inbox: &Inbox) -> Self {
        let limit = inbox.frame_limit();
        Self { body, decoder: EventDecoder::new(limit), inbox: inbox.clone(), limit }
    }

    /// Reads up to the event that names the address.
    async fn endpoint(&mut self, url: &Url) -> Result<Url, TransportError> {
        let named = Mutex::new(None);
        loop {
            let is_there = self
                .step(&mut |event| {
                    if event.name == "endpoint" {
                        let text = String::from_utf8_lossy(&event.data).trim().to_owned();
                        *named.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
                    }
                })
                .await?;
            let found = named.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(text) = found {
                return resolve(url, &text);
            }
            if !is_there {
                let what = "the stream ended before it named an address for messages";
                return Err(TransportError::Lost(what.to_owned()));
            }
        }
    }

    /// Hands over messages until the stream ends.
    async fn read(mut self) {
        let inbox = self.inbox.clone();
        let mut take = |event: &Event| {
            if matches!(event.name.as_str(), "" | "message") && !event.data.is_empty() {
                inbox.receive(&event.data);
            }
        };
        let why = loop {
            match self.step(&mut take).await {
                Ok(true) => {}
                Ok(false) => break TransportError::Lost("the server ended the stream".to_owned()),
                Err(error) => break error,
            }
        };
        self.inbox.closed(why);
    }

    async fn step(&mut self, take: &mut impl FnMut(&Event)) -> Result<bool, TransportError> {
        let Some(piece) = sending::piece(&mut self.body).await? else { return Ok(false) };
        self.decoder.push(&piece, take).map_err(|_| sending::too_long(self.limit))?;
        Ok(true)
    }
}

/// The address for messages, which must be of the server's own origin (C-35).
fn resolve(url: &Url, text: &str) -> Result<Url, TransportError> {
    let shown = neutral::shorten(text, 200);
    let endpoint = url.join(text).map_err(|error| {
        TransportError::Garbage(format!("the server names {shown:?} for messages: {error}"))
    })?;
    if endpoint.origin() != url.origin() {
        let what = format!("the server wants messages sent elsewhere, to {shown:?}");
        return Err(TransportError::Garbage(what));
    }
    Ok(endpoint)
}

/// What posts messages.
struct Posting {
    wire: Arc<Wire>,
    endpoint: Url,
    inbox: Inbox,
    answering: Arc<AtomicUsize>,
}

impl Posting {
    /// Posts messages one after the other, so that they arrive in order.
    async fn post_all(self, mut outgoing: mpsc::UnboundedReceiver<Outgoing>) {
        while let Some(Outgoing { frame, kind }) = outgoing.recv().await {
            let request = match kind {
                OutgoingKind::Request { id, .. } => Some(id),
                OutgoingKind::Notification { .. } | OutgoingKind::Response => None,
            };
            match (self.post(request, frame).await, request) {
                (Ok(()), _) => {}
                (Err(error), Some(id)) => self.inbox.fail(id, error),
                (Err(error), None) => tracing::debug!(%error, "a message could not be sent"),
            }
            if matches!(kind, OutgoingKind::Response) {
                self.answering.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    async fn post(&self, request: Option<i64>, frame: Vec<u8>) -> Result<(), TransportError> {
        let answer = self.wire.send(sending::post(&self.endpoint, frame)).await?;
        let (head, body) = answer.into_parts();
        // The connection is free for the next one once the body is read.
        let body = sending::whole(body, sending::LONGEST_REFUSAL).await.unwrap_or_default();
        let is_answered =
            head.status.is_success() || request.is_some_and(|id| self.inbox.receive_for(id, &body));
        match is_answered {
            true => Ok(()),
            false => Err(sending::refusal(head.status, &head.headers, &body)),
        }
    }
}

/// How long the server may take to hear what is said last.
const FAREWELL: Duration = Duration::from_secs(2);

/// How many answers to the server's requests may be on their way.
const MOST_ANSWERS: usize = 256;

#[cfg(test)]
mod tests {
    use super::resolve;
    use url::Url;

    /// MCP-033, C-35: relative or absolute, but never elsewhere.
    #[test]
    fn the_address_for_messages_is_at_the_server() {
        let url = Url::parse("http://a.example:8080/app/sse").unwrap();
        for (text, expected) in [
            ("/messages?id=1", Some("http://a.example:8080/messages?id=1")),
            ("messages", Some("http://a.example:8080/app/messages")),
            ("?id=1", Some("http://a.example:8080/app/sse?id=1")),
            ("http://a.example:8080/x", Some("http://a.example:8080/x")),
            ("http://a.example/x", None),
            ("https://a.example:8080/x", None),
            ("//b.example/x", None),
            ("http://b.example:8080/x", None),
            ("file:///etc/passwd", None),
        ] {
            let found = resolve(&url, text).ok().map(|url| url.to_string());
            assert_eq!(found.as_deref(), expected, "{text}");
        }
    }
}
