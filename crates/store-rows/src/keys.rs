//! Encryption keys of a store.
//!
//! They are in the environment variable [`VARIABLE`], or else in a file next to the store, which is
//! created on first use and readable by its owner only. To rotate the key, put a new one before the
//! old ones, or use `mcp_flow_seal::file::rotate`. Old keys still decrypt; drop one when the
//! sessions of its time have ended.

use std::path::{Path, PathBuf};

use mcp_flow_seal::{Key, KeyRing, file};

use crate::error::StoreOpenError;

/// Environment variable with the keys, current one first, as in a key file.
pub const VARIABLE: &str = "MCP_FLOW_STORE_KEY";

/// Reads the keys of a store in a file, or creates them if there is no store yet.
pub fn find(journal: &Path) -> Result<KeyRing, StoreOpenError> {
    match std::env::var(VARIABLE) {
        Ok(text) => text.parse().map_err(StoreOpenError::Keys),
        Err(_) => load_or_create(journal),
    }
}

/// Returns the path of the key file of a store.
pub fn path(journal: &Path) -> PathBuf {
    journal.with_extension("key")
}

fn load_or_create(journal: &Path) -> Result<KeyRing, StoreOpenError> {
    let path = path(journal);
    if path.exists() {
        return Ok(file::load(&path)?);
    }
    // A new key could not decrypt the store.
    if std::fs::metadata(journal).is_ok_and(|journal| journal.len() > 0) {
        return Err(StoreOpenError::MissingKey(path));
    }
    crate::create_directory(journal)?;
    let mut secret = [0; Key::LENGTH];
    getrandom::fill(&mut secret).map_err(|_| StoreOpenError::NoRandomness)?;
    Ok(file::load_or_create(&path, Key::from_bytes(secret))?)
}
