//! The client half: connects, carries frames both ways, and matches streams to calls.
//!
//! [`server`] is how a [client](mcp_flow_client) reaches a server by it, as by any other transport.
//! What it is made of can be used by itself, from [`connect`] on, by those who want every frame in
//! their own hands:
//!
//! What goes over the control stream is whole messages in the encoding of the moment, which begins
//! as JSON and is whatever the server's answer to `initialize` says after that. Streams and
//! datagrams are handed out beside the messages, those that belong to nothing excepted.
//!
//! ```no_run
//! use mcp_flow_webtransport::client::{self, Event, Settings, Trust};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let settings = Settings::new(Trust::hash("3ad1…")?);
//! let (client, mut events) = client::connect("https://localhost:4433/mcp-flow", settings).await?;
//! client.send(br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#).await?;
//! while let Some(event) = events.next().await {
//!     if let Event::Message { bytes, .. } = event {
//!         println!("{}", String::from_utf8_lossy(&bytes));
//!     }
//! }
//! # Ok(())
//! # }
//! ```

mod books;
mod carry;
mod connector;
mod datagrams;
mod dial;
mod receiving;
mod stream;
mod unread;

use std::sync::Arc;
use std::time::Duration;

use mcp_flow_client::SignedChannel;
use mcp_flow_client::authorizer::Authorizer;
use mcp_flow_proto::Encoding;
use mcp_flow_proto::webtransport::write_frame;
use tokio::sync::Mutex;
use tokio::time::timeout;
use web_transport_quinn::http::HeaderMap;
use web_transport_quinn::quinn::Endpoint;
use web_transport_quinn::{ClientError, SendStream, Session, SessionError, WriteError};

use books::Books;
use dial::dial;

pub use carry::WebTransport;
pub use connector::{WebTransportServer, server};
pub use datagrams::{Sound, sounds};
pub use mcp_flow_tls::{BadTrust, Trust};
pub use receiving::{Event, Events};
pub use stream::{IncomingStream, StreamEnded};

/// How to connect.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Which server to believe.
    pub trust: Trust,
    /// The token to show, where the server asks for one.
    pub token: Option<String>,
    /// Who knows the token, where none is given. Asked by [`server`] alone.
    pub authorizer: Option<Arc<dyn Authorizer>>,
    /// The origin to claim. Only tests have a reason to.
    pub origin: Option<String>,
    /// What else to say when connecting.
    pub headers: HeaderMap,
    /// How long connecting may take. 10 seconds.
    pub connect_time: Duration,
    /// How long a path may be silent before the connection is given up. 30 seconds.
    pub idle_time: Duration,
    /// Execution streams open at once. 64.
    pub streams: u32,
    /// How long to wait for streams that a result names, and for a result that names a stream.
    /// 5 seconds (C-16).
    pub grace: Duration,
    /// Whether datagrams are taken.
    pub datagrams: bool,
    /// The longest message taken. 16 MiB.
    pub frame: usize,
    /// What messages are signed by. [`server`] puts it in.
    pub signed: Option<SignedChannel>,
}

impl Settings {
    /// The usual settings.
    pub fn new(trust: Trust) -> Self {
        Self {
            trust,
            token: None,
            authorizer: None,
            origin: None,
            headers: HeaderMap::new(),
            connect_time: Duration::from_secs(10),
            idle_time: Duration::from_secs(30),
            streams: 64,
            grace: Duration::from_secs(5),
            datagrams: true,
            frame: 16 * 1024 * 1024,
            signed: None,
        }
    }
}

/// One session with a server.
#[derive(Clone, Debug)]
pub struct Client {
    session: Session,
    control: Arc<Mutex<SendStream>>,
    books: Arc<Books>,
    signed: Option<SignedChannel>,
    _last: Arc<Last>,
}

/// Ends the session when nobody uses it any more, which it does not by itself.
#[derive(Debug)]
struct Last {
    session: Session,
    _endpoint: Endpoint,
}

impl Drop for Last {
    fn drop(&mut self) {
        self.session.close(0, b"the client ends");
    }
}

/// Connects to a server and opens the control stream.
pub async fn connect(url: &str, settings: Settings) -> Result<(Client, Events), ConnectError> {
    timeout(settings.connect_time, Box::pin(open(url, &settings)))
        .await
        .map_err(|_| ConnectError::TimedOut(settings.connect_time))?
}

async fn open(url: &str, settings: &Settings) -> Result<(Client, Events), ConnectError> {
    let (session, endpoint) = dial(url, settings).await?;
    Client::begin(session, endpoint, settings).await
}

impl Client {
    async fn begin(
        session: Session,
        endpoint: Endpoint,
        settings: &Settings,
    ) -> Result<(Self, Events), ConnectError> {
        let (send, recv) = session.open_bi().await?;
        let _ = send.set_priority(1);
        let books = Arc::new(Books::new(settings));
        let last = Last { session: session.clone(), _endpoint: endpoint };
        let control = Arc::new(Mutex::new(send));
        let signed = settings.signed.clone();
        let client = Self { session, control, books, signed, _last: Arc::new(last) };
        let events = Events::begin(client.clone(), recv, settings.frame);
        Ok((client, events))
    }

    /// Sends one message, which is in the [`encoding`](Self::encoding) of the moment.
    pub async fn send(&self, message: &[u8]) -> Result<(), SendError> {
        self.note(message);
        self.send_unseen(message).await
    }

    /// Takes note of a message that is about to be sent.
    fn note(&self, message: &[u8]) {
        for mut stream in self.books.note_sent(message) {
            stream.refuse();
        }
    }

    /// Sends bytes as a frame, without looking at them.
    pub async fn send_unseen(&self, body: &[u8]) -> Result<(), SendError> {
        self.send_frames([body.to_vec()]).await
    }

    /// Sends messages as frames, signed under the lock that orders them where they are signed.
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

    /// Sends bytes as they are. For trying what a good client never does.
    pub async fn send_bytes(&self, bytes: &[u8]) -> Result<(), SendError> {
        Ok(self.control.lock().await.write_all(bytes).await?)
    }

    /// How messages are written at the moment.
    pub fn encoding(&self) -> Encoding {
        self.books.encoding()
    }

    /// Datagrams that were of no use, or too many to be taken.
    pub fn dropped_datagrams(&self) -> u64 {
        self.books.dropped()
    }

    /// Says that no more messages will come.
    pub async fn finish(&self) {
        let _ = self.control.lock().await.finish();
    }

    /// Ends the session at once.
    pub fn close(&self) {
        self.session.close(0, b"the client ends");
    }

    /// Waits until the session is over, and says how that came.
    pub async fn closed(&self) -> SessionError {
        self.session.closed().await
    }

    /// The session below, for what is not offered here.
    pub fn session(&self) -> &Session {
        &self.session
    }
}

/// Why there is no session.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The address is not one of a WebTransport server.
    #[error("write the address as https://HOST:PORT/mcp-flow")]
    Url,
    /// A token or origin cannot be sent.
    #[error("a token and an origin are of plain characters")]
    Header,
    /// What the server shows cannot be checked.
    #[error(transparent)]
    Trust(#[from] BadTrust),
    /// This build has none of the ciphers QUIC needs.
    #[error("QUIC needs a cipher of TLS 1.3")]
    Cipher,
    /// The name could not be looked up.
    #[error("{host} cannot be looked up")]
    Lookup {
        /// Which.
        host: String,
        /// Why.
        source: std::io::Error,
    },
    /// The name has no address.
    #[error("{0} has no address")]
    NoAddress(String),
    /// There is no socket to be had.
    #[error("no UDP socket can be opened")]
    Socket(#[source] std::io::Error),
    /// The server is not there, is not the one it should be, or refuses.
    #[error("the server cannot be connected to: {0}")]
    Server(#[from] ClientError),
    /// The session ended at once.
    #[error("the session ended at once: {0}")]
    Session(#[from] SessionError),
    /// It took too long.
    #[error("the server could not be connected to within {0:?}")]
    TimedOut(Duration),
}

/// Why a message was not sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// It is longer than four gigabytes.
    #[error("the message is too long for a frame")]
    TooLong,
    /// The session is over.
    #[error("the session is over: {0}")]
    Closed(#[from] WriteError),
}
