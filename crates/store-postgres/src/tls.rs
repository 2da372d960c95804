//! TLS of connections, by rustls.

use std::future::{Future, ready};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect};
use tokio_rustls::TlsConnector;

/// Makes TLS connections to servers whose certificates are trusted.
#[derive(Clone)]
pub(crate) struct MakeTls {
    pub(crate) config: Arc<rustls::ClientConfig>,
}

pub(crate) struct ConnectTls {
    connector: TlsConnector,
    name: Result<ServerName<'static>, rustls::pki_types::InvalidDnsNameError>,
}

impl<S> MakeTlsConnect<S> for MakeTls
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = TlsStream<S>;
    type TlsConnect = ConnectTls;
    type Error = io::Error;

    fn make_tls_connect(&mut self, domain: &str) -> io::Result<ConnectTls> {
        let name = ServerName::try_from(domain.to_owned());
        Ok(ConnectTls { connector: TlsConnector::from(Arc::clone(&self.config)), name })
    }
}

impl<S> TlsConnect<S> for ConnectTls
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = TlsStream<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<TlsStream<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        match self.name {
            Ok(name) => Box::pin(async move {
                Ok(TlsStream(Box::new(self.connector.connect(name, stream).await?)))
            }),
            Err(error) => Box::pin(ready(Err(io::Error::other(error)))),
        }
    }
}

/// An encrypted stream.
pub(crate) struct TlsStream<S>(Box<tokio_rustls::client::TlsStream<S>>);

impl<S: AsyncRead + AsyncWrite + Unpin> tokio_postgres::tls::TlsStream for TlsStream<S> {
    /// Binds the password exchange to the certificate, if its hash is known to be right (RFC 5929).
    fn channel_binding(&self) -> ChannelBinding {
        let certificate = self.0.get_ref().1.peer_certificates().and_then(|chain| chain.first());
        match certificate.filter(|certificate| is_sha256(certificate)) {
            Some(certificate) => {
                let digest = ring::digest::digest(&ring::digest::SHA256, certificate);
                ChannelBinding::tls_server_end_point(digest.as_ref().to_vec())
            }
            None => ChannelBinding::none(),
        }
    }
}

/// Returns whether a certificate is signed with SHA-256 by ECDSA or RSA: only then is that also the
/// hash of the binding. Looks for the encoded name of the algorithm.
fn is_sha256(certificate: &[u8]) -> bool {
    let names: [&[u8]; 2] = [
        &[0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02],
        &[0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0b],
    ];
    names.iter().any(|name| certificate.windows(name.len()).any(|bytes| bytes == *name))
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for TlsStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for TlsStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
