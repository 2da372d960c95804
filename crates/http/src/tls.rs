//! Shaking hands over TLS.

use std::io;
use std::sync::Arc;

use mcp_flow_tls::{Tls, TlsError};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::version::TLS13;
use tokio_rustls::server::TlsStream;

/// Speaks TLS 1.3 with clients, and HTTP of the version they like best (WT-067).
#[derive(Clone)]
pub(crate) struct Acceptor(TlsAcceptor);

impl Acceptor {
    pub(crate) fn new(tls: &Arc<Tls>) -> Result<Self, TlsError> {
        let config = tls.server_config(&[&TLS13], &["h2", "http/1.1"])?;
        Ok(Self(TlsAcceptor::from(Arc::new(config))))
    }

    /// Shakes hands with a client.
    pub(crate) async fn accept<S>(&self, stream: S) -> io::Result<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        self.0.accept(stream).await
    }
}

impl std::fmt::Debug for Acceptor {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Acceptor")
    }
}

/// Whether the client and the server have agreed on HTTP/2.
pub(crate) fn speaks_http2<S>(stream: &TlsStream<S>) -> bool {
    stream.get_ref().1.alpn_protocol() == Some(b"h2")
}
