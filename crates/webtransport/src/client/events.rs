//! The queue of events for callers that handle every frame themselves.

use bytes::Bytes;
use mcp_flow_client::transport::TransportError;
use mcp_flow_proto::webtransport::{DatagramChannel, StreamError};
use mcp_flow_proto::{Encoding, Incoming, InvalidMessage};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use web_transport_quinn::RecvStream;

use super::TransportClient;
use super::receive::{Sink, spawn_receive_tasks};
use super::stream::IncomingStream;

/// An event from the server.
#[derive(Debug)]
pub enum TransportEvent {
    /// A message.
    Message {
        /// Encoding of the message.
        encoding: Encoding,
        /// The encoded message.
        bytes: Vec<u8>,
    },
    /// A stream that a response names; it follows that response.
    Stream(IncomingStream),
    /// A stream that a response names, or may name, and that will not arrive, with the server's
    /// reason.
    StreamFailed(StreamError),
    /// A datagram about a request in flight, or about the whole session.
    Datagram {
        /// Kind of payload.
        channel: DatagramChannel,
        /// The request it belongs to; 0 is the whole session.
        request: u32,
        /// The payload.
        payload: Bytes,
    },
    /// A message whose signature is missing or invalid. No further events follow.
    Untrusted(TransportError),
}

/// The events of a session. Messages are in order.
#[derive(Debug)]
pub struct TransportEvents {
    events: mpsc::Receiver<TransportEvent>,
    /// Aborts the tasks on drop.
    _tasks: JoinSet<()>,
}

impl TransportEvents {
    pub(super) fn spawn(client: &TransportClient, control: RecvStream, frame: usize) -> Self {
        let (sender, events) = mpsc::channel(EVENT_CAPACITY);
        Self { events, _tasks: spawn_receive_tasks(client, control, frame, sender) }
    }

    /// Waits for the next event; `None` once the session is closed.
    pub async fn next(&mut self) -> Option<TransportEvent> {
        self.events.recv().await
    }
}

impl Sink for mpsc::Sender<TransportEvent> {
    async fn message(
        &self,
        encoding: Encoding,
        message: &[u8],
        _: Result<Incoming<'_>, InvalidMessage>,
        _: bool,
    ) -> bool {
        let bytes = message.to_vec();
        self.send(TransportEvent::Message { encoding, bytes }).await.is_ok()
    }

    async fn stream(&self, stream: IncomingStream) {
        let _ = self.send(TransportEvent::Stream(stream)).await;
    }

    async fn stream_failed(&self, error: StreamError) {
        let _ = self.send(TransportEvent::StreamFailed(error)).await;
    }

    fn datagram(&self, channel: DatagramChannel, request: u32, payload: Bytes) -> bool {
        self.try_send(TransportEvent::Datagram { channel, request, payload }).is_ok()
    }

    async fn closed(&self, reason: TransportError) {
        if matches!(reason, TransportError::InvalidSignature(_)) {
            let _ = self.send(TransportEvent::Untrusted(reason)).await;
        }
    }
}

/// Capacity of the event queue.
const EVENT_CAPACITY: usize = 256;
