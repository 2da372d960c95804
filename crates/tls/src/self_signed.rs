//! Self-signed certificates.

use std::time::{Duration, SystemTime};

use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use rustls::crypto::ring as provider;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;

use crate::TlsError;

/// Creates self-signed certificates for a list of hosts.
pub(crate) struct SelfSigned {
    hosts: Vec<String>,
}

impl SelfSigned {
    pub(crate) fn new(hosts: &[String]) -> Self {
        let own = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
        let named = hosts.iter().map(|host| host.trim_matches(['[', ']']).to_owned());
        Self { hosts: own.into_iter().chain(named).collect() }
    }

    /// Creates a certificate, and returns the time at which to renew it.
    pub(crate) fn create(&self) -> Result<(CertifiedKey, SystemTime), TlsError> {
        let start = SystemTime::now() - CLOCK_SKEW;
        let mut params = CertificateParams::new(self.hosts.clone())?;
        params.not_before = start.into();
        params.not_after = (start + LIFETIME).into();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "mcp-flow");
        let key = KeyPair::generate()?;
        let certificate = params.self_signed(&key)?;
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let chain = vec![certificate.der().clone()];
        let key = CertifiedKey::from_der(chain, key, &provider::default_provider())?;
        Ok((key, start + LIFETIME - RENEWAL_MARGIN))
    }
}

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Validity of a certificate. Browsers accept at most 14 days for a pinned fingerprint.
const LIFETIME: Duration = Duration::from_secs(13 * DAY.as_secs());

/// Time before expiry at which a certificate is renewed.
const RENEWAL_MARGIN: Duration = DAY;

/// Allowance for client clocks that are slow.
const CLOCK_SKEW: Duration = Duration::from_secs(60 * 60);
