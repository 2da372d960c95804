//! The keys journals are sealed with.
//!
//! They are in the environment variable [`VARIABLE`], or else in a file beside the journal, which
//! is made on first use and readable by its owner only. To change the key, put a new one in front
//! of the old ones, or use `mcp_flow_seal::file::rotate`: what was sealed before is still read,
//! and an old key can go when the sessions of its time are over.

use std::path::{Path, PathBuf};

use mcp_flow_seal::{Key, KeyRing, file};

use crate::error::OpenError;

/// The environment variable that has the keys, the current one first, as in a key file.
pub const VARIABLE: &str = "MCP_FLOW_STORE_KEY";

/// Finds the keys of a journal, or makes them if there is no journal yet.
pub fn find(journal: &Path) -> Result<KeyRing, OpenError> {
    match std::env::var(VARIABLE) {
        Ok(text) => text.parse().map_err(OpenError::Keys),
        Err(_) => beside(journal),
    }
}

/// The key file of a journal.
pub fn path(journal: &Path) -> PathBuf {
    journal.with_extension("key")
}

fn beside(journal: &Path) -> Result<KeyRing, OpenError> {
    let path = path(journal);
    if path.exists() {
        return Ok(file::load(&path)?);
    }
    // A new key would only say that the journal has another one.
    if std::fs::metadata(journal).is_ok_and(|journal| journal.len() > 0) {
        return Err(OpenError::MissingKey(path));
    }
    crate::create::folder(journal)?;
    let mut secret = [0; Key::LENGTH];
    getrandom::fill(&mut secret).map_err(|_| OpenError::NoRandomness)?;
    Ok(file::load_or_create(&path, Key::from_bytes(secret))?)
}
