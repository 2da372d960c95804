//! The certificate a server shows, on every transport that encrypts (MCP-071), and which one its
//! client believes.
//!
//! It comes from PEM files, which are taken up anew when they change, or is made on the spot, for
//! clients that know it by its hash; one that was made is made anew before it ends. Either way what
//! is served changes while the server runs, and no transport has to know.

mod files;
mod made;
mod trust;
mod validity;

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use rustls::crypto::ring as provider;
use rustls::pki_types::pem;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{ServerConfig, SupportedProtocolVersion};

use files::{Files, Looks};
use made::Made;

pub use trust::{BadTrust, Trust};

/// A certificate chain with its key, and where they come from.
pub struct Tls {
    source: Source,
    current: RwLock<Arc<CertifiedKey>>,
    seen: Mutex<Seen>,
    check_every: Duration,
}

enum Source {
    Files(Files),
    Made(Made),
}

/// What there was to see of the source when it was last taken up.
#[derive(Debug, PartialEq)]
enum Seen {
    Files(Option<Looks>),
    /// When the certificate is to be made anew.
    Made {
        renewal: SystemTime,
    },
}

impl Tls {
    /// Reads a certificate chain and its private key.
    pub fn from_pem(
        certificates: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
    ) -> Result<Self, TlsError> {
        let files = Files { certificates: certificates.into(), key: key.into() };
        // Looked at before they are read, so that a change in between is not missed.
        let seen = Seen::Files(files.looks());
        let current = files.read()?;
        Ok(Self::new(Source::Files(files), current, seen))
    }

    /// Makes a certificate for these hosts, besides the names of the own machine. It is of the
    /// kind that browsers accept by its hash: ECDSA over P-256, good for 13 days.
    pub fn self_made(hosts: &[String]) -> Result<Self, TlsError> {
        let made = Made::new(hosts);
        let (current, renewal) = made.make()?;
        Ok(Self::new(Source::Made(made), current, Seen::Made { renewal }))
    }

    fn new(source: Source, current: CertifiedKey, seen: Seen) -> Self {
        let current = RwLock::new(Arc::new(current));
        Self { source, current, seen: Mutex::new(seen), check_every: Duration::from_secs(5) }
    }

    /// Sets how often the source is looked at. Defaults to every 5 seconds.
    #[must_use]
    pub fn check_every(mut self, time: Duration) -> Self {
        self.check_every = time;
        self
    }

    /// What a transport needs to encrypt: it shows whatever certificate is current.
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

    /// The SHA-256 of the certificate shown at the moment, in hexadecimal digits.
    pub fn hash(&self) -> String {
        let current = self.current();
        let certificate = current.cert.first().map(|der| &**der).unwrap_or_default();
        let hash = ring::digest::digest(&ring::digest::SHA256, certificate);
        hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// From when until when the certificate shown at the moment is good, if it says so.
    pub fn validity(&self) -> Option<(SystemTime, SystemTime)> {
        let current = self.current();
        validity::validity(current.cert.first()?)
    }

    /// Whether the certificate is one that only its hash makes known.
    pub fn is_self_made(&self) -> bool {
        matches!(self.source, Source::Made(_))
    }

    /// Takes up what changes for as long as it is polled. What cannot be used changes nothing.
    pub async fn watch(self: Arc<Self>) {
        loop {
            tokio::time::sleep(self.check_every).await;
            let tls = self.clone();
            // Files may be on a slow disk.
            let _ = tokio::task::spawn_blocking(move || tls.check(SystemTime::now())).await;
        }
    }

    fn check(&self, now: SystemTime) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let renewed = match (&self.source, &*seen) {
            (Source::Files(files), _) => {
                let looks = Seen::Files(files.looks());
                if *seen == looks {
                    return;
                }
                *seen = looks;
                files.read()
            }
            (Source::Made(_), Seen::Made { renewal }) if *renewal > now => return,
            (Source::Made(made), _) => made.make().map(|(key, renewal)| {
                *seen = Seen::Made { renewal };
                key
            }),
        };
        match renewed {
            Ok(key) => {
                *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(key);
                tracing::info!(hash = self.hash(), "the certificate was renewed");
            }
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::error!(error, "the new certificate cannot be used; the old one stays");
            }
        }
    }

    fn current(&self) -> Arc<CertifiedKey> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ResolvesServerCert for Tls {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current())
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Tls").field("hash", &self.hash()).finish_non_exhaustive()
    }
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
    /// None could be made.
    #[error("no certificate could be made")]
    Make(#[from] rcgen::Error),
}

#[cfg(test)]
mod tests {
    use super::Tls;
    use std::fs;
    use std::sync::Arc;
    use std::time::{Duration, SystemTime};

    /// A broken renewal changes nothing, and the next good one is taken up.
    #[test]
    fn a_broken_renewal_keeps_the_old_certificate() {
        let folder = tempfile::tempdir().unwrap();
        let (certificate, key) =
            (folder.path().join("certificate.pem"), folder.path().join("key.pem"));
        let made = || rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let first = made();
        fs::write(&certificate, first.cert.pem()).unwrap();
        fs::write(&key, first.signing_key.serialize_pem()).unwrap();
        let tls = Tls::from_pem(&certificate, &key).unwrap();
        let old = tls.current();

        let second = made();
        fs::write(&key, "broken").unwrap();
        fs::write(&certificate, second.cert.pem()).unwrap();
        tls.check(SystemTime::now());
        assert!(Arc::ptr_eq(&old, &tls.current()));
        fs::write(&key, second.signing_key.serialize_pem()).unwrap();
        tls.check(SystemTime::now());
        assert!(!Arc::ptr_eq(&old, &tls.current()));
    }

    /// A self-made certificate is made anew before it ends, and not sooner.
    #[test]
    fn a_made_certificate_is_renewed_in_time() {
        let tls = Tls::self_made(&[]).unwrap();
        let (first, now) = (tls.hash(), SystemTime::now());
        assert_eq!(first.len(), 64);
        let day = Duration::from_secs(24 * 60 * 60);
        tls.check(now + 11 * day);
        assert_eq!(tls.hash(), first);
        tls.check(now + 12 * day + day / 2);
        assert_ne!(tls.hash(), first);
    }
}
