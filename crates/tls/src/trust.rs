//! Which server a client believes, on every transport that encrypts.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, ring as provider, verify_tls12_signature,
    verify_tls13_signature,
};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore};
use rustls::{SignatureScheme, SupportedProtocolVersion};

/// How a server proves that it is the right one.
#[derive(Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Trust {
    /// Its certificate was issued by someone this machine trusts.
    #[default]
    System,
    /// Its certificate was issued by one of those in this PEM file.
    File(PathBuf),
    /// Its certificate was issued by one of these.
    Issuers(Vec<CertificateDer<'static>>),
    /// Its certificate has one of these SHA-256 hashes.
    Hashes(Vec<[u8; 32]>),
}

/// Why nobody could be trusted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadTrust {
    /// A hash is not one.
    #[error("a certificate's hash is 64 hexadecimal digits")]
    Hash,
    /// A file cannot be read, or is no PEM.
    #[error("{} cannot be read as PEM: {source}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: pem::Error,
    },
    /// There is no certificate in the file.
    #[error("{} holds no certificate", .0.display())]
    Empty(PathBuf),
    /// A certificate cannot be used.
    #[error(transparent)]
    Tls(#[from] Error),
}

impl Trust {
    /// Trusts the one server whose certificate has this hash, in hexadecimal digits.
    ///
    /// ```
    /// use mcp_flow_tls::Trust;
    ///
    /// assert!(Trust::hash(&"3a".repeat(32)).is_ok());
    /// assert!(Trust::hash("3a").is_err());
    /// ```
    pub fn hash(digits: &str) -> Result<Self, BadTrust> {
        let digits: String = digits.chars().filter(|digit| *digit != ':').collect();
        if digits.len() != 64 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(BadTrust::Hash);
        }
        let mut hash = [0; 32];
        for (index, byte) in hash.iter_mut().enumerate() {
            let digits = &digits[2 * index..2 * index + 2];
            *byte = u8::from_str_radix(digits, 16).map_err(|_| BadTrust::Hash)?;
        }
        Ok(Self::Hashes(vec![hash]))
    }

    /// What a transport needs to reach such a server.
    pub fn client_config(
        &self,
        versions: &[&'static SupportedProtocolVersion],
        protocols: &[&str],
    ) -> Result<ClientConfig, BadTrust> {
        let provider = Arc::new(provider::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(versions)?;
        let mut config = match self {
            Self::Hashes(hashes) => builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(Known {
                    hashes: hashes.clone(),
                    provider,
                }))
                .with_no_client_auth(),
            _ => builder.with_root_certificates(self.roots()?).with_no_client_auth(),
        };
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        Ok(config)
    }

    fn roots(&self) -> Result<RootCertStore, BadTrust> {
        let mut roots = RootCertStore::empty();
        match self {
            Self::Hashes(_) => {}
            Self::Issuers(issuers) => {
                for issuer in issuers {
                    roots.add(issuer.clone())?;
                }
            }
            Self::File(path) => {
                let bad = |source| BadTrust::Read { path: path.clone(), source };
                for certificate in CertificateDer::pem_file_iter(path).map_err(bad)? {
                    roots.add(certificate.map_err(bad)?)?;
                }
                if roots.is_empty() {
                    return Err(BadTrust::Empty(path.clone()));
                }
            }
            // A machine without certificates can still reach servers without TLS.
            Self::System => {
                let found = rustls_native_certs::load_native_certs();
                for error in found.errors {
                    tracing::debug!(%error, "a trusted certificate cannot be read");
                }
                roots.add_parsable_certificates(found.certs);
            }
        }
        Ok(roots)
    }
}

impl fmt::Debug for Trust {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System => formatter.write_str("System"),
            Self::File(path) => write!(formatter, "File({})", path.display()),
            Self::Issuers(issuers) => write!(formatter, "Issuers({})", issuers.len()),
            Self::Hashes(hashes) => write!(formatter, "Hashes({})", hashes.len()),
        }
    }
}

/// Believes a certificate by its hash, as browsers do. That it is really the server's is proved by
/// its signature, as always.
#[derive(Debug)]
struct Known {
    hashes: Vec<[u8; 32]>,
    provider: Arc<CryptoProvider>,
}

impl Known {
    fn algorithms(&self) -> &WebPkiSupportedAlgorithms {
        &self.provider.signature_verification_algorithms
    }
}

impl ServerCertVerifier for Known {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let hash = ring::digest::digest(&ring::digest::SHA256, certificate);
        match self.hashes.iter().any(|known| known == hash.as_ref()) {
            true => Ok(ServerCertVerified::assertion()),
            false => Err(CertificateError::UnknownIssuer.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, self.algorithms())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, self.algorithms())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms().supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::Trust;

    #[test]
    fn hashes_are_read_in_the_usual_forms() {
        let plain = "0a".repeat(32);
        let Ok(Trust::Hashes(hashes)) = Trust::hash(&plain) else { panic!("it is one") };
        assert_eq!(hashes, [[10; 32]]);
        let colons = ["0A"; 32].join(":");
        assert!(Trust::hash(&colons).is_ok());
        for bad in ["", "0a", &"0g".repeat(32), &"+a".repeat(32), &"é".repeat(32), &"0a".repeat(33)]
        {
            assert!(Trust::hash(bad).is_err(), "{bad}");
        }
    }
}
