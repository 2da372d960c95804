//! Connections to servers: a pool of them, with TLS where the URL says so.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{HeaderMap, HeaderValue, USER_AGENT};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::{Request, Response, Uri};
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::client::legacy::{Client, Error as ClientError};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use mcp_flow_client::transport::TransportError;
use mcp_flow_tls::Trust;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::ALL_VERSIONS;
use tokio_rustls::rustls::pki_types::ServerName;
use tower_service::Service;

use super::BadTarget;

/// What requests are sent by.
#[derive(Debug)]
pub(super) struct Wire {
    client: Client<Dialer, Full<Bytes>>,
    plain: Dialer,
    pub(super) headers: HeaderMap,
}

impl Wire {
    pub(super) fn new(mut headers: HeaderMap, trust: &Trust) -> Result<Self, BadTarget> {
        let agent = concat!("mcp-flow/", env!("CARGO_PKG_VERSION"));
        headers.entry(USER_AGENT).or_insert(HeaderValue::from_static(agent));
        let dialer = Dialer::new(trust, &["h2", "http/1.1"])?;
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .timer(TokioTimer::new())
            .pool_idle_timeout(Duration::from_secs(60))
            .http1_max_headers(MOST_HEADERS)
            .http2_max_header_list_size(LONGEST_HEADERS)
            .build(dialer);
        Ok(Self { client, plain: Dialer::new(trust, &["http/1.1"])?, headers })
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
        self.client.request(request).await.map_err(|error| describe(&error))
    }

    /// Opens a connection of its own, for what is not HTTP any more after the first answer.
    pub(super) async fn dial(&self, uri: Uri) -> Result<TokioIo<Stream>, TransportError> {
        let dialled = self.plain.clone().call(uri).await;
        let stream =
            dialled.map_err(|error| TransportError::unreachable("no connection", error))?;
        Ok(TokioIo::new(stream))
    }
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
}

impl Dialer {
    fn new(trust: &Trust, protocols: &[&str]) -> Result<Self, BadTarget> {
        let config = trust.client_config(ALL_VERSIONS, protocols);
        let config = config.map_err(|error| BadTarget::new(error.to_string()))?;
        Ok(Self { tls: TlsConnector::from(Arc::new(config)) })
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
        let tls = self.tls.clone();
        Box::pin(async move {
            let secure = matches!(uri.scheme_str(), Some("https" | "wss"));
            let host = uri.host().unwrap_or_default();
            let bare = host.trim_start_matches('[').trim_end_matches(']').to_owned();
            let port = uri.port_u16().unwrap_or(if secure { 443 } else { 80 });
            let stream = TcpStream::connect((bare.as_str(), port)).await?;
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
