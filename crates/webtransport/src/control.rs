//! Frames between the control stream and its connection (WT-002 to WT-008).

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use mcp_flow_proto::error::{ENCODING_MISMATCH, PARSE_ERROR};
use mcp_flow_proto::webtransport::{FrameDecoder, TooLong, write_frame};
use mcp_flow_proto::{Encoding, Incoming, Message, RequestId, RpcError, method};
use mcp_flow_server::Connection;
use serde_json::json;
use tokio::time::{Instant, sleep_until, timeout};
use web_transport_quinn::quinn::{RecvStream, SendStream};

use crate::listen::Service;
use crate::streams::Streams;

/// A client's control stream and what is known of it.
pub(crate) struct Control {
    send: SendStream,
    recv: RecvStream,
    decoder: FrameDecoder,
    connection: Arc<Connection>,
    streams: Arc<Streams>,
    outgoing: Vec<u8>,
    /// How much of that is sent.
    sent: usize,
    /// When something was last sent, or there was nothing to send.
    moved: Instant,
    /// Whether more may come in.
    is_open: bool,
    /// When the first request has to be complete, until it is: somebody who has not shown what they
    /// want may not hold a connection.
    introduction: Option<Instant>,
}

/// Why a session is over.
pub(crate) enum Over {
    /// The client has gone.
    Lost,
    /// The server closes it.
    Closed { code: u32, reason: String },
}

impl Over {
    pub(crate) fn refused(reason: &str) -> Self {
        Self::Closed { code: REFUSED, reason: reason.to_owned() }
    }
}

impl Control {
    pub(crate) fn new(
        send: SendStream,
        recv: RecvStream,
        connection: Arc<Connection>,
        streams: Arc<Streams>,
    ) -> Self {
        // Among streams that could be sent from, messages go first.
        let _ = send.set_priority(1);
        let decoder = FrameDecoder::new(connection.limits().frame);
        let moved = Instant::now();
        let (outgoing, sent, is_open, introduction) = (Vec::new(), 0, true, None);
        Self {
            send,
            recv,
            decoder,
            connection,
            streams,
            outgoing,
            sent,
            moved,
            is_open,
            introduction,
        }
    }

    /// Moves messages both ways until one end has enough.
    pub(crate) async fn hold(mut self, service: &Service) -> Over {
        let (connection, streams) = (self.connection.clone(), self.streams.clone());
        self.introduction = Some(Instant::now() + service.options.handshake_time);
        let unfinished = connection.partial_frames();
        let mut told = false;
        // When streams are given up, once nothing else is left.
        let mut deadline: Option<Instant> = None;
        let mut given_up = false;
        // When streams were last looked at that may hold up messages.
        let mut looked = Instant::now();
        loop {
            connection.advance();
            let Ok(blocked) = self.send_now() else { return Over::Lost };
            let now = Instant::now();
            let ended = connection.ended().is_some();
            if ended {
                if !blocked && streams.is_empty() {
                    return self.finish(given_up).await;
                }
                let limit = service.server.limits().drain_time;
                let late = *deadline.get_or_insert_with(|| now + limit) <= now;
                if late && (blocked || given_up) {
                    return Over::refused("the last messages were not read");
                }
                if late {
                    // They end by themselves, and the client is to hear of it.
                    streams.give_up_all("the drain limit was reached");
                    given_up = true;
                    deadline = Some(now + LAST_MESSAGES);
                }
            }
            if self.moved + service.options.unread_time <= now {
                return Over::refused("messages were not read");
            }
            let drained = deadline.unwrap_or(now);
            let introduction = self.introduction;
            let stalled = self.moved.max(looked) + service.options.stall_time;
            tokio::select! {
                written = self.send.write(&self.outgoing[self.sent..]), if blocked => match written {
                    Ok(written) => self.note_sent(written),
                    Err(_) => return Over::Lost,
                },
                chunk = self.recv.read_chunk(READ, true),
                    if self.is_open && connection.accepts_input() =>
                {
                    match chunk {
                        Ok(Some(chunk)) => {
                            if let Err(error) = self.receive(&chunk.bytes) {
                                return self.refuse(error).await;
                            }
                            if !unfinished.may_hold(self.decoder.pending()) {
                                return Over::refused("the server holds as much as it may");
                            }
                        }
                        Ok(None) => {
                            self.is_open = false;
                            connection.end_of_input();
                        }
                        Err(_) => return Over::Lost,
                    }
                }
                () = connection.changed() => {}
                () = sleep_until(stalled), if blocked => {
                    looked = Instant::now();
                    streams.give_up_stalled(service.options.stall_time);
                }
                () = streams.drained(), if ended => {}
                () = sleep_until(drained), if ended => {}
                () = sleep_until(introduction.unwrap_or(now)), if introduction.is_some() => {
                    return Over::refused("no request came in time");
                }
                () = service.ending.cancelled(), if !told => {
                    told = true;
                    let _ = connection.notify(method::SHUTDOWN_NOTIFICATION, &NO_PARAMS);
                    connection.end_of_input();
                }
            }
        }
    }

    /// Sends as much as the client takes at once. Returns whether there is more.
    fn send_now(&mut self) -> Result<bool, ()> {
        loop {
            if self.sent == self.outgoing.len() {
                self.outgoing.clear();
                self.sent = 0;
                if self.outgoing.capacity() > KEEP_CAPACITY {
                    self.outgoing = Vec::new();
                }
                if !self.take_output() {
                    self.moved = Instant::now();
                    self.streams.gate.open();
                    return Ok(false);
                }
            }
            match self.send.write(&self.outgoing[self.sent..]).now_or_never() {
                Some(Ok(written)) => self.note_sent(written),
                Some(Err(_)) => return Err(()),
                None => {
                    self.streams.gate.close();
                    return Ok(true);
                }
            }
        }
    }

    fn note_sent(&mut self, bytes: usize) {
        self.sent += bytes;
        self.moved = Instant::now();
    }

    /// Makes frames of what is ready to be sent. Returns whether there was any.
    fn take_output(&mut self) -> bool {
        let Some(segment) = self.connection.take_output() else { return false };
        for message in segment.messages() {
            if let Err(error) = write_frame(&mut self.outgoing, message) {
                tracing::error!(%error, "a message cannot be sent");
            }
        }
        self.connection.recycle(segment);
        true
    }

    fn receive(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        self.decoder.buffer().extend_from_slice(bytes);
        while let Some(frame) = self.decoder.next_frame()? {
            if take_up(&self.connection, frame) {
                self.introduction = None;
            }
        }
        Ok(())
    }

    /// Answers a frame that cannot be passed over, and ends the session (WT-014).
    async fn refuse(mut self, error: TooLong) -> Over {
        self.connection.reject(RpcError::too_large(error.limit));
        while self.take_output() {}
        let _ = timeout(LAST_MESSAGES, self.send.write_all(&self.outgoing[self.sent..])).await;
        let _ = self.send.finish();
        let _ = timeout(LAST_MESSAGES, self.send.stopped()).await;
        let reason = format!("a message may have {} bytes", error.limit);
        Over::Closed { code: TOO_LARGE, reason }
    }

    /// Sees the last messages on their way.
    async fn finish(mut self, given_up: bool) -> Over {
        let _ = self.send.finish();
        let _ = timeout(LAST_MESSAGES, self.send.stopped()).await;
        let reason = match given_up {
            true => "the session has ended; streams were cut off at the drain limit",
            false => "the session has ended",
        };
        Over::Closed { code: 0, reason: reason.to_owned() }
    }
}

/// Hands a frame to its connection, unless it is in the wrong encoding (WT-033, WT-037). Returns
/// whether its sender asks for something, and not only whether anybody is there.
fn take_up(connection: &Connection, frame: &[u8]) -> bool {
    let Some(opened) = connection.open_frame(frame) else { return false };
    let (frame, encoding) = (opened.message(), connection.encoding());
    let refusal = match Incoming::decode(frame, encoding) {
        Ok(incoming) => {
            let asks = matches!(&incoming, Incoming::Message(Message::Request(request))
                if request.method != method::PING);
            connection.receive_decoded(incoming, &opened);
            return asks;
        }
        Err(refusal) => refusal,
    };
    let is_other =
        refusal.error.name() == PARSE_ERROR.name && begins_message(frame, encoding.other());
    let (id, error) = match Incoming::decode(frame, encoding.other()) {
        Ok(incoming) if is_other => (id_of(&incoming), mismatch(encoding)),
        Err(other) if is_other && other.error.name() != PARSE_ERROR.name => {
            (other.id, mismatch(encoding))
        }
        _ => (refusal.id, refusal.error),
    };
    match id {
        Some(id) => connection.reject_request(&id, error),
        None => connection.reject(error),
    }
    false
}

fn id_of(incoming: &Incoming<'_>) -> Option<RequestId> {
    match incoming {
        Incoming::Message(Message::Request(request)) => Some(request.id.clone()),
        _ => None,
    }
}

/// Whether it looks like a message of this encoding. Short texts of the one would be well-formed
/// items of the other, and stand for nothing.
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
        Encoding::Json => "Send JSON, unless initialize has agreed on something else.",
        Encoding::Cbor => "Send CBOR, as agreed on in initialize.",
    };
    RpcError::new(ENCODING_MISMATCH).details(details).with("encoding", json!(encoding.name()))
}

/// How much is read at once.
const READ: usize = 64 * 1024;

/// Largest buffer kept between messages.
const KEEP_CAPACITY: usize = 16 * 1024;

/// How long the last messages may be on their way.
const LAST_MESSAGES: Duration = Duration::from_secs(3);

/// `$/shutdown` has no params (WT-062).
const NO_PARAMS: Option<()> = None;

/// Codes a session is closed with.
const REFUSED: u32 = 1;
const TOO_LARGE: u32 = 2;
