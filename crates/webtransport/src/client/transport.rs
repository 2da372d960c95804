//! The client transport over one session: messages in both directions, streams for callers that
//! open them, and datagrams delivered as the notifications they stand for.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::unfold;
use mcp_flow_client::transport::{
    ContentStream, Inbox, Outgoing, OutgoingKind, Transport, TransportError,
};
use mcp_flow_proto::webtransport::{ClientTransport, DatagramChannel, StreamError, StreamHeader};
use mcp_flow_proto::{Encoding, Incoming, InvalidMessage, Raw, method, write};
use serde_json::{Map, Value, json};
use tokio::sync::{broadcast, mpsc};
use tokio::task::JoinSet;
use tokio::time::timeout;
use web_transport_quinn::RecvStream;

use super::TransportClient;
use super::datagrams::{DatagramContent, ReceivedAudio, decode_datagram};
use super::receive::{Sink, spawn_receive_tasks};
use super::stream::{IncomingStream, StreamEnded};
use super::tracker::STREAM_TYPE;
use super::unopened::UnopenedStreams;

/// A client transport over a WebTransport session.
#[derive(Debug)]
pub struct WebTransport {
    client: TransportClient,
    encodings: Vec<Encoding>,
    outgoing: mpsc::UnboundedSender<Outgoing>,
    /// Bytes of queued responses. Bounded, because a server can send requests without reading.
    response_bytes: Arc<AtomicUsize>,
    unopened: Arc<UnopenedStreams>,
    audio: broadcast::Sender<ReceivedAudio>,
    /// Aborts the receive tasks on drop.
    _tasks: JoinSet<()>,
}

impl WebTransport {
    pub(super) fn spawn(
        client: TransportClient,
        control: RecvStream,
        inbox: Inbox,
        encodings: &[Encoding],
    ) -> Self {
        let (outgoing, waiting) = mpsc::unbounded_channel();
        let response_bytes = Arc::new(AtomicUsize::new(0));
        let unopened = Arc::new(UnopenedStreams::default());
        let audio = broadcast::Sender::new(AUDIO_CAPACITY);
        tokio::spawn(send_queued(client.clone(), waiting, response_bytes.clone()));
        let sink = InboxSink {
            inbox,
            client: client.clone(),
            unopened: unopened.clone(),
            audio: audio.clone(),
        };
        let frame_limit = sink.inbox.frame_limit();
        let mut tasks = spawn_receive_tasks(&client, control, frame_limit, sink);
        let expiring = unopened.clone();
        tasks.spawn(async move { expiring.expire().await });
        let encodings = encodings.to_vec();
        Self { client, encodings, outgoing, response_bytes, unopened, audio, _tasks: tasks }
    }

    /// Returns the underlying session.
    pub fn client(&self) -> &TransportClient {
        &self.client
    }

    pub(super) fn audio(&self) -> broadcast::Receiver<ReceivedAudio> {
        self.audio.subscribe()
    }
}

impl Transport for WebTransport {
    fn name(&self) -> &'static str {
        "webtransport"
    }

    fn encoding(&self) -> Encoding {
        self.client.encoding()
    }

    fn send(&self, message: Outgoing) {
        if matches!(message.kind, OutgoingKind::Response) {
            let waiting = self.response_bytes.fetch_add(message.frame.len(), Ordering::Relaxed);
            if waiting > MAX_RESPONSE_BYTES {
                self.client.session().close(CLOSE_UNREAD, b"the server does not read responses");
            }
        }
        // If the session is closed, the inbox has been notified already.
        let _ = self.outgoing.send(message);
    }

    /// Cancels by `$/cancel` (seed 001), which every server of this transport supports (C-12).
    fn cancel(&self, request: i64) -> bool {
        let mut frame = Vec::new();
        let params = json!({"requestId": request, "reason": "no longer wanted"});
        let is_written =
            write::notification(&mut frame, self.encoding(), method::CANCEL, &params).is_ok();
        if is_written {
            let kind = OutgoingKind::Notification { method: method::CANCEL.into() };
            self.send(Outgoing { frame, kind });
        }
        is_written
    }

    fn initialize_params(&self) -> Map<String, Value> {
        let transport = json!(ClientTransport::new(&self.encodings));
        Map::from_iter([("transport".to_owned(), transport)])
    }

    fn needs_initialize(&self) -> bool {
        self.encodings.first().is_some_and(|first| *first != Encoding::Json)
    }

    fn open(
        &self,
        content: &Value,
    ) -> Option<BoxFuture<'_, Result<ContentStream, TransportError>>> {
        let number = |name: &str| u32::try_from(content[name].as_u64()?).ok();
        if content["type"] != STREAM_TYPE {
            return None;
        }
        let header = StreamHeader { request: number(REQUEST)?, tag: number("streamTag")? };
        let mime_type = content["mimeType"].as_str().map(str::to_owned);
        let size = content["_meta"][DOWNLOAD]["size"].as_u64();
        Some(Box::pin(async move {
            let taken = tokio::select! {
                taken = timeout(ARRIVAL_TIMEOUT, self.unopened.take(header)) => taken.ok(),
                _ = self.client.closed() => None,
            };
            let lost = TransportError::Lost;
            let stream = taken
                .ok_or_else(|| lost("the stream has not arrived, or was opened before".to_owned()))?
                .map_err(|error| lost(error.to_string()))?;
            let bytes = unfold(Some((stream, 0)), move |reading| async move {
                let (mut stream, received) = reading?;
                match stream.next().await {
                    Ok(Some(piece)) => {
                        let received = received + piece.len() as u64;
                        Some((Ok(piece), Some((stream, received))))
                    }
                    // A stream that ended cleanly may still be truncated.
                    Ok(None) => {
                        let size = size.filter(|size| *size != received)?;
                        let what = format!("the stream ended after {received} of {size} bytes");
                        Some((Err(lost(what)), None))
                    }
                    Err(error) => Some((Err(lost(error.to_string())), None)),
                }
            });
            Ok(ContentStream { size, mime_type, bytes: bytes.boxed() })
        }))
    }

    /// Messages are tracked, and some are transcoded, before they are signed.
    fn signs(&self) -> bool {
        true
    }

    fn as_any(&self) -> Option<&(dyn std::any::Any + Send + Sync)> {
        Some(self)
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let mut frame = Vec::new();
            let (encoding, name) = (self.encoding(), method::SHUTDOWN_NOTIFICATION);
            if write::notification(&mut frame, encoding, name, &()).is_ok() {
                let kind = OutgoingKind::Notification { method: name.into() };
                let _ = self.outgoing.send(Outgoing { frame, kind });
                let _ = timeout(CLOSE_TIMEOUT, self.client.closed()).await;
            }
            self.client.close();
        })
    }
}

impl Drop for WebTransport {
    fn drop(&mut self) {
        self.client.close();
    }
}

/// Sends queued messages in order, in batches.
async fn send_queued(
    client: TransportClient,
    mut waiting: mpsc::UnboundedReceiver<Outgoing>,
    response_bytes: Arc<AtomicUsize>,
) {
    let (mut messages, mut frames) = (Vec::new(), Vec::new());
    while waiting.recv_many(&mut messages, MAX_BATCH).await > 0 {
        let mut sent_bytes = 0;
        for Outgoing { frame, kind } in messages.drain(..) {
            if matches!(kind, OutgoingKind::Response) {
                sent_bytes += frame.len();
            }
            let frame = transcode(client.encoding(), frame);
            client.track_outgoing(&kind, &frame);
            match u32::try_from(frame.len()) {
                Ok(_) => frames.push(frame),
                Err(_) => tracing::error!("a message is too long to be sent"),
            }
        }
        if client.send_frames(frames.drain(..)).await.is_err() {
            return;
        }
        response_bytes.fetch_sub(sent_bytes, Ordering::Relaxed);
    }
}

/// Transcodes a message that was encoded before another encoding was negotiated.
fn transcode(encoding: Encoding, frame: Vec<u8>) -> Vec<u8> {
    let is_json = matches!(frame.first(), Some(b'{' | b'['));
    if !is_json || encoding == Encoding::Json {
        return frame;
    }
    let value = serde_json::from_slice::<Value>(&frame).ok();
    value.and_then(|value| encoding.encode(&value).ok()).unwrap_or(frame)
}

/// Delivers what arrives to the client's inbox.
#[derive(Clone)]
struct InboxSink {
    inbox: Inbox,
    client: TransportClient,
    unopened: Arc<UnopenedStreams>,
    audio: broadcast::Sender<ReceivedAudio>,
}

impl Sink for InboxSink {
    async fn message(
        &self,
        encoding: Encoding,
        message: &[u8],
        decoded: Result<Incoming<'_>, InvalidMessage>,
        names_streams: bool,
    ) -> bool {
        match names_streams.then(|| add_request_ids(encoding, message)).flatten() {
            Some(with_ids) => self.inbox.receive_in(encoding, &with_ids),
            None => self.inbox.receive_decoded(encoding, message, decoded),
        }
        true
    }

    async fn stream(&self, stream: IncomingStream) {
        self.unopened.insert(stream.header(), Ok(stream));
    }

    async fn stream_failed(&self, StreamError { stream, error, .. }: StreamError) {
        self.unopened.insert(stream, Err(StreamEnded::Failed(error)));
    }

    fn datagram(&self, channel: DatagramChannel, request: u32, payload: Bytes) -> bool {
        let encoding = self.client.encoding();
        match decode_datagram(channel, request, &payload, encoding) {
            // Datagrams are not signed, so they are ignored where messages are.
            Some(DatagramContent::Notification(frame)) if self.client.signed.is_none() => {
                self.inbox.receive_in(encoding, &frame);
            }
            // There may be no receiver.
            Some(DatagramContent::Audio(chunk)) => drop(self.audio.send(chunk)),
            Some(DatagramContent::Notification(_)) | None => return false,
        }
        true
    }

    async fn closed(&self, reason: TransportError) {
        self.inbox.closed(reason);
    }
}

/// Adds the request id to every content item that names a stream, because a tag alone is ambiguous.
/// Returns `None` if the message is not a result.
fn add_request_ids(encoding: Encoding, message: &[u8]) -> Option<Vec<u8>> {
    let mut value: Value = match encoding {
        Encoding::Json => serde_json::from_slice(message).ok()?,
        Encoding::Cbor => Raw::Cbor(message).decode().ok()?,
    };
    let id = value.get("id")?.clone();
    let result = value.get_mut("result")?;
    for list in ["content", "contents"] {
        let Some(items) = result.get_mut(list).and_then(Value::as_array_mut) else { continue };
        for item in items.iter_mut().filter(|item| item["type"] == STREAM_TYPE) {
            item[REQUEST] = id.clone();
        }
    }
    encoding.encode(&value).ok()
}

/// The member of a content item that identifies the request of its stream.
const REQUEST: &str = "requestId";

/// Key in `_meta` of the length of a stream (C-59).
const DOWNLOAD: &str = "mcp-flow/download";

/// Maximum number of messages in a batch.
const MAX_BATCH: usize = 64;

/// Maximum bytes of queued responses for a server that sends requests without reading, and the
/// close code if there are more.
const MAX_RESPONSE_BYTES: usize = 4 << 20;
const CLOSE_UNREAD: u32 = 1;

/// Number of audio chunks buffered for a slow receiver.
const AUDIO_CAPACITY: usize = 256;

/// Time limit for a named stream to arrive.
const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(10);

/// Time limit for a graceful close.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::{Encoding, Value, add_request_ids, transcode};
    use serde_json::json;

    fn decode(encoding: Encoding, bytes: &[u8]) -> Value {
        match encoding {
            Encoding::Json => serde_json::from_slice(bytes).unwrap(),
            Encoding::Cbor => super::Raw::Cbor(bytes).decode().unwrap(),
        }
    }

    /// WT-052: the request id of a stream is set by the client, not by the server.
    #[test]
    fn streams_get_the_id_of_their_request() {
        let stream = |request: Value| {
            let mut item = json!({"type": "ref/stream", "streamTag": 1});
            if !request.is_null() {
                item["requestId"] = request;
            }
            item
        };
        let answer = |list: &str, item: Value| {
            let text = json!({"type": "text", "text": "ref/stream"});
            json!({"jsonrpc": "2.0", "id": 7, "result": {list: [text, item]}})
        };
        for encoding in Encoding::ALL {
            for list in ["content", "contents"] {
                for said in [Value::Null, json!(9)] {
                    let message = encoding.encode(&answer(list, stream(said))).unwrap();
                    let with_ids = add_request_ids(encoding, &message).unwrap();
                    assert_eq!(decode(encoding, &with_ids), answer(list, stream(json!(7))));
                }
            }
            let notice = encoding.encode(&json!({"method": "ref/stream"})).unwrap();
            assert!(add_request_ids(encoding, &notice).is_none());
        }
    }

    /// WT-036: messages are only sent in the negotiated encoding.
    #[test]
    fn messages_are_transcoded_to_the_current_encoding() {
        let message = json!({"id": 1, "method": "ping"});
        for before in Encoding::ALL {
            let written = before.encode(&message).unwrap();
            assert_eq!(
                decode(Encoding::Cbor, &transcode(Encoding::Cbor, written.clone())),
                message
            );
        }
        let json = Encoding::Json.encode(&message).unwrap();
        assert_eq!(transcode(Encoding::Json, json.clone()), json);
    }
}
