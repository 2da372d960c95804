//! The control stream: moves frames between it and the connection (WT-002 to WT-008).

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use mcp_flow_proto::error::{ENCODING_MISMATCH, PARSE_ERROR};
use mcp_flow_proto::webtransport::{FrameDecoder, TooLong, write_frame};
use mcp_flow_proto::{Encoding, Incoming, InvalidMessage, Message, RequestId, RpcError, method};
use mcp_flow_server::Connection;
use mcp_flow_server::connection::FrameArrival;
use serde_json::json;
use tokio::time::{Instant, sleep_until, timeout};
use web_transport_quinn::quinn::{RecvStream, SendStream};

use crate::listen::Service;
use crate::streams::Streams;

/// The server side of a control stream.
pub(crate) struct Control {
    send: SendStream,
    recv: RecvStream,
    decoder: FrameDecoder,
    connection: Arc<Connection>,
    streams: Arc<Streams>,
    outgoing: Vec<u8>,
    /// Number of bytes of `outgoing` that were sent.
    sent: usize,
    /// Time of the last write, or at which nothing was left to write.
    last_progress: Instant,
    /// Input is still expected.
    is_open: bool,
    /// Deadline for the first request. A client that has sent none may not hold a connection.
    first_request_deadline: Option<Instant>,
}

/// The reason a session ends.
pub(crate) enum SessionEnd {
    /// The client is gone.
    Lost,
    /// The server closes the session.
    Closed { code: u32, reason: String },
}

impl SessionEnd {
    pub(crate) fn rejected(reason: &str) -> Self {
        Self::Closed { code: REJECTED, reason: reason.to_owned() }
    }
}

impl Control {
    pub(crate) fn new(
        send: SendStream,
        recv: RecvStream,
        connection: Arc<Connection>,
        streams: Arc<Streams>,
    ) -> Self {
        // Messages have priority over execution streams.
        let _ = send.set_priority(1);
        let decoder = FrameDecoder::new(connection.limits().frame);
        let last_progress = Instant::now();
        let (outgoing, sent, is_open, first_request_deadline) = (Vec::new(), 0, true, None);
        Self {
            send,
            recv,
            decoder,
            connection,
            streams,
            outgoing,
            sent,
            last_progress,
            is_open,
            first_request_deadline,
        }
    }

    /// Runs until the session ends.
    pub(crate) async fn run(mut self, service: &Service) -> SessionEnd {
        let (connection, streams) = (self.connection.clone(), self.streams.clone());
        self.first_request_deadline = Some(Instant::now() + service.options.handshake_timeout);
        let partial_frames = connection.partial_frames();
        let mut shutdown_sent = false;
        // Deadline for the remaining streams, once nothing else is left.
        let mut deadline: Option<Instant> = None;
        let mut streams_given_up = false;
        // Time of the last check for stalled streams.
        let mut last_stall_check = Instant::now();
        loop {
            connection.advance();
            let Ok(blocked) = self.send_now() else { return SessionEnd::Lost };
            let now = Instant::now();
            let ended = connection.ended().is_some();
            if ended {
                if !blocked && streams.is_empty() {
                    return self.finish(streams_given_up).await;
                }
                let limit = service.server.limits().drain_time;
                let is_late = *deadline.get_or_insert_with(|| now + limit) <= now;
                if is_late && (blocked || streams_given_up) {
                    return SessionEnd::rejected("the last messages were not read");
                }
                if is_late {
                    // They end by themselves and report the reason to the client.
                    streams.give_up_all("the drain limit was reached");
                    streams_given_up = true;
                    deadline = Some(now + DELIVERY_TIMEOUT);
                }
            }
            if self.last_progress + service.options.write_timeout <= now {
                return SessionEnd::rejected("messages were not read");
            }
            let drained = deadline.unwrap_or(now);
            let first_request_deadline = self.first_request_deadline;
            let stalled = self.last_progress.max(last_stall_check) + service.options.stall_timeout;
            tokio::select! {
                written = self.send.write(&self.outgoing[self.sent..]), if blocked => match written {
                    Ok(written) => self.record_sent(written),
                    Err(_) => return SessionEnd::Lost,
                },
                chunk = self.recv.read_chunk(READ, true),
                    if self.is_open && connection.accepts_input() =>
                {
                    match chunk {
                        Ok(Some(chunk)) => {
                            if let Err(error) = self.receive(&chunk.bytes) {
                                return self.reject_oversized(error).await;
                            }
                            if !partial_frames.may_hold(self.decoder.pending()) {
                                return SessionEnd::rejected("the server has reached its memory limit");
                            }
                        }
                        Ok(None) => {
                            self.is_open = false;
                            connection.end_of_input();
                        }
                        Err(_) => return SessionEnd::Lost,
                    }
                }
                () = connection.changed() => {}
                () = sleep_until(stalled), if blocked => {
                    last_stall_check = Instant::now();
                    streams.give_up_stalled(service.options.stall_timeout);
                }
                () = streams.drained(), if ended => {}
                () = sleep_until(drained), if ended => {}
                () = sleep_until(first_request_deadline.unwrap_or(now)), if first_request_deadline.is_some() => {
                    return SessionEnd::rejected("no request arrived in time");
                }
                () = service.tasks.draining().cancelled(), if !shutdown_sent => {
                    shutdown_sent = true;
                    let _ = connection.notify(method::SHUTDOWN_NOTIFICATION, &NO_PARAMS);
                    connection.end_of_input();
                }
            }
        }
    }

    /// Writes as much as the client accepts without waiting. Returns whether there is more.
    fn send_now(&mut self) -> Result<bool, ()> {
        loop {
            if self.sent == self.outgoing.len() {
                self.outgoing.clear();
                self.sent = 0;
                if self.outgoing.capacity() > KEEP_CAPACITY {
                    self.outgoing = Vec::new();
                }
                if !self.take_output() {
                    self.last_progress = Instant::now();
                    self.streams.pause.resume();
                    return Ok(false);
                }
            }
            match self.send.write(&self.outgoing[self.sent..]).now_or_never() {
                Some(Ok(written)) => self.record_sent(written),
                Some(Err(_)) => return Err(()),
                None => {
                    self.streams.pause.pause();
                    return Ok(true);
                }
            }
        }
    }

    fn record_sent(&mut self, bytes: usize) {
        self.sent += bytes;
        self.last_progress = Instant::now();
    }

    /// Frames the queued messages. Returns whether there were any.
    fn take_output(&mut self) -> bool {
        let Some(segment) = self.connection.take_output() else { return false };
        for message in segment.messages() {
            if let Err(error) = write_frame(&mut self.outgoing, message) {
                tracing::error!(%error, "cannot frame a message");
            }
        }
        self.connection.recycle(segment);
        true
    }

    fn receive(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        self.decoder.buffer().extend_from_slice(bytes);
        while let Some(frame) = self.decoder.next_frame()? {
            if receive_frame(&self.connection, frame) {
                self.first_request_deadline = None;
            }
        }
        Ok(())
    }

    /// Responds to an oversized frame, which cannot be skipped, and ends the session (WT-014).
    async fn reject_oversized(mut self, error: TooLong) -> SessionEnd {
        self.connection.reject(RpcError::too_large(error.limit));
        while self.take_output() {}
        let _ = timeout(DELIVERY_TIMEOUT, self.send.write_all(&self.outgoing[self.sent..])).await;
        let _ = self.send.finish();
        let _ = timeout(DELIVERY_TIMEOUT, self.send.stopped()).await;
        let reason = format!("a message may have at most {} bytes", error.limit);
        SessionEnd::Closed { code: TOO_LARGE, reason }
    }

    /// Waits until the last messages are delivered.
    async fn finish(mut self, streams_given_up: bool) -> SessionEnd {
        let _ = self.send.finish();
        let _ = timeout(DELIVERY_TIMEOUT, self.send.stopped()).await;
        let reason = match streams_given_up {
            true => "the session has ended; streams were cut off at the drain limit",
            false => "the session has ended",
        };
        SessionEnd::Closed { code: 0, reason: reason.to_owned() }
    }
}

/// Decodes a frame and passes it to the connection, or rejects it if it is in the wrong encoding
/// (WT-033, WT-037). Returns whether it is a request other than a ping.
fn receive_frame(connection: &Connection, frame: &[u8]) -> bool {
    let encoding = connection.encoding();
    let explain = |message, invalid| explain_encoding(message, encoding, invalid);
    let Some(frame) = connection.decode_frame(frame, explain) else { return false };
    let is_request = matches!(frame.incoming(), Incoming::Message(Message::Request(request))
        if request.method != method::PING);
    connection.receive_decoded(frame, FrameArrival::now()).is_ok() && is_request
}

/// Replaces the error of an invalid message by one about its encoding, if it is a message in the
/// other one.
fn explain_encoding(message: &[u8], expected: Encoding, invalid: InvalidMessage) -> InvalidMessage {
    let is_other_encoding =
        invalid.error.name() == PARSE_ERROR.name && begins_message(message, expected.other());
    let id = match Incoming::decode(message, expected.other()) {
        Ok(incoming) if is_other_encoding => request_id(&incoming),
        Err(other) if is_other_encoding && other.error.name() != PARSE_ERROR.name => other.id,
        _ => return invalid,
    };
    InvalidMessage { id, error: mismatch(expected) }
}

fn request_id(incoming: &Incoming<'_>) -> Option<RequestId> {
    match incoming {
        Incoming::Message(Message::Request(request)) => Some(request.id.clone()),
        _ => None,
    }
}

/// Returns whether the frame begins like a message in this encoding. Short texts in one encoding
/// may be well-formed scalars in the other.
fn begins_message(frame: &[u8], encoding: Encoding) -> bool {
    match encoding {
        Encoding::Json => {
            frame.trim_ascii_start().first().is_some_and(|first| b"{[".contains(first))
        }
        Encoding::Cbor => frame.first().is_some_and(|first| matches!(first >> 5, 4 | 5)),
    }
}

fn mismatch(encoding: Encoding) -> RpcError {
    let details = match encoding {
        Encoding::Json => "Send JSON, unless initialize has negotiated another encoding.",
        Encoding::Cbor => "Send CBOR, as negotiated in initialize.",
    };
    RpcError::new(ENCODING_MISMATCH).details(details).with("encoding", json!(encoding.name()))
}

/// Size of one read, in bytes.
const READ: usize = 64 * 1024;

/// Capacity above which the buffer is freed between messages.
const KEEP_CAPACITY: usize = 16 * 1024;

/// Time limit for the delivery of the last messages.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(3);

/// `$/shutdown` has no params (WT-062).
const NO_PARAMS: Option<()> = None;

/// Close codes of a session.
const REJECTED: u32 = 1;
const TOO_LARGE: u32 = 2;
