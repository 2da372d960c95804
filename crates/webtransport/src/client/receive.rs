//! Receive tasks of a session: one each for messages, streams, datagrams and expiry.
//!
//! Messages are decoded once: the tracker and the [`Sink`] share the decoded message.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mcp_flow_client::transport::TransportError;
use mcp_flow_proto::error::INVALID_REQUEST;
use mcp_flow_proto::webtransport::{
    Datagram, DatagramChannel, FrameDecoder, HeaderDecoder, StreamError, StreamHeader,
};
use mcp_flow_proto::{Encoding, Incoming, InvalidMessage, method, write};
use tokio::task::JoinSet;
use tokio::time::{sleep_until, timeout};
use web_transport_quinn::{ReadError, RecvStream};

use super::TransportClient;
use super::stream::IncomingStream;
use super::tracker::{ReceiveEffects, StreamDecision};

/// The destination of what the receive tasks deliver: a queue of events, or a client's inbox.
pub(super) trait Sink: Clone + Send + Sync + 'static {
    /// Delivers a message. Returns whether more messages are wanted.
    fn message(
        &self,
        encoding: Encoding,
        message: &[u8],
        decoded: Result<Incoming<'_>, InvalidMessage>,
        names_streams: bool,
    ) -> impl Future<Output = bool> + Send;

    /// Delivers a stream that a response names.
    fn stream(&self, stream: IncomingStream) -> impl Future<Output = ()> + Send;

    /// Delivers the error of a stream that will not arrive.
    fn stream_failed(&self, error: StreamError) -> impl Future<Output = ()> + Send;

    /// Delivers a datagram. Returns `false` if it is dropped.
    fn datagram(&self, channel: DatagramChannel, request: u32, payload: Bytes) -> bool;

    /// Delivers the reason for the end of the session. Nothing follows.
    fn closed(&self, reason: TransportError) -> impl Future<Output = ()> + Send;
}

/// Spawns the receive tasks of a session. Dropping the set aborts them.
pub(super) fn spawn_receive_tasks(
    client: &TransportClient,
    control: RecvStream,
    frame: usize,
    sink: impl Sink,
) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    tasks.spawn(receive_messages(client.clone(), control, frame, sink.clone()));
    tasks.spawn(receive_streams(client.clone(), sink.clone()));
    tasks.spawn(receive_datagrams(client.clone(), sink));
    tasks.spawn(expire_streams(client.clone()));
    tasks
}

async fn receive_messages(
    client: TransportClient,
    control: RecvStream,
    limit: usize,
    sink: impl Sink,
) {
    match read_messages(&client, control, limit, &sink).await {
        Ok(()) => {
            // Without messages, streams and datagrams have no meaning.
            let _ = timeout(CLOSE_TIMEOUT, client.session.closed()).await;
            client.close();
            let reason = client.closed().await;
            sink.closed(TransportError::Lost(format!("the session is closed: {reason}"))).await;
        }
        Err(reason) => {
            sink.closed(reason).await;
            client.close();
        }
    }
}

/// Reads messages to the end of the control stream. An error ends the session.
async fn read_messages(
    client: &TransportClient,
    mut control: RecvStream,
    limit: usize,
    sink: &impl Sink,
) -> Result<(), TransportError> {
    let mut decoder = FrameDecoder::new(limit);
    while let Ok(Some(chunk)) = control.read_chunk(READ, true).await {
        decoder.buffer().extend_from_slice(&chunk.bytes);
        loop {
            let frame = match decoder.next_frame() {
                Ok(Some(frame)) => frame,
                Ok(None) => break,
                Err(error) => {
                    client.session.close(TOO_LARGE, error.to_string().as_bytes());
                    return Ok(());
                }
            };
            let message = match &client.signed {
                Some(signed) => signed.open(frame)?,
                None => frame,
            };
            // This message may change the encoding of the next one.
            let encoding = client.encoding();
            let decoded = Incoming::decode(message, encoding);
            let effects = match &decoded {
                Ok(incoming) => client.tracker.record_received(incoming),
                Err(_) => ReceiveEffects::default(),
            };
            let ReceiveEffects { names_streams, ready, reports, failed } = effects;
            if !sink.message(encoding, message, decoded, names_streams).await {
                return Ok(());
            }
            for stream in ready {
                sink.stream(stream).await;
            }
            if let Some(failed) = failed {
                sink.stream_failed(failed).await;
            }
            report_errors(client, reports).await;
        }
    }
    Ok(())
}

async fn receive_streams(client: TransportClient, sink: impl Sink) {
    let mut reading = JoinSet::new();
    while let Ok(stream) = client.session.accept_uni().await {
        reading.spawn(accept_stream(client.clone(), stream, sink.clone()));
        while reading.try_join_next().is_some() {}
    }
}

/// Reads the header of a stream, then delivers or rejects the stream.
async fn accept_stream(client: TransportClient, mut stream: RecvStream, sink: impl Sink) {
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
    let (header, payload) = match timeout(HEADER_TIMEOUT, header).await {
        Ok(Ok(Some(read))) => read,
        // The server reset it, as it does after a cancellation.
        Ok(Err(_)) => return,
        Ok(Ok(None)) | Err(_) => {
            let _ = stream.stop(TOO_SHORT);
            let details = "the stream ended within its header";
            let unknown = StreamHeader { request: 0, tag: 0 };
            return report_errors(
                &client,
                [StreamError::of_kind(unknown, INVALID_REQUEST, details)],
            )
            .await;
        }
    };
    let stream = IncomingStream::new(header, stream, payload, client.tracker.clone());
    match client.tracker.record_stream(stream) {
        StreamDecision::Ready(stream) => sink.stream(stream).await,
        StreamDecision::Held => {}
        StreamDecision::Rejected(mut stream, report) => {
            stream.reject();
            drop(stream);
            report_errors(&client, report).await;
        }
    }
}

async fn receive_datagrams(client: TransportClient, sink: impl Sink) {
    loop {
        let Ok(bytes) = client.session.read_datagram().await else {
            if client.session.close_reason().is_some() {
                return;
            }
            client.tracker.count_dropped();
            continue;
        };
        match Datagram::decode(&bytes) {
            Ok(datagram) if client.tracker.wants_datagram(datagram.request) => {
                let Datagram { channel, request, payload } = datagram;
                if !sink.datagram(channel, request, bytes.slice_ref(payload)) {
                    client.tracker.count_dropped();
                }
            }
            Ok(_) => {}
            Err(_) => client.tracker.count_dropped(),
        }
    }
}

/// Gives up streams that do not arrive.
async fn expire_streams(client: TransportClient) {
    let tracker: Arc<_> = client.tracker.clone();
    loop {
        let changed = tracker.changed.notified();
        match tracker.next_deadline() {
            None => changed.await,
            Some(deadline) => tokio::select! {
                () = changed => {}
                () = sleep_until(deadline) => {
                    let (reports, unwanted) = tracker.expire();
                    for mut stream in unwanted {
                        stream.reject();
                    }
                    report_errors(&client, reports).await;
                }
            },
        }
    }
}

/// Reports stream errors to the server.
async fn report_errors(client: &TransportClient, reports: impl IntoIterator<Item = StreamError>) {
    for report in reports {
        let mut message = Vec::new();
        let encoding = client.encoding();
        if write::notification(&mut message, encoding, method::STREAM_ERROR, &report).is_ok() {
            let _ = client.send_untracked(&message).await;
        }
    }
}

/// Size of one read, in bytes.
const READ: usize = 64 * 1024;

/// Time limit for a stream header.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);

/// Time limit for the session to close after its last message.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(40);

/// Close code of sessions, and stop code of streams.
const TOO_LARGE: u32 = 2;
const TOO_SHORT: u32 = 4;
