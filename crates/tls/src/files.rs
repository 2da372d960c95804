//! Certificates from PEM files.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustls::crypto::ring as provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use crate::TlsError;

/// Paths of a certificate chain and its private key.
pub(crate) struct Files {
    pub(crate) certificates: PathBuf,
    pub(crate) key: PathBuf,
}

/// Modification time and length of each file, to detect changes.
pub(crate) type FileStamps = [(SystemTime, u64); 2];

impl Files {
    /// Returns the stamps of the files, if both exist.
    pub(crate) fn stamps(&self) -> Option<FileStamps> {
        let stamp = |path: &Path| {
            let metadata = fs::metadata(path).ok()?;
            Some((metadata.modified().ok()?, metadata.len()))
        };
        Some([stamp(&self.certificates)?, stamp(&self.key)?])
    }

    pub(crate) fn read(&self) -> Result<CertifiedKey, TlsError> {
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
        Ok(CertifiedKey::from_der(chain, key, &provider::default_provider())?)
    }
}
