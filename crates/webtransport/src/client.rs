//! WebTransport client: connects, exchanges frames with the server, and matches streams to calls.
//!
//! [`server`] is the connector for a [client](mcp_flow_client), as with any other transport. The
//! low-level API starts with [`connect`], for programs that handle every frame themselves.
//!
//! The control stream carries whole messages in the current encoding: JSON at first, then the one
//! negotiated by `initialize`. Streams and datagrams are delivered as events beside the messages,
//! unless they belong to no request.
//!
//! ```no_run
//! use mcp_flow_webtransport::client::{self, TransportEvent, ConnectSettings, Trust};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let settings = ConnectSettings::new(Trust::fingerprint("3ad1…")?);
//! let (client, mut events) = client::connect("https://localhost:4433/mcp-flow", settings).await?;
//! client.send(br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#).await?;
//! while let Some(event) = events.next().await {
//!     if let TransportEvent::Message { bytes, .. } = event {
//!         println!("{}", String::from_utf8_lossy(&bytes));
//!     }
//! }
//! # Ok(())
//! # }
//! ```

mod connector;
mod datagrams;
mod dial;
mod events;
mod receive;
mod stream;
mod tracker;
mod transport;
mod unopened;

use std::sync::Arc;
use std::time::Duration;

use mcp_flow_client::SignedChannel;
use mcp_flow_client::authorizer::Authorizer;
use mcp_flow_client::transport::OutgoingKind;
use mcp_flow_proto::model::CancelParams;
use mcp_flow_proto::webtransport::write_frame;
use mcp_flow_proto::{Encoding, Incoming, Message, RequestId, method};
use tokio::sync::Mutex;
use tokio::time::timeout;
use web_transport_quinn::http::HeaderMap;
use web_transport_quinn::quinn::Endpoint;
use web_transport_quinn::{ClientError, RecvStream, SendStream, Session, SessionError, WriteError};

use dial::dial;
use tracker::StreamTracker;

pub use connector::{WebTransportServer, server};
pub use datagrams::{ReceivedAudio, received_audio};
pub use events::{TransportEvent, TransportEvents};
pub use mcp_flow_tls::{BadTrust, Trust};
pub use stream::{IncomingStream, StreamEnded};
pub use transport::WebTransport;

/// Connection settings.
#[derive(Clone, Debug)]
pub struct ConnectSettings {
    /// The trusted server certificates.
    pub trust: Trust,
    /// Bearer token to send, if the server requires one.
    pub token: Option<String>,
    /// Provider of the token, if none is given. Used by [`server`] only.
    pub authorizer: Option<Arc<dyn Authorizer>>,
    /// Value of the `Origin` header. Intended for tests.
    pub origin: Option<String>,
    /// Further headers of the CONNECT request.
    pub headers: HeaderMap,
    /// Connect timeout. 10 seconds.
    pub connect_timeout: Duration,
    /// Idle timeout of the connection. 30 seconds.
    pub idle_timeout: Duration,
    /// Maximum number of open execution streams. 64.
    pub max_streams: u32,
    /// Grace period for streams that a result names, and for a result that names a stream. 5
    /// seconds (C-16).
    pub grace_period: Duration,
    /// Accepts datagrams.
    pub datagrams: bool,
    /// Maximum length of a received message. 16 MiB.
    pub max_frame: usize,
    /// The channel that signs and verifies messages. Set by [`server`].
    pub signed: Option<SignedChannel>,
}

impl ConnectSettings {
    /// Returns the default settings.
    pub fn new(trust: Trust) -> Self {
        Self {
            trust,
            token: None,
            authorizer: None,
            origin: None,
            headers: HeaderMap::new(),
            connect_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(30),
            max_streams: 64,
            grace_period: Duration::from_secs(5),
            datagrams: true,
            max_frame: 16 * 1024 * 1024,
            signed: None,
        }
    }
}

/// A session with a server. Clones share it.
#[derive(Clone, Debug)]
pub struct TransportClient {
    session: Session,
    control: Arc<Mutex<SendStream>>,
    tracker: Arc<StreamTracker>,
    signed: Option<SignedChannel>,
    _close: Arc<CloseOnDrop>,
}

/// Closes the session with the last clone of the client; the library does not.
#[derive(Debug)]
struct CloseOnDrop {
    session: Session,
    _endpoint: Endpoint,
}

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.session.close(0, b"the client is closing");
    }
}

/// Connects to a server and opens the control stream.
pub async fn connect(
    url: &str,
    settings: ConnectSettings,
) -> Result<(TransportClient, TransportEvents), ConnectError> {
    let (client, control) = establish(url, &settings).await?;
    let events = TransportEvents::spawn(&client, control, settings.max_frame);
    Ok((client, events))
}

/// Establishes a session. Returns the control stream to receive messages from.
async fn establish(
    url: &str,
    settings: &ConnectSettings,
) -> Result<(TransportClient, RecvStream), ConnectError> {
    let establishing = Box::pin(async {
        let (session, endpoint) = dial(url, settings).await?;
        TransportClient::open_control_stream(session, endpoint, settings).await
    });
    timeout(settings.connect_timeout, establishing)
        .await
        .map_err(|_| ConnectError::TimedOut(settings.connect_timeout))?
}

impl TransportClient {
    async fn open_control_stream(
        session: Session,
        endpoint: Endpoint,
        settings: &ConnectSettings,
    ) -> Result<(Self, RecvStream), ConnectError> {
        let (send, recv) = session.open_bi().await?;
        let _ = send.set_priority(1);
        let tracker = Arc::new(StreamTracker::new(settings));
        let close = CloseOnDrop { session: session.clone(), _endpoint: endpoint };
        let control = Arc::new(Mutex::new(send));
        let signed = settings.signed.clone();
        let client = Self { session, control, tracker, signed, _close: Arc::new(close) };
        Ok((client, recv))
    }

    /// Sends one message, which must be in the current [`encoding`](Self::encoding).
    pub async fn send(&self, message: &[u8]) -> Result<(), SendError> {
        self.track(message);
        self.send_untracked(message).await
    }

    /// Records a message that is about to be sent.
    fn track(&self, message: &[u8]) {
        let unwanted = match Incoming::decode(message, self.encoding()) {
            Ok(Incoming::Message(Message::Request(request))) => {
                self.tracker.record_request(&request.id, &request.method)
            }
            Ok(Incoming::Message(Message::Notification(notice)))
                if is_cancellation(&notice.method) =>
            {
                let cancel = CancelParams::from_params(notice.params);
                cancel
                    .map(|cancel| self.tracker.record_cancel(&cancel.request_id))
                    .unwrap_or_default()
            }
            _ => return,
        };
        unwanted.into_iter().for_each(|mut stream| stream.reject());
    }

    /// Records a message of known kind that is about to be sent, which is decoded only if needed.
    fn track_outgoing(&self, kind: &OutgoingKind, message: &[u8]) {
        match kind {
            OutgoingKind::Request { id, method, .. } => {
                let unwanted = self.tracker.record_request(&RequestId::from(*id), method);
                unwanted.into_iter().for_each(|mut stream| stream.reject());
            }
            OutgoingKind::Notification { method } if is_cancellation(method) => self.track(message),
            OutgoingKind::Notification { .. } | OutgoingKind::Response => {}
        }
    }

    /// Sends bytes as a frame, without decoding or tracking them.
    pub async fn send_untracked(&self, body: &[u8]) -> Result<(), SendError> {
        self.send_frames([body.to_vec()]).await
    }

    /// Sends messages as frames. Signing happens under the lock that orders them.
    async fn send_frames(
        &self,
        messages: impl IntoIterator<Item = Vec<u8>>,
    ) -> Result<(), SendError> {
        let mut control = self.control.lock().await;
        let mut frames = Vec::new();
        for message in messages {
            let body = match &self.signed {
                Some(signed) => signed.wrap(message),
                None => message,
            };
            write_frame(&mut frames, &body).map_err(|_| SendError::TooLong)?;
        }
        Ok(control.write_all(&frames).await?)
    }

    /// Sends raw bytes on the control stream. For tests of protocol violations.
    pub async fn send_bytes(&self, bytes: &[u8]) -> Result<(), SendError> {
        Ok(self.control.lock().await.write_all(bytes).await?)
    }

    /// Returns the current encoding of messages.
    pub fn encoding(&self) -> Encoding {
        self.tracker.encoding()
    }

    /// Returns the number of datagrams dropped because they were invalid, unsolicited or too many.
    pub fn dropped_datagrams(&self) -> u64 {
        self.tracker.dropped()
    }

    /// Finishes the control stream: no more messages will be sent.
    pub async fn finish(&self) {
        let _ = self.control.lock().await.finish();
    }

    /// Closes the session at once.
    pub fn close(&self) {
        self.session.close(0, b"the client is closing");
    }

    /// Waits until the session is closed, and returns the reason.
    pub async fn closed(&self) -> SessionError {
        self.session.closed().await
    }

    /// Returns the underlying session.
    pub fn session(&self) -> &Session {
        &self.session
    }
}

fn is_cancellation(method: &str) -> bool {
    [method::CANCEL, method::CANCELLED].contains(&method)
}

/// The reason a session could not be established.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The URL is not that of a WebTransport server.
    #[error("write the URL as https://HOST:PORT/mcp-flow")]
    Url,
    /// The token or origin contains invalid characters.
    #[error("the token or origin contains invalid characters")]
    Header,
    /// The trust settings are invalid.
    #[error(transparent)]
    Trust(#[from] BadTrust),
    /// This build has no cipher suite that QUIC needs.
    #[error("no TLS 1.3 cipher suite for QUIC is available")]
    Cipher,
    /// The host name could not be resolved.
    #[error("cannot resolve {host}")]
    Lookup {
        /// The host name.
        host: String,
        /// The cause.
        source: std::io::Error,
    },
    /// The host name has no address.
    #[error("{0} has no address")]
    NoAddress(String),
    /// No UDP socket could be opened.
    #[error("cannot open a UDP socket")]
    Socket(#[source] std::io::Error),
    /// The server is unreachable, has an untrusted certificate, or rejected the session.
    #[error("cannot connect to the server: {0}")]
    Server(#[from] ClientError),
    /// The session was closed immediately.
    #[error("the session was closed immediately: {0}")]
    Session(#[from] SessionError),
    /// Connecting timed out.
    #[error("cannot connect to the server within {0:?}")]
    TimedOut(Duration),
}

/// The reason a message was not sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The message is longer than four gigabytes.
    #[error("the message is too long for a frame")]
    TooLong,
    /// The session is closed.
    #[error("the session is closed: {0}")]
    Closed(#[from] WriteError),
}
