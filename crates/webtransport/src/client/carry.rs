//! One session as a transport: messages both ways, streams for whoever opens them, datagrams as the
//! notifications they stand for.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::unfold;
use mcp_flow_client::transport::{
    Inbox, Opened, Outgoing, OutgoingKind, Transport, TransportError,
};
use mcp_flow_proto::webtransport::{ClientTransport, StreamError, StreamHeader};
use mcp_flow_proto::{Encoding, Raw, method, write};
use serde_json::{Map, Value, json};
use tokio::sync::{broadcast, mpsc};
use tokio::time::timeout;

use super::datagrams::{Meaning, Sound, meaning};
use super::unread::Unread;
use super::{Client, Event, Events, StreamEnded};

/// A session that carries a client's messages.
#[derive(Debug)]
pub struct WebTransport {
    client: Client,
    encodings: Vec<Encoding>,
    outgoing: mpsc::UnboundedSender<Outgoing>,
    /// How many bytes wait that answer requests of the server, which can ask without reading.
    answers: Arc<AtomicUsize>,
    unread: Arc<Unread>,
    sounds: broadcast::Sender<Sound>,
}

impl WebTransport {
    pub(super) fn begin(
        client: Client,
        events: Events,
        inbox: Inbox,
        encodings: &[Encoding],
    ) -> Self {
        let (outgoing, waiting) = mpsc::unbounded_channel();
        let answers = Arc::new(AtomicUsize::new(0));
        let unread = Arc::new(Unread::default());
        let sounds = broadcast::Sender::new(SOUNDS);
        tokio::spawn(send(client.clone(), waiting, answers.clone()));
        let receiving = Receiving { inbox, unread: unread.clone(), sounds: sounds.clone() };
        tokio::spawn(receiving.run(client.clone(), events));
        Self { client, encodings: encodings.to_vec(), outgoing, answers, unread, sounds }
    }

    /// The session below, for what is not offered here.
    pub fn client(&self) -> &Client {
        &self.client
    }

    pub(super) fn sounds(&self) -> broadcast::Receiver<Sound> {
        self.sounds.subscribe()
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
            let waiting = self.answers.fetch_add(message.frame.len(), Ordering::Relaxed);
            if waiting > MOST_ANSWERS {
                self.client.session().close(UNREAD, b"the server asks and does not read");
            }
        }
        // Once the session is over the inbox has been told so.
        let _ = self.outgoing.send(message);
    }

    /// Cancels as seed 001 has it, which every server of this transport understands (C-12).
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

    fn introduction(&self) -> Map<String, Value> {
        let transport = json!(ClientTransport::new(&self.encodings));
        Map::from_iter([("transport".to_owned(), transport)])
    }

    fn wants_handshake(&self) -> bool {
        self.encodings.first().is_some_and(|first| *first != Encoding::Json)
    }

    fn open(&self, content: &Value) -> Option<BoxFuture<'_, Result<Opened, TransportError>>> {
        let number = |name: &str| u32::try_from(content[name].as_u64()?).ok();
        if content["type"] != STREAM {
            return None;
        }
        let header = StreamHeader { request: number(REQUEST)?, tag: number("streamTag")? };
        let mime_type = content["mimeType"].as_str().map(str::to_owned);
        let size = content["_meta"][DOWNLOAD]["size"].as_u64();
        Some(Box::pin(async move {
            let taken = tokio::select! {
                taken = timeout(ARRIVAL, self.unread.take(header)) => taken.ok(),
                _ = self.client.closed() => None,
            };
            let lost = TransportError::Lost;
            let stream = taken
                .ok_or_else(|| lost("the stream has not come, or was opened before".to_owned()))?
                .map_err(|error| lost(error.to_string()))?;
            let bytes = unfold(Some((stream, 0)), move |reading| async move {
                let (mut stream, received) = reading?;
                match stream.next().await {
                    Ok(Some(piece)) => {
                        let received = received + piece.len() as u64;
                        Some((Ok(piece), Some((stream, received))))
                    }
                    // What looks complete may still be a part.
                    Ok(None) => {
                        let size = size.filter(|size| *size != received)?;
                        let what = format!("the stream ended after {received} of {size} bytes");
                        Some((Err(lost(what)), None))
                    }
                    Err(error) => Some((Err(lost(error.to_string())), None)),
                }
            });
            Ok(Opened { size, mime_type, bytes: bytes.boxed() })
        }))
    }

    /// The books look into messages, and some are written anew before they leave.
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
                let _ = timeout(GOODBYE, self.client.closed()).await;
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

/// Sends messages in order, as many at once as there are.
async fn send(
    client: Client,
    mut waiting: mpsc::UnboundedReceiver<Outgoing>,
    answers: Arc<AtomicUsize>,
) {
    let (mut messages, mut frames) = (Vec::new(), Vec::new());
    while waiting.recv_many(&mut messages, AT_ONCE).await > 0 {
        let mut answered = 0;
        for Outgoing { frame, kind } in messages.drain(..) {
            if matches!(kind, OutgoingKind::Response) {
                answered += frame.len();
            }
            let frame = in_encoding(client.encoding(), frame);
            client.note(&frame);
            match u32::try_from(frame.len()) {
                Ok(_) => frames.push(frame),
                Err(_) => tracing::error!("a message is too long to be sent"),
            }
        }
        if client.send_frames(frames.drain(..)).await.is_err() {
            return;
        }
        answers.fetch_sub(answered, Ordering::Relaxed);
    }
}

/// A message in the encoding of the moment: one that was written before another was agreed on is
/// written anew.
fn in_encoding(encoding: Encoding, frame: Vec<u8>) -> Vec<u8> {
    let is_json = matches!(frame.first(), Some(b'{' | b'['));
    if !is_json || encoding == Encoding::Json {
        return frame;
    }
    let value = serde_json::from_slice::<Value>(&frame).ok();
    value.and_then(|value| encoding.encode(&value).ok()).unwrap_or(frame)
}

struct Receiving {
    inbox: Inbox,
    unread: Arc<Unread>,
    sounds: broadcast::Sender<Sound>,
}

impl Receiving {
    async fn run(self, client: Client, mut events: Events) {
        let mut tidying = std::pin::pin!(self.unread.tidy());
        loop {
            let event = tokio::select! {
                event = events.next() => event,
                () = &mut tidying => continue,
            };
            match event {
                None => break,
                Some(Event::Untrusted(error)) => {
                    self.inbox.closed(error);
                    client.close();
                }
                Some(Event::Message { encoding, bytes }) => self.message(encoding, &bytes),
                Some(Event::Stream(stream)) => self.unread.put(stream.header(), Ok(stream)),
                Some(Event::StreamFailed(StreamError { stream, error, .. })) => {
                    self.unread.put(stream, Err(StreamEnded::Failed(error)));
                }
                Some(Event::Datagram { channel, request, payload }) => {
                    let encoding = client.encoding();
                    match meaning(channel, request, &payload, encoding) {
                        // Datagrams are not signed, so where messages are they say nothing.
                        Some(Meaning::Notification(_)) if client.signed.is_some() => {
                            client.books.count_dropped();
                        }
                        Some(Meaning::Notification(frame)) => {
                            self.inbox.receive_in(encoding, &frame);
                        }
                        // Nobody may be listening.
                        Some(Meaning::Sound(sound)) => drop(self.sounds.send(sound)),
                        None => client.books.count_dropped(),
                    }
                }
            }
        }
        let why = client.closed().await;
        self.inbox.closed(TransportError::Lost(format!("the session is over: {why}")));
    }

    fn message(&self, encoding: Encoding, message: &[u8]) {
        let names_streams = message.windows(STREAM.len()).any(|window| window == STREAM.as_bytes());
        let numbered = names_streams.then(|| number_streams(encoding, message)).flatten();
        self.inbox.receive_in(encoding, numbered.as_deref().unwrap_or(message));
    }
}

/// Adds to every piece of content that names a stream the request it belongs to, which alone tells
/// whose stream it is. `None` if it is no answer.
fn number_streams(encoding: Encoding, message: &[u8]) -> Option<Vec<u8>> {
    let mut value: Value = match encoding {
        Encoding::Json => serde_json::from_slice(message).ok()?,
        Encoding::Cbor => Raw::Cbor(message).decode().ok()?,
    };
    let id = value.get("id")?.clone();
    let result = value.get_mut("result")?;
    for list in ["content", "contents"] {
        let Some(items) = result.get_mut(list).and_then(Value::as_array_mut) else { continue };
        for item in items.iter_mut().filter(|item| item["type"] == STREAM) {
            item[REQUEST] = id.clone();
        }
    }
    encoding.encode(&value).ok()
}

/// The type of content that names a stream, and what tells whose it is.
const STREAM: &str = "ref/stream";
const REQUEST: &str = "requestId";

/// Key in `_meta` of the length of a stream (C-59).
const DOWNLOAD: &str = "mcp-flow/download";

/// How many messages are sent at once.
const AT_ONCE: usize = 64;

/// How many bytes of answers may wait for a server that asks without reading, and the code a
/// session is closed with where there are more.
const MOST_ANSWERS: usize = 4 << 20;
const UNREAD: u32 = 1;

/// How many pieces of sound are kept for a listener that does not listen.
const SOUNDS: usize = 256;

/// How long a stream may take to come after it is named.
const ARRIVAL: Duration = Duration::from_secs(10);

/// How long taking leave may last.
const GOODBYE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::{Encoding, Value, in_encoding, number_streams};
    use serde_json::json;

    fn decode(encoding: Encoding, bytes: &[u8]) -> Value {
        match encoding {
            Encoding::Json => serde_json::from_slice(bytes).unwrap(),
            Encoding::Cbor => super::Raw::Cbor(bytes).decode().unwrap(),
        }
    }

    /// WT-052: whose stream it is, is the client's word and not the server's.
    #[test]
    fn streams_get_the_number_of_their_request() {
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
                    let numbered = number_streams(encoding, &message).unwrap();
                    assert_eq!(decode(encoding, &numbered), answer(list, stream(json!(7))));
                }
            }
            let notice = encoding.encode(&json!({"method": "ref/stream"})).unwrap();
            assert!(number_streams(encoding, &notice).is_none());
        }
    }

    /// WT-036: nothing is sent in another encoding than the one agreed on.
    #[test]
    fn messages_are_written_in_the_encoding_of_the_moment() {
        let message = json!({"id": 1, "method": "ping"});
        for before in Encoding::ALL {
            let written = before.encode(&message).unwrap();
            assert_eq!(
                decode(Encoding::Cbor, &in_encoding(Encoding::Cbor, written.clone())),
                message
            );
        }
        let json = Encoding::Json.encode(&message).unwrap();
        assert_eq!(in_encoding(Encoding::Json, json.clone()), json);
    }
}
