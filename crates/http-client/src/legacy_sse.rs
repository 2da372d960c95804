//! HTTP+SSE, the transport of 2024-11-05: messages arrive on one event stream and are posted to the
//! URL that its first event names.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use hyper::body::Incoming;
use mcp_flow_client::sanitize;
use mcp_flow_client::transport::{
    ContentStream, Inbox, Outgoing, OutgoingKind, Transport, TransportError,
};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio_util::task::TaskTracker;
use url::Url;

use crate::event_decoder::{Event, EventDecoder};
use crate::exchange;
use crate::pool::Pool;

/// One connection: an event stream, and a task that posts messages.
#[derive(Debug)]
struct LegacySse {
    pool: Arc<Pool>,
    url: Url,
    /// None once the connection is closed.
    messages: Mutex<Option<mpsc::UnboundedSender<Outgoing>>>,
    /// Responses to the server's requests that are not delivered yet.
    pending_responses: Arc<AtomicUsize>,
    inbox: Inbox,
    tasks: [AbortHandle; 2],
    posting: TaskTracker,
}

/// Opens the event stream and waits for the endpoint event (MCP-033).
pub(crate) async fn open(
    pool: Arc<Pool>,
    url: Url,
    inbox: Inbox,
) -> Result<Arc<dyn Transport>, TransportError> {
    let response = pool.send(exchange::get_events(&url)).await?;
    let (head, body) = response.into_parts();
    if !head.status.is_success() {
        let body = exchange::read_body(body, exchange::MAX_ERROR_BODY).await.unwrap_or_default();
        return Err(exchange::rejection(head.status, &head.headers, &body));
    }
    if exchange::media_type(&head.headers) != "text/event-stream" {
        let what = "no MCP server at this URL: the response is not an event stream";
        return Err(TransportError::Unsuitable(what.to_owned()));
    }
    let mut stream = EventReader::new(body, &inbox);
    let endpoint = stream.endpoint(&url).await?;
    // Unbounded, but limited by the callers that wait; see `Transport::send`.
    let (messages, outgoing) = mpsc::unbounded_channel();
    let reading = tokio::spawn(async move { stream.read().await });
    let pending_responses = Arc::new(AtomicUsize::new(0));
    let poster = Poster {
        pool: pool.clone(),
        endpoint,
        inbox: inbox.clone(),
        pending_responses: pending_responses.clone(),
    };
    let tracker = TaskTracker::new();
    let task = tracker.spawn(poster.post_all(outgoing));
    let tasks = [reading.abort_handle(), task.abort_handle()];
    let messages = Mutex::new(Some(messages));
    Ok(Arc::new(LegacySse {
        pool,
        url,
        messages,
        pending_responses,
        inbox,
        tasks,
        posting: tracker,
    }))
}

impl Transport for LegacySse {
    fn name(&self) -> &'static str {
        "sse"
    }

    fn send(&self, message: Outgoing) {
        if matches!(message.kind, OutgoingKind::Response)
            && self.pending_responses.fetch_add(1, Ordering::Relaxed) >= MAX_PENDING_RESPONSES
        {
            // A server could send requests forever without reading the responses.
            let what = "the server sends requests and does not accept the responses".to_owned();
            return self.inbox.closed(TransportError::InvalidMessage(what));
        }
        // If the task has ended, the inbox is closed already.
        let messages = self.messages.lock();
        let _ = messages.as_ref().map(|messages| messages.send(message));
    }

    fn open(
        &self,
        content: &Value,
    ) -> Option<BoxFuture<'_, Result<ContentStream, TransportError>>> {
        let url = exchange::own_link(&self.url.origin(), content)?;
        Some(Box::pin(exchange::open_link(&self.pool, url)))
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        // Queued messages, such as cancellations, are posted before the connection closes.
        self.messages.lock().take();
        self.posting.close();
        Box::pin(async move {
            let _ = tokio::time::timeout(CLOSE_TIMEOUT, self.posting.wait()).await;
            self.tasks.iter().for_each(AbortHandle::abort);
        })
    }
}

impl Drop for LegacySse {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

/// The event stream.
struct EventReader {
    body: Incoming,
    decoder: EventDecoder,
    inbox: Inbox,
    limit: usize,
}

impl EventReader {
    fn new(body: Incoming, inbox: &Inbox) -> Self {
        let limit = inbox.frame_limit();
        Self { body, decoder: EventDecoder::new(limit), inbox: inbox.clone(), limit }
    }

    /// Reads up to the endpoint event, and returns its URL.
    async fn endpoint(&mut self, url: &Url) -> Result<Url, TransportError> {
        let mut named = None;
        loop {
            let is_open = self
                .step(&mut |event| {
                    if event.name == "endpoint" {
                        let text = String::from_utf8_lossy(&event.data).trim().to_owned();
                        named = Some(text);
                    }
                })
                .await?;
            if let Some(text) = named.take() {
                return resolve(url, &text);
            }
            if !is_open {
                let what = "the event stream ended before the endpoint event";
                return Err(TransportError::Lost(what.to_owned()));
            }
        }
    }

    /// Passes messages to the inbox until the stream ends.
    async fn read(mut self) {
        let inbox = self.inbox.clone();
        let mut take = |event: &Event| {
            if matches!(event.name.as_str(), "" | "message") && !event.data.is_empty() {
                inbox.receive(&event.data);
            }
        };
        let reason = loop {
            match self.step(&mut take).await {
                Ok(true) => {}
                Ok(false) => break TransportError::Lost("the server ended the stream".to_owned()),
                Err(error) => break error,
            }
        };
        self.inbox.closed(reason);
    }

    /// Decodes the next chunk. Returns `false` at the end of the stream.
    async fn step(&mut self, take: &mut impl FnMut(&Event)) -> Result<bool, TransportError> {
        let Some(chunk) = exchange::read_chunk(&mut self.body).await? else { return Ok(false) };
        self.decoder.push(&chunk, take).map_err(|error| error.explain(self.limit))?;
        Ok(true)
    }
}

/// Resolves the URL for messages, which must have the server's origin (C-35).
fn resolve(url: &Url, text: &str) -> Result<Url, TransportError> {
    let shown = sanitize::shorten(text, 200);
    let endpoint = url.join(text).map_err(|error| {
        TransportError::InvalidMessage(format!("the endpoint event names {shown:?}: {error}"))
    })?;
    if endpoint.origin() != url.origin() {
        let what = format!("the endpoint event names another origin: {shown:?}");
        return Err(TransportError::InvalidMessage(what));
    }
    Ok(endpoint)
}

/// Posts outgoing messages.
struct Poster {
    pool: Arc<Pool>,
    endpoint: Url,
    inbox: Inbox,
    pending_responses: Arc<AtomicUsize>,
}

impl Poster {
    /// Posts messages one at a time, so that they arrive in order.
    async fn post_all(self, mut outgoing: mpsc::UnboundedReceiver<Outgoing>) {
        while let Some(Outgoing { frame, kind }) = outgoing.recv().await {
            let request = match kind {
                OutgoingKind::Request { id, .. } => Some(id),
                OutgoingKind::Notification { .. } | OutgoingKind::Response => None,
            };
            match (self.post(request, frame).await, request) {
                (Ok(()), _) => {}
                (Err(error), Some(id)) => self.inbox.fail(id, error),
                (Err(error), None) => tracing::debug!(%error, "cannot send a message"),
            }
            if matches!(kind, OutgoingKind::Response) {
                self.pending_responses.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    async fn post(&self, request: Option<i64>, frame: Vec<u8>) -> Result<(), TransportError> {
        let response = self.pool.send(exchange::post(&self.endpoint, frame)).await?;
        let (head, body) = response.into_parts();
        // The connection returns to the pool once the body is read.
        let body = exchange::read_body(body, exchange::MAX_ERROR_BODY).await.unwrap_or_default();
        let is_delivered =
            head.status.is_success() || request.is_some_and(|id| self.inbox.receive_for(id, &body));
        match is_delivered {
            true => Ok(()),
            false => Err(exchange::rejection(head.status, &head.headers, &body)),
        }
    }
}

/// Time to post the last messages on close.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Limit on undelivered responses to the server's requests.
const MAX_PENDING_RESPONSES: usize = 256;

#[cfg(test)]
mod tests {
    use super::resolve;
    use url::Url;

    /// MCP-033, C-35: the endpoint may be relative or absolute, but never of another origin.
    #[test]
    fn endpoints_of_another_origin_are_rejected() {
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
