//! Trust settings of clients, on every encrypted transport.

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

/// Server certificates that a client trusts.
#[derive(Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Trust {
    /// Certificates issued by the certificate authorities of the system.
    #[default]
    System,
    /// Certificates issued by a certificate authority in this PEM file.
    File(PathBuf),
    /// Certificates issued by one of these certificate authorities.
    Authorities(Vec<CertificateDer<'static>>),
    /// Certificates with one of these SHA-256 fingerprints.
    Fingerprints(Vec<[u8; 32]>),
}

/// Trust settings that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadTrust {
    /// The fingerprint is malformed.
    #[error("a certificate fingerprint is 64 hexadecimal digits")]
    Fingerprint,
    /// A file cannot be read or is not PEM.
    #[error("{} cannot be read as PEM: {source}", path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Error of the parser.
        source: pem::Error,
    },
    /// The file contains no certificate.
    #[error("{} holds no certificate", .0.display())]
    Empty(PathBuf),
    /// A certificate is not supported.
    #[error(transparent)]
    Tls(#[from] Error),
}

impl Trust {
    /// Trusts the certificate with this SHA-256 fingerprint, in hexadecimal digits with or without
    /// colons.
    ///
    /// ```
    /// use mcp_flow_tls::Trust;
    ///
    /// assert!(Trust::fingerprint(&"3a".repeat(32)).is_ok());
    /// assert!(Trust::fingerprint("3a").is_err());
    /// ```
    pub fn fingerprint(digits: &str) -> Result<Self, BadTrust> {
        let digits: String = digits.chars().filter(|digit| *digit != ':').collect();
        if digits.len() != 64 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(BadTrust::Fingerprint);
        }
        let mut fingerprint = [0; 32];
        for (index, byte) in fingerprint.iter_mut().enumerate() {
            let digits = &digits[2 * index..2 * index + 2];
            *byte = u8::from_str_radix(digits, 16).map_err(|_| BadTrust::Fingerprint)?;
        }
        Ok(Self::Fingerprints(vec![fingerprint]))
    }

    /// Creates the TLS configuration of a client.
    pub fn client_config(
        &self,
        versions: &[&'static SupportedProtocolVersion],
        protocols: &[&str],
    ) -> Result<ClientConfig, BadTrust> {
        let provider = Arc::new(provider::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(versions)?;
        let mut config = match self {
            Self::Fingerprints(fingerprints) => builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(FingerprintVerifier {
                    fingerprints: fingerprints.clone(),
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
            Self::Fingerprints(_) => {}
            Self::Authorities(authorities) => {
                for authority in authorities {
                    roots.add(authority.clone())?;
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
            // A system without certificates can still reach servers without TLS.
            Self::System => {
                let found = rustls_native_certs::load_native_certs();
                for error in found.errors {
                    tracing::debug!(%error, "cannot read a certificate of the system");
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
            Self::Authorities(all) => write!(formatter, "Authorities({})", all.len()),
            Self::Fingerprints(all) => write!(formatter, "Fingerprints({})", all.len()),
        }
    }
}

/// Verifies a certificate by its fingerprint, as browsers do. The handshake signature still proves
/// that the server has its private key.
#[derive(Debug)]
struct FingerprintVerifier {
    fingerprints: Vec<[u8; 32]>,
    provider: Arc<CryptoProvider>,
}

impl FingerprintVerifier {
    fn algorithms(&self) -> &WebPkiSupportedAlgorithms {
        &self.provider.signature_verification_algorithms
    }
}

impl ServerCertVerifier for FingerprintVerifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let fingerprint = ring::digest::digest(&ring::digest::SHA256, certificate);
        match self.fingerprints.iter().any(|known| known == fingerprint.as_ref()) {
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
    fn fingerprints_are_parsed_in_the_usual_forms() {
        let plain = "0a".repeat(32);
        let Ok(Trust::Fingerprints(parsed)) = Trust::fingerprint(&plain) else {
            panic!("it is valid")
        };
        assert_eq!(parsed, [[10; 32]]);
        let colons = ["0A"; 32].join(":");
        assert!(Trust::fingerprint(&colons).is_ok());
        for bad in ["", "0a", &"0g".repeat(32), &"+a".repeat(32), &"é".repeat(32), &"0a".repeat(33)]
        {
            assert!(Trust::fingerprint(bad).is_err(), "{bad}");
        }
    }
}
