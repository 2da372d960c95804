//! What comes from the server, each kind by a task of its own.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mcp_flow_client::transport::TransportError;
use mcp_flow_proto::error::INVALID_REQUEST;
use mcp_flow_proto::webtransport::{
    Channel, Datagram, FrameDecoder, HeaderDecoder, StreamError, StreamHeader,
};
use mcp_flow_proto::{Encoding, method, write};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{sleep_until, timeout};
use web_transport_quinn::{ReadError, RecvStream};

use super::Client;
use super::books::{Noted, Received};
use super::stream::IncomingStream;

/// Something that came from the server.
#[derive(Debug)]
pub enum Event {
    /// A message.
    Message {
        /// How it is written.
        encoding: Encoding,
        /// The message.
        bytes: Vec<u8>,
    },
    /// A stream that the answer to a call names; it comes after that answer.
    Stream(IncomingStream),
    /// A stream that an answer names, or may name, and that will not come: the server says why.
    StreamFailed(StreamError),
    /// A datagram about a call in flight, or the whole session.
    Datagram {
        /// What kind of thing it says.
        channel: Channel,
        /// The request it is about; 0 is the whole session.
        request: u32,
        /// What it says.
        payload: Bytes,
    },
    /// A message that is not signed as it should be. Nothing after it is believed.
    Untrusted(TransportError),
}

/// What comes from the server, in order as far as there is one.
#[derive(Debug)]
pub struct Events {
    events: mpsc::Receiver<Event>,
    /// Ends them all with it.
    _tasks: JoinSet<()>,
}

impl Events {
    pub(super) fn begin(client: Client, control: RecvStream, frame: usize) -> Self {
        let (sender, events) = mpsc::channel(WAITING);
        let mut tasks = JoinSet::new();
        tasks.spawn(messages(client.clone(), control, frame, sender.clone()));
        tasks.spawn(streams(client.clone(), sender.clone()));
        tasks.spawn(datagrams(client.clone(), sender));
        tasks.spawn(expiry(client));
        Self { events, _tasks: tasks }
    }

    /// Waits for something; `None` once the session is over.
    pub async fn next(&mut self) -> Option<Event> {
        self.events.recv().await
    }
}

async fn messages(
    client: Client,
    mut control: RecvStream,
    limit: usize,
    events: mpsc::Sender<Event>,
) {
    let mut decoder = FrameDecoder::new(limit);
    while let Ok(Some(chunk)) = control.read_chunk(READ, true).await {
        decoder.buffer().extend_from_slice(&chunk.bytes);
        loop {
            let frame = match decoder.next_frame() {
                Ok(Some(frame)) => frame,
                Ok(None) => break,
                Err(error) => return client.session.close(TOO_LARGE, error.to_string().as_bytes()),
            };
            let bytes = match client.signed.as_ref().map(|signed| signed.open(frame)) {
                None => frame.to_vec(),
                Some(Ok(message)) => message.to_vec(),
                Some(Err(error)) => {
                    let _ = events.send(Event::Untrusted(error)).await;
                    return;
                }
            };
            // What it says may change how the next one is written.
            let encoding = client.encoding();
            let Received { ready, reports, failed } = client.books.note_received(&bytes);
            if events.send(Event::Message { encoding, bytes }).await.is_err() {
                return;
            }
            for stream in ready {
                let _ = events.send(Event::Stream(stream)).await;
            }
            if let Some(failed) = failed {
                let _ = events.send(Event::StreamFailed(failed)).await;
            }
            tell(&client, reports).await;
        }
    }
    // Without messages nothing else has a meaning.
    let _ = timeout(LAST, client.session.closed()).await;
    client.close();
}

async fn streams(client: Client, events: mpsc::Sender<Event>) {
    let mut reading = JoinSet::new();
    while let Ok(stream) = client.session.accept_uni().await {
        reading.spawn(stream_begins(client.clone(), stream, events.clone()));
        while reading.try_join_next().is_some() {}
    }
}

/// Reads whose stream it is, and hands it on or refuses it.
async fn stream_begins(client: Client, mut stream: RecvStream, events: mpsc::Sender<Event>) {
    let mut decoder = HeaderDecoder::default();
    let header = async {
        loop {
            let Some(chunk) = stream.read_chunk(READ, true).await? else { return Ok(None) };
            let mut rest = &*chunk.bytes;
            if let Some(header) = decoder.take(&mut rest) {
                return Ok::<_, ReadError>(Some((header, chunk.bytes.slice_ref(rest))));
            }
        }
    };
    let (header, begun) = match timeout(HEADER_TIME, header).await {
        Ok(Ok(Some(read))) => read,
        // The server has taken it back, as it does after a cancel.
        Ok(Err(_)) => return,
        Ok(Ok(None)) | Err(_) => {
            let _ = stream.stop(TOO_SHORT);
            let details = "the stream ended within its header";
            let nameless = StreamHeader { request: 0, tag: 0 };
            return tell(&client, [StreamError::fault(nameless, INVALID_REQUEST, details)]).await;
        }
    };
    let stream = IncomingStream::new(header, stream, begun, client.books.clone());
    match client.books.note_stream(stream) {
        Noted::Ready(stream) => {
            let _ = events.send(Event::Stream(stream)).await;
        }
        Noted::Held => {}
        Noted::Refused(mut stream, report) => {
            stream.refuse();
            drop(stream);
            tell(&client, report).await;
        }
    }
}

async fn datagrams(client: Client, events: mpsc::Sender<Event>) {
    loop {
        let Ok(bytes) = client.session.read_datagram().await else {
            if client.session.close_reason().is_some() {
                return;
            }
            client.books.count_dropped();
            continue;
        };
        match Datagram::decode(&bytes) {
            Ok(datagram) if client.books.wants_datagram(datagram.request) => {
                let Datagram { channel, request, payload } = datagram;
                let event = Event::Datagram { channel, request, payload: bytes.slice_ref(payload) };
                if events.try_send(event).is_err() {
                    client.books.count_dropped();
                }
            }
            Ok(_) => {}
            Err(_) => client.books.count_dropped(),
        }
    }
}

/// Gives up what does not come.
async fn expiry(client: Client) {
    let books: Arc<_> = client.books.clone();
    loop {
        let changed = books.changed.notified();
        match books.due() {
            None => changed.await,
            Some(due) => tokio::select! {
                () = changed => {}
                () = sleep_until(due) => {
                    let (reports, unwanted) = books.expire();
                    for mut stream in unwanted {
                        stream.refuse();
                    }
                    tell(&client, reports).await;
                }
            },
        }
    }
}

/// Tells the server of streams that are wrong.
async fn tell(client: &Client, reports: impl IntoIterator<Item = StreamError>) {
    for report in reports {
        let mut message = Vec::new();
        let encoding = client.encoding();
        if write::notification(&mut message, encoding, method::STREAM_ERROR, &report).is_ok() {
            let _ = client.send_unseen(&message).await;
        }
    }
}

/// How much may wait to be taken.
const WAITING: usize = 256;

/// How much is read at once.
const READ: usize = 64 * 1024;

/// How long a header may be on its way.
const HEADER_TIME: Duration = Duration::from_secs(5);

/// How long the end of a session may be on its way after its last message.
const LAST: Duration = Duration::from_secs(40);

/// Codes that sessions are closed and streams are stopped with.
const TOO_LARGE: u32 = 2;
const TOO_SHORT: u32 = 4;
