//! A certificate from PEM files.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustls::crypto::ring as provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use crate::TlsError;

/// Where a certificate chain and its key are.
pub(crate) struct Files {
    pub(crate) certificates: PathBuf,
    pub(crate) key: PathBuf,
}

/// When each file was changed, and how long it is.
pub(crate) type Looks = [(SystemTime, u64); 2];

impl Files {
    /// How the files look, if they are there.
    pub(crate) fn looks(&self) -> Option<Looks> {
        let look = |path: &Path| {
            let metadata = fs::metadata(path).ok()?;
            Some((metadata.modified().ok()?, metadata.len()))
        };
        Some([look(&self.certificates)?, look(&self.key)?])
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
