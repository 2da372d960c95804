//! Opens TCP connections, with TLS where the URL requires it.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use mcp_flow_client::transport::lookup;
use mcp_flow_tls::Trust;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::ALL_VERSIONS;
use tokio_rustls::rustls::pki_types::ServerName;
use tower_service::Service;

use crate::BadTarget;
use crate::options::{AllowedAddresses, HttpOptions};

/// Connector of hyper's client for `http`, `https`, `ws` and `wss`.
#[derive(Clone)]
pub struct Dialer {
    tls: TlsConnector,
    addresses: Option<AllowedAddresses>,
}

impl Dialer {
    /// Creates a dialer that offers these protocols by ALPN.
    pub fn new(options: &HttpOptions, protocols: &[&str]) -> Result<Self, BadTarget> {
        let config = Trust::client_config(&options.trust, ALL_VERSIONS, protocols);
        let config = config.map_err(|error| BadTarget::new(error.to_string()))?;
        let addresses = options.addresses.clone();
        Ok(Self { tls: TlsConnector::from(Arc::new(config)), addresses })
    }
}

/// Connects to a host. If addresses are restricted, the name is resolved once and the addresses that
/// were checked are dialled, so that DNS rebinding gains nothing.
async fn connect(
    host: &str,
    port: u16,
    allowed: Option<&AllowedAddresses>,
) -> io::Result<TcpStream> {
    let mut resolved = lookup(host, port).await?;
    if let Some(allowed) = allowed {
        resolved.retain(|address| allowed.allows(host, address.ip()));
        if resolved.is_empty() {
            return Err(io::Error::other(RefusedAddress { host: host.to_owned() }));
        }
    }
    TcpStream::connect(&*resolved).await
}

/// A host whose addresses are not allowed. Another attempt would be refused as well.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{host} resolves to an address that is not allowed")]
pub(crate) struct RefusedAddress {
    host: String,
}

impl std::fmt::Debug for Dialer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Dialer").finish_non_exhaustive()
    }
}

impl Service<Uri> for Dialer {
    type Response = HttpStream;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<HttpStream>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let Self { tls, addresses } = self.clone();
        Box::pin(async move {
            let is_secure = matches!(uri.scheme_str(), Some("https" | "wss"));
            let host = uri.host().unwrap_or_default();
            let bare = host.trim_start_matches('[').trim_end_matches(']').to_owned();
            let port = uri.port_u16().unwrap_or(if is_secure { 443 } else { 80 });
            let stream = connect(&bare, port, addresses.as_ref()).await?;
            // Disables Nagle's algorithm: small messages must not wait.
            stream.set_nodelay(true)?;
            if !is_secure {
                return Ok(HttpStream::Plain(TokioIo::new(stream)));
            }
            let name = ServerName::try_from(bare).map_err(io::Error::other)?;
            let stream = tls.connect(name, stream).await?;
            Ok(HttpStream::Tls(Box::new(TokioIo::new(stream))))
        })
    }
}

/// A connection, with TLS or without.
#[derive(Debug)]
pub enum HttpStream {
    /// Without TLS.
    Plain(TokioIo<TcpStream>),
    /// With TLS.
    Tls(Box<TokioIo<TlsStream<TcpStream>>>),
}

impl Connection for HttpStream {
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

impl Read for HttpStream {
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

impl Write for HttpStream {
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
