//! One certificate for all servers, which all clients trust.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::Context;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use tokio_rustls::rustls::{
    ClientConfig, RootCertStore, SupportedProtocolVersion, crypto::ring, pki_types::CertificateDer,
    pki_types::pem::PemObject,
};

/// A certificate and its key, each in a file.
pub(super) struct Identity {
    certificate: PathBuf,
    key: PathBuf,
}

impl Identity {
    /// Creates a certificate in a folder.
    pub(super) fn make(folder: &Path) -> anyhow::Result<Self> {
        let names = ["localhost", "127.0.0.1"].map(str::to_owned);
        let CertifiedKey { cert, signing_key } = generate_simple_self_signed(names)?;
        let this =
            Self { certificate: folder.join("certificate.pem"), key: folder.join("key.pem") };
        fs::write(&this.certificate, cert.pem())?;
        fs::write(&this.key, signing_key.serialize_pem())?;
        Ok(this)
    }

    /// Uses a certificate that another process created.
    pub(super) fn of_server(certificate: PathBuf) -> Self {
        Self { certificate, key: PathBuf::new() }
    }

    pub(super) fn certificate(&self) -> anyhow::Result<&str> {
        self.certificate.to_str().context("a path is no text")
    }

    pub(super) fn key(&self) -> anyhow::Result<&str> {
        self.key.to_str().context("a path is no text")
    }

    /// Returns the settings of a client that trusts only this certificate.
    pub(super) fn client(
        &self,
        versions: &[&'static SupportedProtocolVersion],
    ) -> anyhow::Result<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(&self.certificate)?)?;
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        Ok(builder
            .with_protocol_versions(versions)?
            .with_root_certificates(roots)
            .with_no_client_auth())
    }
}
