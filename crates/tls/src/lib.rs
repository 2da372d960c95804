//! TLS certificates of servers, on every encrypted transport (MCP-071), and the trust settings of
//! clients.
//!
//! A certificate is read from PEM files, which are reloaded when they change, or is self-signed, for
//! clients that pin its fingerprint, and renewed before it expires. Both happen while the server
//! runs; transports need no notice.

mod files;
mod self_signed;
mod trust;
mod validity;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::{Mutex, RwLock};
use rustls::crypto::ring as provider;
use rustls::pki_types::pem;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{ServerConfig, SupportedProtocolVersion};

use files::{FileStamps, Files};
use self_signed::SelfSigned;

pub use trust::{BadTrust, Trust};

/// A certificate chain with its private key, renewed from its source.
pub struct Tls {
    source: Source,
    current: RwLock<Arc<CertifiedKey>>,
    version: Mutex<Version>,
    check_every: Duration,
}

enum Source {
    Files(Files),
    SelfSigned(SelfSigned),
}

/// State of the source when the current certificate was loaded.
#[derive(Debug, PartialEq)]
enum Version {
    Files(Option<FileStamps>),
    /// Time at which to create the next certificate.
    SelfSigned {
        renewal: SystemTime,
    },
}

impl Tls {
    /// Reads a certificate chain and its private key from PEM files.
    pub fn from_pem(
        certificates: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
    ) -> Result<Self, TlsError> {
        let files = Files { certificates: certificates.into(), key: key.into() };
        // Stamped before the files are read, so that a change in between is not missed.
        let version = Version::Files(files.stamps());
        let current = files.read()?;
        Ok(Self::new(Source::Files(files), current, version))
    }

    /// Creates a self-signed certificate for these hosts and the names of the local machine. Browsers
    /// accept it by its fingerprint: it uses ECDSA over P-256 and is valid for 13 days.
    pub fn self_signed(hosts: &[String]) -> Result<Self, TlsError> {
        let source = SelfSigned::new(hosts);
        let (current, renewal) = source.create()?;
        Ok(Self::new(Source::SelfSigned(source), current, Version::SelfSigned { renewal }))
    }

    fn new(source: Source, current: CertifiedKey, version: Version) -> Self {
        let current = RwLock::new(Arc::new(current));
        Self { source, current, version: Mutex::new(version), check_every: Duration::from_secs(5) }
    }

    /// Sets the interval at which the source is checked for changes. Defaults to 5 seconds.
    #[must_use]
    pub fn check_every(mut self, time: Duration) -> Self {
        self.check_every = time;
        self
    }

    /// Creates the TLS configuration of a listener, which always presents the current certificate.
    pub fn server_config(
        self: &Arc<Self>,
        versions: &[&'static SupportedProtocolVersion],
        protocols: &[&str],
    ) -> Result<ServerConfig, TlsError> {
        let provider = Arc::new(provider::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)?
            .with_no_client_auth()
            .with_cert_resolver(self.clone());
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        Ok(config)
    }

    /// Returns the SHA-256 fingerprint of the current certificate, in hexadecimal digits.
    pub fn fingerprint(&self) -> String {
        let current = self.current();
        let certificate = current.cert.first().map(|der| &**der).unwrap_or_default();
        let hash = ring::digest::digest(&ring::digest::SHA256, certificate);
        hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Returns the validity period of the current certificate, if it can be parsed.
    pub fn validity(&self) -> Option<(SystemTime, SystemTime)> {
        let current = self.current();
        validity::validity(current.cert.first()?)
    }

    /// Returns whether the certificate is self-signed, so that clients must pin its fingerprint.
    pub fn is_self_signed(&self) -> bool {
        matches!(self.source, Source::SelfSigned(_))
    }

    /// Renews the certificate when its source changes, for as long as the future is polled. A
    /// certificate that cannot be used is logged, and the old one stays.
    pub async fn watch(self: Arc<Self>) {
        loop {
            tokio::time::sleep(self.check_every).await;
            let tls = self.clone();
            // Files may be on a slow disk.
            let _ = tokio::task::spawn_blocking(move || tls.check(SystemTime::now())).await;
        }
    }

    fn check(&self, now: SystemTime) {
        let mut version = self.version.lock();
        let renewed = match (&self.source, &*version) {
            (Source::Files(files), _) => {
                let found = Version::Files(files.stamps());
                if *version == found {
                    return;
                }
                *version = found;
                files.read()
            }
            (Source::SelfSigned(_), Version::SelfSigned { renewal }) if *renewal > now => return,
            (Source::SelfSigned(source), _) => source.create().map(|(key, renewal)| {
                *version = Version::SelfSigned { renewal };
                key
            }),
        };
        match renewed {
            Ok(key) => {
                *self.current.write() = Arc::new(key);
                tracing::info!(fingerprint = self.fingerprint(), "certificate renewed");
            }
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::error!(error, "cannot use the new certificate; keeping the old one");
            }
        }
    }

    fn current(&self) -> Arc<CertifiedKey> {
        self.current.read().clone()
    }
}

impl ResolvesServerCert for Tls {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current())
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Tls")
            .field("fingerprint", &self.fingerprint())
            .finish_non_exhaustive()
    }
}

/// A certificate that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file is missing, or is not PEM of the kind it should be.
    #[error("{} cannot be read as PEM", path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Error of the parser.
        source: pem::Error,
    },
    /// The file contains no certificate.
    #[error("{} holds no certificate", .0.display())]
    Empty(PathBuf),
    /// The certificate and the key do not match or are not supported.
    #[error("the certificate and the key cannot be used together")]
    Mismatch(#[from] rustls::Error),
    /// A self-signed certificate cannot be created.
    #[error("cannot create a self-signed certificate")]
    Make(#[from] rcgen::Error),
}

#[cfg(test)]
mod tests {
    use super::Tls;
    use std::fs;
    use std::sync::Arc;
    use std::time::{Duration, SystemTime};

    /// An invalid renewal keeps the old certificate, and the next valid one replaces it.
    #[test]
    fn an_invalid_renewal_keeps_the_old_certificate() {
        let folder = tempfile::tempdir().unwrap();
        let (certificate, key) =
            (folder.path().join("certificate.pem"), folder.path().join("key.pem"));
        let create = || rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let first = create();
        fs::write(&certificate, first.cert.pem()).unwrap();
        fs::write(&key, first.signing_key.serialize_pem()).unwrap();
        let tls = Tls::from_pem(&certificate, &key).unwrap();
        let old = tls.current();

        let second = create();
        fs::write(&key, "broken").unwrap();
        fs::write(&certificate, second.cert.pem()).unwrap();
        tls.check(SystemTime::now());
        assert!(Arc::ptr_eq(&old, &tls.current()));
        fs::write(&key, second.signing_key.serialize_pem()).unwrap();
        tls.check(SystemTime::now());
        assert!(!Arc::ptr_eq(&old, &tls.current()));
    }

    /// A self-signed certificate is renewed a day before it expires, and not sooner.
    #[test]
    fn self_signed_certificates_are_renewed_before_they_expire() {
        let tls = Tls::self_signed(&[]).unwrap();
        let (first, now) = (tls.fingerprint(), SystemTime::now());
        assert_eq!(first.len(), 64);
        let day = Duration::from_secs(24 * 60 * 60);
        tls.check(now + 11 * day);
        assert_eq!(tls.fingerprint(), first);
        tls.check(now + 12 * day + day / 2);
        assert_ne!(tls.fingerprint(), first);
    }
}
