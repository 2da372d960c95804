//! Messages between a WebSocket and its connection.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::time::Duration;

use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{Sink, SinkExt, StreamExt};
use mcp_flow_proto::RpcError;
use mcp_flow_server::Connection;
use mcp_flow_server::connection::PartialFrames;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::Instant;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};

use super::counted::Counted;
use crate::service::Service;

/// One client's WebSocket and what is known of it.
pub(super) struct Conversation<S> {
    sink: SplitSink<WebSocketStream<Counted<S>>, Message>,
    stream: SplitStream<WebSocketStream<Counted<S>>>,
    unfinished: PartialFrames,
    connection: Connection,
    limit: usize,
    outgoing: VecDeque<Message>,
    /// Whether something was given to the socket that may not be on its way yet.
    unflushed: bool,
    /// When the client was last heard, and how often it was asked since whether it is there.
    heard: Instant,
    pings: u32,
}

/// Why a conversation is over.
enum Over {
    /// The client has gone, or says goodbye.
    Gone,
    /// The server says so.
    Closed(CloseFrame),
}

impl<S: AsyncRead + AsyncWrite + Unpin> Conversation<S> {
    pub(super) async fn begin(stream: S, connection: Connection) -> Self {
        let limit = connection.limits().frame;
        let settings = WebSocketConfig::default()
            .max_message_size(Some(limit))
            .max_frame_size(Some(limit))
            .read_buffer_size(BUFFER)
            .write_buffer_size(BUFFER);
        let stream = Counted::new(stream, connection.partial_frames());
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
            heard: Instant::now(),
            pings: 0,
        }
    }

    /// Moves messages both ways until one end has enough.
    pub(super) async fn hold(mut self, service: &Service) {
        let mut told = false;
        let principal = self.connection.principal().clone();
        let mut lapsed = pin!(principal.invalidated());
        let over = loop {
            self.connection.advance();
            if self.outgoing.is_empty() {
                self.take_output();
            }
            let has_outgoing = !self.outgoing.is_empty();
            if self.connection.ended().is_some() && !has_outgoing && !self.unflushed {
                break Over::closed(CloseCode::Away, "the server ends the connection");
            }
            let accepts_input = self.connection.accepts_input();
            if !accepts_input {
                // A client that is not listened to cannot be heard.
                self.note_sign_of_life();
            }
            let next_ping = self.heard + service.options.keep_alive * (self.pings + 1);
            tokio::select! {
                sent = send(&mut self.sink, &mut self.outgoing, &mut self.unflushed),
                    if has_outgoing || self.unflushed =>
                {
                    if sent.is_err() {
                        break Over::Gone;
                    }
                }
                message = self.stream.next(), if accepts_input => {
                    if let Err(over) = self.receive(message) {
                        break over;
                    }
                }
                () = self.connection.changed() => {}
                () = &mut lapsed => {
                    break Over::closed(CloseCode::Policy, "the token has ended");
                }
                () = service.ending.cancelled(), if !told => {
                    told = true;
                    self.connection.end_of_input();
                }
                () = tokio::time::sleep_until(next_ping), if accepts_input => {
                    self.pings += 1;
                    if self.pings >= MOST_PINGS {
                        break Over::closed(CloseCode::Away, "no sign of life");
                    }
                    self.outgoing.push_back(Message::Ping(Vec::new().into()));
                }
            }
        };
        if let Over::Closed(frame) = over {
            let _ = tokio::time::timeout(GOODBYE, self.close(frame)).await;
        }
    }

    /// Makes messages of what is ready to be sent.
    fn take_output(&mut self) {
        let Some(segment) = self.connection.take_output() else { return };
        let texts = segment.messages().map(|text| String::from_utf8_lossy(text).into_owned());
        self.outgoing.extend(texts.map(Message::text));
        self.connection.recycle(segment);
    }

    fn note_sign_of_life(&mut self) {
        self.heard = Instant::now();
        self.pings = 0;
    }

    fn receive(&mut self, message: Option<Result<Message, Error>>) -> Result<(), Over> {
        self.note_sign_of_life();
        // What has come of the next one is little, and counted with it.
        self.unfinished.may_hold(0);
        match message {
            Some(Ok(Message::Text(text))) => self.connection.receive(text.as_bytes()),
            Some(Ok(Message::Binary(_))) => {
                return Err(Over::closed(CloseCode::Unsupported, "send JSON as text"));
            }
            Some(Ok(Message::Close(_)) | Err(_)) | None => return Err(self.lost(message)),
            // The socket answers a ping by itself, with the next flush.
            Some(Ok(Message::Ping(_))) => self.unflushed = true,
            Some(Ok(_)) => {}
        }
        Ok(())
    }

    /// What the end of incoming messages means.
    fn lost(&mut self, message: Option<Result<Message, Error>>) -> Over {
        match message {
            Some(Err(Error::Capacity(_))) => {
                self.connection.reject(RpcError::too_large(self.limit));
                self.take_output();
                let reason = format!("a message may have {} bytes", self.limit);
                Over::closed(CloseCode::Size, &reason)
            }
            Some(Err(Error::Io(error))) if error.kind() == io::ErrorKind::OutOfMemory => {
                Over::closed(CloseCode::Again, "the server holds as much as it may")
            }
            Some(Err(Error::Utf8(_))) => Over::closed(CloseCode::Invalid, "text must be UTF-8"),
            Some(Err(Error::Protocol(_))) => {
                Over::closed(CloseCode::Protocol, "this is not how WebSocket is spoken")
            }
            _ => Over::Gone,
        }
    }

    /// Sends the last messages, says goodbye, and reads on until the client says it too or has
    /// gone: closing before would take the goodbye with it.
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
        // What comes is no message any more, but it must be taken.
        let Ok(mut socket) = self.sink.reunite(self.stream) else { return };
        let _ = socket.get_mut().shutdown().await;
        let mut unwanted = [0; 4096];
        while socket.get_mut().read(&mut unwanted).await.is_ok_and(|read| read > 0) {}
    }
}

/// Gives the next message to the socket, or sees those on their way that were given to it before.
/// May be dropped at any time.
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

impl Over {
    fn closed(code: CloseCode, reason: &str) -> Self {
        Self::Closed(CloseFrame { code, reason: reason.into() })
    }
}

/// What a socket reads and writes at once.
const BUFFER: usize = 8 * 1024;

/// A client that has not been heard for so many times the keep-alive interval is gone.
const MOST_PINGS: u32 = 3;

/// How long a client may take to answer a goodbye.
const GOODBYE: Duration = Duration::from_secs(5);
