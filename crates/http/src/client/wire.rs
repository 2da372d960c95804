//! Connections to servers: a pool of them, with TLS where the URL says so.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, HeaderMap, HeaderValue, USER_AGENT, WWW_AUTHENTICATE};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::{Request, Response, StatusCode, Uri};
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::client::legacy::{Client, Error as ClientError};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use mcp_flow_client::authorizer::{Authorizer, Credential, MOST_REPETITIONS, Refusal};
use mcp_flow_client::transport::TransportError;
use mcp_flow_tls::Trust;
use tokio::net::{TcpStream, lookup_host};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::ALL_VERSIONS;
use tokio_rustls::rustls::pki_types::ServerName;
use tower_service::Service;

use super::BadTarget;
use super::options::{Addresses, HttpOptions};

/// What requests are sent by.
#[derive(Debug)]
pub(super) struct Wire {
    client: Client<Dialer, Full<Bytes>>,
    plain: Dialer,
    pub(super) headers: HeaderMap,
    authorizer: Option<Arc<dyn Authorizer>>,
}

impl Wire {
    pub(super) fn new(options: &HttpOptions) -> Result<Self, BadTarget> {
        let mut headers = options.headers.clone();
        let agent = concat!("mcp-flow/", env!("CARGO_PKG_VERSION"));
        headers.entry(USER_AGENT).or_insert(HeaderValue::from_static(agent));
        let dialer = Dialer::new(options, &["h2", "http/1.1"])?;
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .timer(TokioTimer::new())
            .pool_idle_timeout(Duration::from_secs(60))
            .http1_max_headers(MOST_HEADERS)
            .http2_max_header_list_size(LONGEST_HEADERS)
            .build(dialer);
        let authorizer = options.authorizer.clone();
        Ok(Self { client, plain: Dialer::new(options, &["http/1.1"])?, headers, authorizer })
    }

    /// Sends a request; its own headers come before those of every request.
    pub(super) async fn send(
        &self,
        mut request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, TransportError> {
        for (name, value) in &self.headers {
            if !request.headers().contains_key(name) {
                request.headers_mut().append(name, value.clone());
            }
        }
        let Some(authorizer) = self.authorizer(request.uri()) else {
            return self.send_once(request).await;
        };
        let mut repetitions = 0;
        loop {
            let shown = authorizer.credential().await?;
            let mut attempt = request.clone();
            if let Some(value) = shown.as_ref().map(header).transpose()? {
                attempt.headers_mut().insert(AUTHORIZATION, value);
            }
            let answer = self.send_once(attempt).await?;
            if repetitions == MOST_REPETITIONS || !is_refused(answer.status()) {
                return Ok(answer);
            }
            repetitions += 1;
            if !authorizer.refused(refusal(shown, answer.status(), answer.headers())).await? {
                return Ok(answer);
            }
        }
    }

    async fn send_once(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, TransportError> {
        self.client.request(request).await.map_err(|error| describe(&error))
    }

    /// Who knows the credential for this address, if there is one for it. What the headers of every
    /// request say goes before.
    pub(super) fn authorizer(&self, uri: &Uri) -> Option<&dyn Authorizer> {
        let authorizer = self.authorizer.as_deref()?;
        let is_wanted = !self.headers.contains_key(AUTHORIZATION);
        (is_wanted && authorizer.is_for(&uri.to_string())).then_some(authorizer)
    }

    /// Opens a connection of its own, for what is not HTTP any more after the first answer.
    pub(super) async fn dial(&self, uri: Uri) -> Result<TokioIo<Stream>, TransportError> {
        let dialled = self.plain.clone().call(uri).await;
        let stream =
            dialled.map_err(|error| TransportError::unreachable("no connection", error))?;
        Ok(TokioIo::new(stream))
    }
}

/// Whether an answer can be about who is calling.
pub(super) fn is_refused(status: StatusCode) -> bool {
    matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
}

/// What an answer says about who is calling.
pub(super) fn refusal(
    shown: Option<Credential>,
    status: StatusCode,
    headers: &HeaderMap,
) -> Refusal {
    let challenges = headers.get_all(WWW_AUTHENTICATE).iter();
    let challenges = challenges.filter_map(|value| value.to_str().ok().map(str::to_owned));
    Refusal { shown, status: status.as_u16(), challenges: challenges.collect() }
}

/// A credential as it is sent.
pub(super) fn header(credential: &Credential) -> Result<HeaderValue, TransportError> {
    let mut value = HeaderValue::from_str(credential.header()).map_err(|_| {
        let what = "the kept credential cannot be sent as a header; log in anew".to_owned();
        TransportError::Unauthorized { what, challenge: None }
    })?;
    value.set_sensitive(true);
    Ok(value)
}

fn describe(error: &ClientError) -> TransportError {
    // The outermost error only says that something failed; the innermost says what.
    let mut cause: &dyn std::error::Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    let what = cause.to_string();
    match error.is_connect() {
        true => TransportError::Unreachable { what, source: None },
        false => TransportError::Lost(what),
    }
}

/// Opens connections.
#[derive(Clone)]
struct Dialer {
    tls: TlsConnector,
    addresses: Option<Addresses>,
}

impl Dialer {
    fn new(options: &HttpOptions, protocols: &[&str]) -> Result<Self, BadTarget> {
        let config = Trust::client_config(&options.trust, ALL_VERSIONS, protocols);
        let config = config.map_err(|error| BadTarget::new(error.to_string()))?;
        let addresses = options.addresses.clone();
        Ok(Self { tls: TlsConnector::from(Arc::new(config)), addresses })
    }
}

/// Connects to a host. Where only some addresses will do, those its name stands for are looked at,
/// and the one that was looked at is dialled: a name that stands for another one a moment later
/// gains nothing.
async fn connect(host: &str, port: u16, addresses: Option<&Addresses>) -> io::Result<TcpStream> {
    let Some(addresses) = addresses else { return TcpStream::connect((host, port)).await };
    let found = lookup_host((host, port)).await?;
    let found: Vec<SocketAddr> = found.filter(|found| addresses.allows(host, found.ip())).collect();
    match found.is_empty() {
        true => Err(io::Error::other(format!("{host} is at an address that is out of bounds"))),
        false => TcpStream::connect(&*found).await,
    }
}

impl std::fmt::Debug for Dialer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Dialer").finish_non_exhaustive()
    }
}

impl Service<Uri> for Dialer {
    type Response = Stream;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Stream>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let Self { tls, addresses } = self.clone();
        Box::pin(async move {
            let secure = matches!(uri.scheme_str(), Some("https" | "wss"));
            let host = uri.host().unwrap_or_default();
            let bare = host.trim_start_matches('[').trim_end_matches(']').to_owned();
            let port = uri.port_u16().unwrap_or(if secure { 443 } else { 80 });
            let stream = connect(&bare, port, addresses.as_ref()).await?;
            // Small messages must not wait for more to come.
            stream.set_nodelay(true)?;
            if !secure {
                return Ok(Stream::Plain(TokioIo::new(stream)));
            }
            let name = ServerName::try_from(bare).map_err(io::Error::other)?;
            let stream = tls.connect(name, stream).await?;
            Ok(Stream::Tls(Box::new(TokioIo::new(stream))))
        })
    }
}

/// A connection, with TLS or without.
#[derive(Debug)]
pub(super) enum Stream {
    Plain(TokioIo<TcpStream>),
    Tls(Box<TokioIo<TlsStream<TcpStream>>>),
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        match self {
            Self::Plain(_) => Connected::new(),
            Self::Tls(stream) => match stream.inner().get_ref().1.alpn_protocol() {
                Some(b"h2") => Connected::new().negotiated_h2(),
                _ => Connected::new(),
            },
        }
    }
}

impl Read for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        task: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(task, buffer),
            Self::Tls(stream) => Pin::new(&mut **stream).poll_read(task, buffer),
        }
    }
}

impl Write for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        task: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(task, bytes),
            Self::Tls(stream) => Pin::new(&mut **stream).poll_write(task, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(task),
            Self::Tls(stream) => Pin::new(&mut **stream).poll_flush(task),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(task),
            Self::Tls(stream) => Pin::new(&mut **stream).poll_shutdown(task),
        }
    }
}

/// How many headers an answer may have.
const MOST_HEADERS: usize = 128;

/// How many bytes of headers an answer may have.
const LONGEST_HEADERS: u32 = 64 * 1024;
