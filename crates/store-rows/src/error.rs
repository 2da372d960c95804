//! Errors of opening a store.

use std::error::Error;
use std::io;
use std::path::PathBuf;

use mcp_flow_seal::BadKeys;
use mcp_flow_seal::file::KeyFileError;

/// Reason a store cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreOpenError {
    /// Another process has it open.
    #[error("the store is open in another process; stop that process first, or use another file")]
    InUse,
    /// It is encrypted with other keys.
    #[error(
        "the store is encrypted with another key; put the right key file next to it, or set {}",
        crate::keys::VARIABLE
    )]
    WrongKey,
    /// The store exists, but its key file is missing.
    #[error(
        "the key file {} of the store is missing; restore it, set {}, or remove the store to create \
         a new one",
        .0.display(), crate::keys::VARIABLE
    )]
    MissingKey(PathBuf),
    /// It was written by a newer version, or is no store.
    #[error(
        "the store has format {found}, but this version supports only format {known}; use a newer \
         version"
    )]
    Format {
        /// Format of the store.
        found: u32,
        /// Format of this program.
        known: u32,
    },
    /// The key file cannot be used.
    #[error(transparent)]
    KeyFile(#[from] KeyFileError),
    /// The environment variable has no valid keys.
    #[error("{variable} cannot be used: {0}", variable = crate::keys::VARIABLE)]
    Keys(BadKeys),
    /// The operating system returned no random bytes.
    #[error("cannot create a key: the operating system returned no random bytes")]
    NoRandomness,
    /// The file or its directory cannot be read or written.
    #[error("the store cannot be opened")]
    Io(#[source] io::Error),
    /// The store cannot be used as it is; the text says why, and what to do.
    #[error("{0}")]
    Unusable(String),
    /// The server of the store cannot be reached now.
    #[error("the store cannot be reached: {0}")]
    Unreachable(String),
    /// The file is damaged, or is not a database.
    #[error(
        "the store is damaged, or the file is not a store; restore it from a backup, or move it away \
         with its key file to create a new one"
    )]
    Damaged(#[source] Box<dyn Error + Send + Sync>),
}
