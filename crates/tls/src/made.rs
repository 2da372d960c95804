//! A certificate made on the spot.

use std::time::{Duration, SystemTime};

use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use rustls::crypto::ring as provider;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;

use crate::TlsError;

/// Whom a certificate is made for.
pub(crate) struct Made {
    hosts: Vec<String>,
}

impl Made {
    pub(crate) fn new(hosts: &[String]) -> Self {
        let own = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
        let named = hosts.iter().map(|host| host.trim_matches(['[', ']']).to_owned());
        Self { hosts: own.into_iter().chain(named).collect() }
    }

    /// A new certificate, and when the next one is due.
    pub(crate) fn make(&self) -> Result<(CertifiedKey, SystemTime), TlsError> {
        let begin = SystemTime::now() - CLOCKS_DIFFER;
        let mut params = CertificateParams::new(self.hosts.clone())?;
        params.not_before = begin.into();
        params.not_after = (begin + LIFE).into();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "mcp-flow");
        let key = KeyPair::generate()?;
        let certificate = params.self_signed(&key)?;
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let chain = vec![certificate.der().clone()];
        let key = CertifiedKey::from_der(chain, key, &provider::default_provider())?;
        Ok((key, begin + LIFE - AHEAD))
    }
}

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// How long a certificate is good for. Browsers accept 14 days where they go by the hash.
const LIFE: Duration = Duration::from_secs(13 * DAY.as_secs());

/// How long before its end a certificate is replaced.
const AHEAD: Duration = DAY;

/// How late a client's clock may be.
const CLOCKS_DIFFER: Duration = Duration::from_secs(60 * 60);
