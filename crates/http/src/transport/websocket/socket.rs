//! Carries messages between a WebSocket and its server connection.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::time::Duration;

use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{FutureExt, Sink, SinkExt, StreamExt};
use mcp_flow_proto::RpcError;
use mcp_flow_server::Connection;
use mcp_flow_server::connection::PartialFrames;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::Instant;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};

use super::counted_reader::CountedReader;
use crate::service::Service;

/// An open WebSocket.
pub(super) struct Socket<S> {
    sink: SplitSink<WebSocketStream<CountedReader<S>>, Message>,
    stream: SplitStream<WebSocketStream<CountedReader<S>>>,
    unfinished: PartialFrames,
    connection: Connection,
    limit: usize,
    outgoing: VecDeque<Message>,
    /// Set while messages may be buffered in the sink.
    unflushed: bool,
    last_received: Instant,
    /// Pings sent since then.
    pings: u32,
}

/// Reason why a WebSocket ends.
enum End {
    /// The client disconnected or sent a close frame.
    Disconnected,
    /// The server closes it with this frame.
    Close(CloseFrame),
}

impl<S: AsyncRead + AsyncWrite + Unpin> Socket<S> {
    pub(super) async fn open(stream: S, connection: Connection) -> Self {
        let limit = connection.limits().frame;
        let settings = WebSocketConfig::default()
            .max_message_size(Some(limit))
            .max_frame_size(Some(limit))
            .read_buffer_size(BUFFER)
            .write_buffer_size(BUFFER);
        let stream = CountedReader::new(stream, connection.partial_frames());
        let socket = WebSocketStream::from_raw_socket(stream, Role::Server, Some(settings)).await;
        let (sink, stream) = socket.split();
        Self {
            sink,
            stream,
            unfinished: connection.partial_frames(),
            connection,
            limit,
            outgoing: VecDeque::new(),
            unflushed: false,
            last_received: Instant::now(),
            pings: 0,
        }
    }

    /// Carries messages both ways until one side closes.
    pub(super) async fn run(mut self, service: &Service) {
        let mut is_ending = false;
        let principal = self.connection.principal().clone();
        let mut expired = pin!(principal.invalidated());
        let end = loop {
            self.connection.advance();
            if self.outgoing.is_empty() {
                self.take_output();
            }
            let has_outgoing = !self.outgoing.is_empty();
            if self.connection.ended().is_some() && !has_outgoing && !self.unflushed {
                break End::close(CloseCode::Away, "the server closes the connection");
            }
            let accepts_input = self.connection.accepts_input();
            if !accepts_input {
                // While reading is paused, pongs cannot arrive.
                self.reset_pings();
            }
            let next_ping = self.last_received + service.options.keep_alive * (self.pings + 1);
            tokio::select! {
                sent = send(&mut self.sink, &mut self.outgoing, &mut self.unflushed),
                    if has_outgoing || self.unflushed =>
                {
                    if sent.is_err() {
                        break End::Disconnected;
                    }
                }
                message = self.stream.next(), if accepts_input => {
                    if let Err(end) = self.receive_ready(message) {
                        break end;
                    }
                }
                () = self.connection.changed() => {}
                () = &mut expired => {
                    break End::close(CloseCode::Policy, "the token expired or was revoked");
                }
                () = service.tasks.draining().cancelled(), if !is_ending => {
                    is_ending = true;
                    self.connection.end_of_input();
                }
                () = tokio::time::sleep_until(next_ping), if accepts_input => {
                    self.pings += 1;
                    if self.pings >= MAX_PINGS {
                        break End::close(CloseCode::Away, "pings were not answered");
                    }
                    self.outgoing.push_back(Message::Ping(Vec::new().into()));
                }
            }
        };
        if let End::Close(frame) = end {
            let _ = tokio::time::timeout(CLOSE_TIMEOUT, self.close(frame)).await;
        }
    }

    /// Queues the output of the connection as messages.
    fn take_output(&mut self) {
        let Some(segment) = self.connection.take_output() else { return };
        let texts = segment.messages().map(|text| String::from_utf8_lossy(text).into_owned());
        self.outgoing.extend(texts.map(Message::text));
        self.connection.recycle(segment);
    }

    fn reset_pings(&mut self) {
        self.last_received = Instant::now();
        self.pings = 0;
    }

    /// Receives a message and those that arrived with it, before a reply to the first is taken: a
    /// client that pipelines has not read it (INT-041).
    fn receive_ready(&mut self, first: Option<Result<Message, Error>>) -> Result<(), End> {
        let mut ready = Some(first);
        while let Some(message) = ready {
            self.receive(message)?;
            let accepts_input = self.connection.accepts_input();
            ready = accepts_input.then(|| self.stream.next().now_or_never()).flatten();
        }
        Ok(())
    }

    fn receive(&mut self, message: Option<Result<Message, Error>>) -> Result<(), End> {
        self.reset_pings();
        // The message is complete. Bytes of the next one are few and counted with it.
        self.unfinished.may_hold(0);
        match message {
            Some(Ok(Message::Text(text))) => self.connection.receive(text.as_bytes()),
            Some(Ok(Message::Binary(_))) => {
                return Err(End::close(CloseCode::Unsupported, "send JSON as text"));
            }
            Some(Ok(Message::Close(_)) | Err(_)) | None => return Err(self.end_of(message)),
            // tungstenite queues the pong, which leaves with the next flush.
            Some(Ok(Message::Ping(_))) => self.unflushed = true,
            Some(Ok(_)) => {}
        }
        Ok(())
    }

    /// Returns how to close after the last incoming message or error.
    fn end_of(&mut self, message: Option<Result<Message, Error>>) -> End {
        match message {
            Some(Err(Error::Capacity(_))) => {
                self.connection.reject(RpcError::too_large(self.limit));
                self.take_output();
                let reason = format!("a message may have at most {} bytes", self.limit);
                End::close(CloseCode::Size, &reason)
            }
            Some(Err(Error::Io(error))) if error.kind() == io::ErrorKind::OutOfMemory => {
                End::close(CloseCode::Again, "the server is at its memory limit")
            }
            Some(Err(Error::Utf8(_))) => End::close(CloseCode::Invalid, "text must be UTF-8"),
            Some(Err(Error::Protocol(_))) => {
                End::close(CloseCode::Protocol, "the WebSocket protocol was violated")
            }
            _ => End::Disconnected,
        }
    }

    /// Sends the remaining messages and a close frame, and reads until the client closes too: closing
    /// the TCP connection before could discard the close frame.
    async fn close(mut self, frame: CloseFrame) {
        for message in self.outgoing.drain(..) {
            if self.sink.feed(message).await.is_err() {
                return;
            }
        }
        if self.sink.send(Message::Close(Some(frame))).await.is_err() {
            return;
        }
        while let Some(message) = self.stream.next().await {
            match message {
                Ok(Message::Close(_)) => return,
                Ok(_) => {}
                Err(_) => break,
            }
        }
        // The stream is broken; its bytes are still drained.
        let Ok(mut socket) = self.sink.reunite(self.stream) else { return };
        let _ = socket.get_mut().shutdown().await;
        let mut buffer = [0; 4096];
        while socket.get_mut().read(&mut buffer).await.is_ok_and(|read| read > 0) {}
    }
}

/// Passes the next message to the sink, or flushes the sink if none is queued. Cancel safe.
async fn send(
    sink: &mut (impl Sink<Message, Error = Error> + Unpin),
    outgoing: &mut VecDeque<Message>,
    unflushed: &mut bool,
) -> Result<(), Error> {
    if outgoing.is_empty() {
        sink.flush().await?;
        *unflushed = false;
        return Ok(());
    }
    poll_fn(|context| sink.poll_ready_unpin(context)).await?;
    *unflushed = true;
    match outgoing.pop_front() {
        Some(message) => sink.start_send_unpin(message),
        None => Ok(()),
    }
}

impl End {
    fn close(code: CloseCode, reason: &str) -> Self {
        Self::Close(CloseFrame { code, reason: reason.into() })
    }
}

/// Size of the read and write buffers.
const BUFFER: usize = 8 * 1024;

/// Unanswered pings after which the client counts as disconnected.
const MAX_PINGS: u32 = 3;

/// Time for the closing handshake.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
