//! TLS with a certificate from PEM files, which is taken up anew when the files change (MCP-071).

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, SystemTime};
use std::{fs, io};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{self, ServerConfig};
use tokio_rustls::server::TlsStream;

/// A certificate chain with its key, and where they came from.
#[derive(Debug)]
pub struct Tls {
    files: Files,
    current: RwLock<Arc<ServerConfig>>,
    /// How the files looked when they were last read.
    seen: Mutex<Option<Looks>>,
    check_every: Duration,
}

#[derive(Debug)]
struct Files {
    certificates: PathBuf,
    key: PathBuf,
}

/// When each file was changed, and how long it is.
type Looks = [(SystemTime, u64); 2];

impl Tls {
    /// Reads a certificate chain and its private key.
    pub fn from_pem(
        certificates: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
    ) -> Result<Self, TlsError> {
        let files = Files { certificates: certificates.into(), key: key.into() };
        // Looked at before they are read, so that a change in between is not missed.
        let seen = Mutex::new(files.looks());
        let current = RwLock::new(files.read()?);
        Ok(Self { files, current, seen, check_every: Duration::from_secs(5) })
    }

    /// Sets how often the files are looked at. Defaults to every 5 seconds.
    #[must_use]
    pub fn check_every(mut self, time: Duration) -> Self {
        self.check_every = time;
        self
    }

    /// Shakes hands with a client.
    pub(crate) async fn accept<S>(&self, stream: S) -> io::Result<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner).clone();
        TlsAcceptor::from(current).accept(stream).await
    }

    /// Takes up changed files for as long as it is polled. What cannot be used changes nothing.
    pub(crate) async fn watch(self: Arc<Self>) {
        loop {
            tokio::time::sleep(self.check_every).await;
            let tls = self.clone();
            // Files may be on a slow disk.
            let _ = tokio::task::spawn_blocking(move || tls.check()).await;
        }
    }

    fn check(&self) {
        let looks = self.files.looks();
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if *seen == looks {
            return;
        }
        *seen = looks;
        match self.files.read() {
            Ok(config) => {
                *self.current.write().unwrap_or_else(PoisonError::into_inner) = config;
                tracing::info!("the certificate was renewed");
            }
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::error!(error, "the new certificate cannot be used; the old one stays");
            }
        }
    }
}

impl Files {
    /// How the files look, if they are there.
    fn looks(&self) -> Option<Looks> {
        let look = |path: &Path| {
            let metadata = fs::metadata(path).ok()?;
            Some((metadata.modified().ok()?, metadata.len()))
        };
        Some([look(&self.certificates)?, look(&self.key)?])
    }

    fn read(&self) -> Result<Arc<ServerConfig>, TlsError> {
        let unreadable = |path: &Path| {
            let path = path.to_owned();
            move |source| TlsError::Read { path, source }
        };
        let chain: Vec<_> = CertificateDer::pem_file_iter(&self.certificates)
            .and_then(Iterator::collect)
            .map_err(unreadable(&self.certificates))?;
        if chain.is_empty() {
            return Err(TlsError::Empty(self.certificates.clone()));
        }
        let key = PrivateKeyDer::from_pem_file(&self.key).map_err(unreadable(&self.key))?;
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&TLS13, &TLS12])?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

/// Whether the client and the server have agreed on HTTP/2.
pub(crate) fn speaks_http2<S>(stream: &TlsStream<S>) -> bool {
    stream.get_ref().1.alpn_protocol() == Some(b"h2")
}

/// Why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file is missing, or is not PEM of the kind it should be.
    #[error("{} cannot be read as PEM", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: pem::Error,
    },
    /// There is no certificate in the file.
    #[error("{} holds no certificate", .0.display())]
    Empty(PathBuf),
    /// The certificate and the key are of no use together.
    #[error("the certificate and the key cannot be used together")]
    Mismatch(#[from] rustls::Error),
}

#[cfg(test)]
mod tests {
    use super::Tls;
    use std::sync::Arc;
    use std::{env, fs, process};

    /// A broken renewal changes nothing, and the next good one is taken up.
    #[test]
    fn a_broken_renewal_keeps_the_old_certificate() {
        let folder = env::temp_dir().join(format!("mcp-flow-renewal-{}", process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (certificate, key) = (folder.join("certificate.pem"), folder.join("key.pem"));
        let made = || rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let first = made();
        fs::write(&certificate, first.cert.pem()).unwrap();
        fs::write(&key, first.signing_key.serialize_pem()).unwrap();
        let tls = Tls::from_pem(&certificate, &key).unwrap();
        let current = || tls.current.read().unwrap().clone();
        let old = current();

        let second = made();
        fs::write(&key, "broken").unwrap();
        fs::write(&certificate, second.cert.pem()).unwrap();
        tls.check();
        assert!(Arc::ptr_eq(&old, &current()));
        fs::write(&key, second.signing_key.serialize_pem()).unwrap();
        tls.check();
        assert!(!Arc::ptr_eq(&old, &current()));
        fs::remove_dir_all(&folder).unwrap();
    }
}
