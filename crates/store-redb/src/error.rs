//! Errors of opening and using the database.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use mcp_flow_seal::BadKeys;
use mcp_flow_seal::file::KeyFileError;
use mcp_flow_session::store::StoreError;
use redb::{DatabaseError, StorageError};

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
    #[error("the store has format {found}, but this version supports only format {known}")]
    Format {
        /// Format of the file.
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
    /// The file is damaged, or is not a database.
    #[error(
        "the store is damaged, or the file is not a store; restore it from a backup, or move it away \
         with its key file to create a new one"
    )]
    Damaged(#[source] redb::Error),
}

impl From<DatabaseError> for StoreOpenError {
    fn from(error: DatabaseError) -> Self {
        match error {
            DatabaseError::DatabaseAlreadyOpen => Self::InUse,
            DatabaseError::Storage(StorageError::Io(error)) => redb::Error::Io(error).into(),
            other => Self::Damaged(other.into()),
        }
    }
}

impl From<redb::Error> for StoreOpenError {
    fn from(error: redb::Error) -> Self {
        match error {
            redb::Error::DatabaseAlreadyOpen => Self::InUse,
            // The disk works, but the content of the file is invalid.
            redb::Error::Io(error) if is_invalid_content(&error) => {
                Self::Damaged(redb::Error::Io(error))
            }
            redb::Error::Io(error) => Self::Io(error),
            other => Self::Damaged(other),
        }
    }
}

fn is_invalid_content(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof)
}

/// Runs work on the database and turns a panic into an error; see [`catch_panic`].
pub(crate) fn guarded<T, E: From<redb::Error>>(
    work: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    catch_panic(work).unwrap_or_else(|panic| Err(panic.into()))
}

/// Catches a panic of redb: it checks its invariants with assertions, which a file damaged from
/// outside breaks. The database may be inconsistent in memory then and has to be reopened.
pub(crate) fn catch_panic<T>(work: impl FnOnce() -> T) -> Result<T, redb::Error> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        redb::Error::Corrupted(text.unwrap_or("an assertion failed").to_owned())
    })
}

/// Converts an error of the database to one of the store.
pub(crate) fn store_error(error: redb::Error) -> StoreError {
    match &error {
        redb::Error::Io(cause) if is_full(cause) => StoreError::Full,
        _ => StoreError::Backend(Box::new(error)),
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
