//! Parts that durable stores share: sealed rows of journals ([`row`]), sealed messages and records
//! of nodes, their keys ([`keys`]), and the errors of opening a store.
//!
//! A row is one append: a plain header, so that stores can list and expire sessions without
//! decrypting, and the sealed events.

mod error;
pub mod keys;
pub mod row;
mod sealed;

use std::fs::DirBuilder;
use std::path::Path;

use mcp_flow_seal::{KeyRing, Seal};

pub use error::StoreOpenError;
pub use row::{JournalRow, OwnerHash, RowHeader, read_events, read_summary};
pub use sealed::{open_message, open_record, seal_message, seal_record};

/// Creates the directory of a file, for its owner only; on Windows with the permissions of the one it is in.
pub fn create_directory(path: &Path) -> Result<(), StoreOpenError> {
    let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) else {
        return Ok(());
    };
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder).map_err(StoreOpenError::Io)
}

/// Seals a known text, which is stored to [check](check_keys) the keys of a store.
pub fn seal_check(keys: &KeyRing) -> Result<Vec<u8>, StoreOpenError> {
    let mut random = [0; 24];
    getrandom::fill(&mut random).map_err(|_| StoreOpenError::NoRandomness)?;
    Ok(keys.seal_bytes(CHECK, None, KNOWN, random))
}

/// Checks the keys of a store with what [`seal_check`] returned.
pub fn check_keys(keys: &KeyRing, sealed: &[u8]) -> Result<(), StoreOpenError> {
    keys.open_bytes(CHECK, 0, sealed).map(drop).map_err(|_| StoreOpenError::WrongKey)
}

const CHECK: Seal<'static> = Seal { purpose: "journal", bound_to: b"" };
const KNOWN: &[u8] = b"the keys are right";
