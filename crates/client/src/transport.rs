//! Interface between the client and its transports.
//!
//! A [`Connector`] opens connections to one server. Each is a [`Transport`], which sends encoded
//! messages and hands received ones to an [`Inbox`]. Transports do not interpret messages; the
//! client knows nothing of pipes, sockets and streams.

mod lookup;
mod spool;
mod task;

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use mcp_flow_proto::{Encoding, Incoming, InvalidMessage, Revision};
use serde_json::{Map, Value};
use tokio::io::AsyncBufRead;
use tokio_util::io::StreamReader;

pub use lookup::lookup;
pub use spool::{Spool, SpoolError, SpoolWriter, Spooled};
pub use task::{Outbox, task_transport};

use crate::connection::Connection;
use crate::connection::signing::SignedChannel;
use crate::options::ClientOptions;

/// Opens connections to one server.
///
/// ```
/// use std::sync::Arc;
/// use futures_util::future::BoxFuture;
/// use mcp_flow_client::transport::{Connector, Inbox, Outgoing, Transport, TransportError};
///
/// /// A server that receives everything and never responds.
/// struct Void;
///
/// impl Connector for Void {
///     fn target(&self) -> &str { "the void" }
///
///     fn connect(&self, _: Inbox) -> BoxFuture<'_, Result<Arc<dyn Transport>, TransportError>> {
///         Box::pin(async { Ok(Arc::new(Void) as Arc<dyn Transport>) })
///     }
/// }
///
/// impl Transport for Void {
///     fn name(&self) -> &'static str { "void" }
///     fn send(&self, _: Outgoing) {}
///     fn close(&self) -> BoxFuture<'_, ()> { Box::pin(async {}) }
/// }
/// ```
pub trait Connector: Send + Sync + 'static {
    /// The server for display: a URL, a command.
    fn target(&self) -> &str;

    /// Opens a connection that delivers received messages to `inbox`. The client applies a timeout.
    fn connect(&self, inbox: Inbox) -> BoxFuture<'_, Result<Arc<dyn Transport>, TransportError>>;

    /// Origin under which the process caches the server's era. `None` if another connection may
    /// reach another server, such as a new child process.
    fn origin(&self) -> Option<String> {
        None
    }

    /// Connector to try after [`TransportError::Unsuitable`].
    fn fallback(&self) -> Option<Arc<dyn Connector>> {
        None
    }

    /// Returns whether a lost connection can be reopened.
    fn reconnects(&self) -> bool {
        true
    }
}

/// Transport of one connection. Dropping or closing it releases everything it holds.
pub trait Transport: Send + Sync + 'static {
    /// A short name, such as `stdio`.
    fn name(&self) -> &'static str;

    /// Encoding of messages from now on.
    fn encoding(&self) -> Encoding {
        Encoding::Json
    }

    /// Queues a message, in order, without waiting. Failures go to the inbox: [`Inbox::fail`] for
    /// one request, [`Inbox::closed`] for the connection.
    fn send(&self, message: Outgoing);

    /// Cancels a request. Returns whether that informs the server, as where each request has its
    /// own stream; otherwise the client sends `notifications/cancelled`.
    fn cancel(&self, _request: i64) -> bool {
        false
    }

    /// Receives the negotiated revision, before any other request is sent.
    fn negotiated(&self, _revision: Revision) {}

    /// Members that this transport adds to the params of `initialize`.
    fn initialize_params(&self) -> Map<String, Value> {
        Map::new()
    }

    /// Returns whether the transport needs `initialize` even with a stateless server, to negotiate
    /// its own options.
    fn needs_initialize(&self) -> bool {
        false
    }

    /// Returns whether arguments must be repeated as headers (`x-mcp-header`).
    fn needs_headers(&self) -> bool {
        false
    }

    /// Opens content that a result refers to: a `resource_link` to the server's own origin, or a
    /// `ref/stream`. `None` if this transport cannot.
    fn open(
        &self,
        _content: &Value,
    ) -> Option<BoxFuture<'_, Result<ContentStream, TransportError>>> {
        None
    }

    /// Returns whether messages that belong to a request arrive on a stream of their own, so that it is
    /// known which request a question of the server belongs to. Defaults to no.
    fn attributes_messages(&self) -> bool {
        false
    }

    /// The transport itself, for downcasting.
    fn as_any(&self) -> Option<&(dyn Any + Send + Sync)> {
        None
    }

    /// Returns whether it signs and verifies messages itself, with [`Inbox::take_signing`]. A
    /// transport that inspects or changes messages has to.
    fn signs(&self) -> bool {
        false
    }

    /// Closes the connection gracefully, in bounded time.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// An encoded message to the server.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// The message, without any framing.
    pub frame: Vec<u8>,
    /// Kind of message, for transports that treat them differently.
    pub kind: OutgoingKind,
}

/// Kind of an outgoing message.
#[derive(Clone, Debug)]
pub enum OutgoingKind {
    /// A request; its response has the same id.
    Request {
        /// Id.
        id: i64,
        /// Method.
        method: Cow<'static, str>,
        /// `params.name` or `params.uri`, if there is one.
        name: Option<String>,
        /// Arguments to be repeated as headers, by the header names of the tool.
        headers: Vec<(String, String)>,
    },
    /// A notification.
    Notification {
        /// Method.
        method: Cow<'static, str>,
    },
    /// The response to a request of the server.
    Response,
}

/// Large content, streamed.
pub struct ContentStream {
    /// Size in bytes, if known.
    pub size: Option<u64>,
    /// MIME type, if known.
    pub mime_type: Option<String>,
    /// The bytes, with backpressure.
    pub bytes: BoxStream<'static, Result<Bytes, TransportError>>,
}

impl ContentStream {
    /// Turns the stream into a reader.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use futures_util::{StreamExt, stream};
    /// use mcp_flow_client::transport::ContentStream;
    /// use tokio::io::AsyncReadExt;
    ///
    /// let pieces = stream::iter([Ok("so ".into()), Ok("large".into())]).boxed();
    /// let opened = ContentStream { size: Some(8), mime_type: None, bytes: pieces };
    /// let mut text = String::new();
    /// opened.into_reader().read_to_string(&mut text).await?;
    /// assert_eq!(text, "so large");
    /// # Ok(())
    /// # }
    /// ```
    pub fn into_reader(self) -> impl AsyncBufRead + Send + Unpin {
        StreamReader::new(self.bytes.map(|piece| piece.map_err(io::Error::other)))
    }
}

impl ContentStream {
    /// Applies a timeout to each chunk.
    pub(crate) fn limited(self, limit: Duration) -> Self {
        let bytes = stream::unfold(Some(self.bytes), move |bytes| async move {
            let mut bytes = bytes?;
            match tokio::time::timeout(limit, bytes.next()).await {
                Ok(piece) => Some((piece?, Some(bytes))),
                Err(_) => {
                    let what = format!("no data within {}", crate::error::Seconds(limit));
                    Some((Err(TransportError::Lost(what)), None))
                }
            }
        });
        Self { bytes: bytes.boxed(), ..self }
    }
}

impl fmt::Debug for ContentStream {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { size, mime_type, .. } = self;
        formatter
            .debug_struct("ContentStream")
            .field("size", size)
            .field("mime_type", mime_type)
            .finish_non_exhaustive()
    }
}

/// Receives messages and failures from a transport. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Inbox {
    connection: Weak<Connection>,
    frame_limit: usize,
    spool: Option<Arc<Spool>>,
    /// Signing state, if messages are signed.
    signed: Option<SignedChannel>,
}

impl Inbox {
    pub(crate) fn new(
        connection: &Arc<Connection>,
        options: &ClientOptions,
        signed: Option<SignedChannel>,
    ) -> Self {
        let ClientOptions { frame_limit, spool, .. } = options;
        // A signature is of the whole message.
        let spool = spool.clone().filter(|_| signed.is_none());
        Self { connection: Arc::downgrade(connection), frame_limit: *frame_limit, spool, signed }
    }

    /// Accepts signed messages out of order, as HTTP delivers them.
    pub fn allow_reordering(&self) {
        if let Some(signed) = &self.signed {
            signed.allow_reordering();
        }
    }

    /// Takes the signing state, for a transport that [signs](Transport::signs) itself; from then on
    /// the inbox expects verified messages. `None` if messages are not signed.
    pub fn take_signing(&mut self) -> Option<SignedChannel> {
        self.signed.take()
    }

    /// Verifies a message; an invalid one closes the connection.
    fn open<'a>(&self, connection: &Connection, frame: &'a [u8]) -> Option<&'a [u8]> {
        let Some(signed) = &self.signed else { return Some(frame) };
        match signed.open(frame) {
            Ok(message) => Some(message),
            Err(error) => {
                connection.close(error);
                None
            }
        }
    }

    /// Maximum size of a message, in bytes. A transport buffers no more than that.
    pub fn frame_limit(&self) -> usize {
        self.frame_limit
    }

    /// Begins a message that is longer than that; `None` if it has to fail.
    pub fn spool(&self) -> Option<SpoolWriter> {
        self.spool.as_ref().map(|spool| spool.write(self.frame_limit))
    }

    /// Receives one complete message. Never waits.
    pub fn receive(&self, frame: &[u8]) {
        if let Some(connection) = self.connection.upgrade()
            && let Some(message) = self.open(&connection, frame)
        {
            connection.receive(message);
        }
    }

    /// Receives one complete message in this encoding, for connections whose encoding changes.
    /// Never waits.
    pub fn receive_in(&self, encoding: Encoding, frame: &[u8]) {
        if let Some(connection) = self.connection.upgrade()
            && let Some(message) = self.open(&connection, frame)
        {
            connection.receive_in(encoding, message);
        }
    }

    /// Receives one message that a transport which [signs](Transport::signs) has decoded from
    /// `frame`. Never waits.
    pub fn receive_decoded(
        &self,
        encoding: Encoding,
        frame: &[u8],
        decoded: Result<Incoming<'_>, InvalidMessage>,
    ) {
        if let Some(connection) = self.connection.upgrade() {
            connection.receive_decoded(encoding, frame, decoded);
        }
    }

    /// Receives the response to a request, whatever its id: a server that could not decode the
    /// request does not know its id. Returns false for an invalid or unsigned message, as a proxy
    /// may send.
    pub fn receive_for(&self, request: i64, frame: &[u8]) -> bool {
        let Some(connection) = self.connection.upgrade() else { return false };
        match self.signed.as_ref().map(|signed| signed.open_if_signed(frame)) {
            None => connection.receive_for(request, frame),
            Some(None) => connection.reject_unsigned(request, frame),
            Some(Some(Ok(message))) => connection.receive_for(request, message),
            Some(Some(Err(error))) => {
                connection.close(error);
                true
            }
        }
    }

    /// Receives one message that arrived on the response stream of a request, so that requests of the
    /// server among them reach the host of that request.
    pub fn receive_during(&self, request: i64, frame: &[u8]) {
        if let Some(connection) = self.connection.upgrade()
            && let Some(message) = self.open(&connection, frame)
        {
            connection.receive_during(request, message);
        }
    }

    /// Returns whether a request is pending.
    pub fn is_pending(&self, request: i64) -> bool {
        self.connection.upgrade().is_some_and(|connection| connection.is_pending(request))
    }

    /// Fails one request.
    pub fn fail(&self, request: i64, error: TransportError) {
        if let Some(connection) = self.connection.upgrade() {
            connection.fail(request, error);
        }
    }

    /// Closes the connection: nothing more is received or sent.
    pub fn closed(&self, error: TransportError) {
        if let Some(connection) = self.connection.upgrade() {
            connection.close(error);
        }
    }

    /// Returns whether the client has dropped the connection.
    pub fn is_abandoned(&self) -> bool {
        self.connection.strong_count() == 0
    }
}

/// Failure of a transport.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransportError {
    /// The server cannot be reached; nothing was sent.
    #[error("{what}")]
    Unreachable {
        /// Description of the attempt and the failure.
        what: String,
        /// Cause.
        #[source]
        source: Option<Arc<io::Error>>,
    },
    /// The server at this address uses another transport.
    #[error("{0}")]
    Unsuitable(String),
    /// The server requires authentication.
    #[error("{what}")]
    Unauthorized {
        /// Description for the user.
        what: String,
        /// `WWW-Authenticate` header.
        challenge: Option<String>,
    },
    /// The server, or a proxy, refused one request by an HTTP status.
    #[error("{what}")]
    Refused {
        /// Description of the response.
        what: String,
        /// HTTP status.
        status: u16,
        /// `Retry-After`.
        retry_after: Option<Duration>,
    },
    /// The connection, or its session, was lost. Pending requests may have been processed.
    #[error("{0}")]
    Lost(String),
    /// The process of the server has ended. Pending requests may have been processed.
    #[error("{what}; last stderr output: {stderr}")]
    Exited {
        /// Description, with the exit status if it is an error.
        what: String,
        /// Last output on standard error, which may have secrets.
        stderr: String,
    },
    /// The server sent an invalid or oversized message.
    #[error("{0}")]
    InvalidMessage(String),
    /// A message has no valid signature (MCP-073).
    #[error("{0}")]
    InvalidSignature(String),
}

impl TransportError {
    /// Creates [`Unreachable`](Self::Unreachable) from an I/O error.
    pub fn unreachable(what: impl Into<String>, source: io::Error) -> Self {
        let what = format!("{}: {source}", what.into());
        Self::Unreachable { what, source: Some(Arc::new(source)) }
    }

    /// Returns whether the connection was lost, with what was pending on it.
    pub fn is_lost(&self) -> bool {
        matches!(self, Self::Lost(_) | Self::Exited { .. })
    }
}
