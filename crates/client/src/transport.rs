//! The seam between the client and what carries its messages.
//!
//! A [`Connector`] reaches one server as often as it takes. What it gives is a [`Transport`], which
//! takes encoded messages, and hands what arrives to an [`Inbox`]. Neither knows what a message
//! means; the client knows nothing of pipes, sockets and streams.

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

pub use crate::carried::{Outbox, carried};

use crate::link::Link;
use crate::signing::SignedChannel;

/// Reaches one server, as often as it takes.
///
/// ```
/// use std::sync::Arc;
/// use futures_util::future::BoxFuture;
/// use mcp_flow_client::transport::{Connector, Inbox, Outgoing, Transport, TransportError};
///
/// /// A server that hears everything and says nothing.
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
    /// The server, for messages to people: a URL, a command.
    fn target(&self) -> &str;

    /// Opens a connection whose arriving messages go to `inbox`. The client limits the time.
    fn connect(&self, inbox: Inbox) -> BoxFuture<'_, Result<Arc<dyn Transport>, TransportError>>;

    /// What the era of the server is remembered under for the whole process: an origin. `None`
    /// where another connection may be to another server, such as a process of its own.
    fn origin(&self) -> Option<String> {
        None
    }

    /// Another way to try if a connection of this one turned out to be
    /// [`TransportError::Unsuitable`].
    fn fallback(&self) -> Option<Arc<dyn Connector>> {
        None
    }

    /// Whether a lost connection can be opened again.
    fn reconnects(&self) -> bool {
        true
    }
}

/// One connection to a server. Ends, with all it holds, when it is dropped or closed.
pub trait Transport: Send + Sync + 'static {
    /// A short name, such as `stdio`.
    fn name(&self) -> &'static str;

    /// How messages are written on this connection, from now on.
    fn encoding(&self) -> Encoding {
        Encoding::Json
    }

    /// Takes a message to send, in order, and never waits. What cannot be sent is reported to the
    /// inbox: one request by [`Inbox::fail`], everything by [`Inbox::closed`].
    fn send(&self, message: Outgoing);

    /// Stops waiting for the response to a request. Says whether the server learns of it by that,
    /// as where each request has a stream of its own; otherwise the client sends
    /// `notifications/cancelled`.
    fn cancel(&self, _request: i64) -> bool {
        false
    }

    /// Is told what was agreed with the server, before any other request.
    fn agreed(&self, _revision: Revision) {}

    /// What this transport itself has to say in the handshake: members of the params of
    /// `initialize`, which a server that knows the transport answers.
    fn introduction(&self) -> Map<String, Value> {
        Map::new()
    }

    /// Whether the handshake is wanted even where a server could do without, for what only it can
    /// agree on.
    fn wants_handshake(&self) -> bool {
        false
    }

    /// Whether arguments must be repeated beside the message, as headers (`x-mcp-header`).
    fn wants_headers(&self) -> bool {
        false
    }

    /// Opens what a result refers to and does not hold: a piece of content as it came, such as a
    /// `resource_link` to the server's own address, or a `ref/stream`. `None` if this transport has
    /// no way to.
    fn open(&self, _content: &Value) -> Option<BoxFuture<'_, Result<Opened, TransportError>>> {
        None
    }

    /// The transport itself, for those who know which it is.
    fn as_any(&self) -> Option<&(dyn Any + Send + Sync)> {
        None
    }

    /// Whether it signs messages and checks signatures itself, by what [`Inbox::take_signed`] gives:
    /// one that looks into messages or changes them has to.
    fn signs(&self) -> bool {
        false
    }

    /// Ends the connection politely, in bounded time.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// One encoded message on its way to the server.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// The message, without any framing.
    pub frame: Vec<u8>,
    /// What it is, for transports that treat messages differently.
    pub kind: OutgoingKind,
}

/// What a message on its way out is.
#[derive(Clone, Debug)]
pub enum OutgoingKind {
    /// A request; its response comes back by its id.
    Request {
        /// The id.
        id: i64,
        /// What is asked for.
        method: Cow<'static, str>,
        /// What the method is applied to, `params.name` or `params.uri`, where it is.
        name: Option<String>,
        /// Arguments to be repeated as headers, by the names the tool gives them.
        headers: Vec<(String, String)>,
    },
    /// A notification.
    Notification {
        /// What happened.
        method: Cow<'static, str>,
    },
    /// The answer to a request of the server.
    Response,
}

/// Something large that is read piece by piece.
pub struct Opened {
    /// How many bytes there are, if known.
    pub size: Option<u64>,
    /// What kind of content it is, if known.
    pub mime_type: Option<String>,
    /// The content, with backpressure: what is not read is not fetched.
    pub bytes: BoxStream<'static, Result<Bytes, TransportError>>,
}

impl Opened {
    /// The content as a reader.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use futures_util::{StreamExt, stream};
    /// use mcp_flow_client::transport::Opened;
    /// use tokio::io::AsyncReadExt;
    ///
    /// let pieces = stream::iter([Ok("so ".into()), Ok("large".into())]).boxed();
    /// let opened = Opened { size: Some(8), mime_type: None, bytes: pieces };
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

impl Opened {
    /// The same, given up when the next piece is not there within this time.
    pub(crate) fn limited(self, limit: Duration) -> Self {
        let bytes = stream::unfold(Some(self.bytes), move |bytes| async move {
            let mut bytes = bytes?;
            match tokio::time::timeout(limit, bytes.next()).await {
                Ok(piece) => Some((piece?, Some(bytes))),
                Err(_) => {
                    let what = format!("nothing came within {}", crate::error::Seconds(limit));
                    Some((Err(TransportError::Lost(what)), None))
                }
            }
        });
        Self { bytes: bytes.boxed(), ..self }
    }
}

impl fmt::Debug for Opened {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { size, mime_type, .. } = self;
        formatter
            .debug_struct("Opened")
            .field("size", size)
            .field("mime_type", mime_type)
            .finish_non_exhaustive()
    }
}

/// Where a transport puts what arrives. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Inbox {
    link: Weak<Link>,
    frame_limit: usize,
    /// How what arrives is signed.
    signed: Option<SignedChannel>,
}

impl Inbox {
    pub(crate) fn new(link: &Arc<Link>, frame_limit: usize, signed: Option<SignedChannel>) -> Self {
        Self { link: Arc::downgrade(link), frame_limit, signed }
    }

    /// Says that messages may overtake each other on the way here, as over HTTP.
    pub fn allow_any_order(&self) {
        if let Some(signed) = &self.signed {
            signed.allow_any_order();
        }
    }

    /// What messages are signed by, for a transport that [signs](Transport::signs) itself; from then
    /// on the inbox takes messages that are opened already. `None` where nothing is signed.
    pub fn take_signed(&mut self) -> Option<SignedChannel> {
        self.signed.take()
    }

    /// Takes a message out of its envelope; a connection on which something else comes is over.
    fn open<'a>(&self, link: &Link, frame: &'a [u8]) -> Option<&'a [u8]> {
        let Some(signed) = &self.signed else { return Some(frame) };
        match signed.open(frame) {
            Ok(message) => Some(message),
            Err(error) => {
                link.close(error);
                None
            }
        }
    }

    /// How long a message may be, in bytes. A transport keeps no more of one that is longer.
    pub fn frame_limit(&self) -> usize {
        self.frame_limit
    }

    /// Takes one complete message. Never waits.
    pub fn receive(&self, frame: &[u8]) {
        if let Some(link) = self.link.upgrade()
            && let Some(message) = self.open(&link, frame)
        {
            link.receive(message);
        }
    }

    /// Takes one complete message in this encoding, where that changes in the course of a
    /// connection. Never waits.
    pub fn receive_in(&self, encoding: Encoding, frame: &[u8]) {
        if let Some(link) = self.link.upgrade()
            && let Some(message) = self.open(&link, frame)
        {
            link.receive_in(encoding, message);
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
        if let Some(link) = self.link.upgrade() {
            link.receive_decoded(encoding, frame, decoded);
        }
    }

    /// Takes one message that is the answer to a request, whatever id it gives: a server that
    /// could not read the request could not read that either. False if it is no message, or none
    /// that is signed where messages are: what stands between the two ends may refuse a request too.
    pub fn receive_for(&self, request: i64, frame: &[u8]) -> bool {
        let Some(link) = self.link.upgrade() else { return false };
        match self.signed.as_ref().map(|signed| signed.open_if_signed(frame)) {
            None => link.receive_for(request, frame),
            Some(None) => link.distrust(request, frame),
            Some(Some(Ok(message))) => link.receive_for(request, message),
            Some(Some(Err(error))) => {
                link.close(error);
                true
            }
        }
    }

    /// Whether the response to a request is still waited for.
    pub fn waits_for(&self, request: i64) -> bool {
        self.link.upgrade().is_some_and(|link| link.waits_for(request))
    }

    /// Says that the response to one request will not come.
    pub fn fail(&self, request: i64, error: TransportError) {
        if let Some(link) = self.link.upgrade() {
            link.fail(request, error);
        }
    }

    /// Says that the connection is over: nothing more will arrive, and nothing will be sent.
    pub fn closed(&self, error: TransportError) {
        if let Some(link) = self.link.upgrade() {
            link.close(error);
        }
    }

    /// Whether nobody waits for anything any more.
    pub fn is_abandoned(&self) -> bool {
        self.link.strong_count() == 0
    }
}

/// Why messages could not be carried.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransportError {
    /// Nothing was sent: the server cannot be reached.
    #[error("{what}")]
    Unreachable {
        /// What was tried, and how it failed.
        what: String,
        /// The cause.
        #[source]
        source: Option<Arc<io::Error>>,
    },
    /// There is a server, and it speaks another transport at this address.
    #[error("{0}")]
    Unsuitable(String),
    /// The server wants to know who is calling.
    #[error("{what}")]
    Unauthorized {
        /// What it said, for a person.
        what: String,
        /// Its `WWW-Authenticate` header.
        challenge: Option<String>,
    },
    /// The server refused one request outside the protocol.
    #[error("{what}")]
    Refused {
        /// What it said.
        what: String,
        /// The status it said it with.
        status: u16,
        /// How long it asks to wait before trying again.
        retry_after: Option<Duration>,
    },
    /// The connection, or the session on it, is over. What was asked may have been done.
    #[error("{0}")]
    Lost(String),
    /// The server sent what is no message, or one that is too long.
    #[error("{0}")]
    Garbage(String),
    /// What came is not signed as it should be, so it is not believed (MCP-073).
    #[error("{0}")]
    Untrusted(String),
}

impl TransportError {
    /// A server that cannot be reached, because of an I/O error.
    pub fn unreachable(what: impl Into<String>, source: io::Error) -> Self {
        let what = format!("{}: {source}", what.into());
        Self::Unreachable { what, source: Some(Arc::new(source)) }
    }
}
