//! TLS handshakes of the listener.

use std::io;
use std::sync::Arc;

use mcp_flow_tls::{Tls, TlsError};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::version::TLS13;
use tokio_rustls::server::TlsStream;

/// Accepts TLS 1.3 and negotiates HTTP/2 or HTTP/1.1 by ALPN (WT-067).
#[derive(Clone)]
pub(crate) struct Acceptor(TlsAcceptor);

impl Acceptor {
    pub(crate) fn new(tls: &Arc<Tls>) -> Result<Self, TlsError> {
        let config = tls.server_config(&[&TLS13], &["h2", "http/1.1"])?;
        Ok(Self(TlsAcceptor::from(Arc::new(config))))
    }

    /// Performs the handshake with a client.
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

/// Returns whether ALPN negotiated HTTP/2.
pub(crate) fn speaks_http2<S>(stream: &TlsStream<S>) -> bool {
    stream.get_ref().1.alpn_protocol() == Some(b"h2")
}
