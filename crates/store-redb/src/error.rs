//! Errors of opening and using the database.

use std::cell::Cell;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use mcp_flow_session::store::StoreError;
use mcp_flow_store_rows::StoreOpenError;
use redb::{DatabaseError, StorageError};

/// Converts an error of opening the database.
pub(crate) fn open_error(error: redb::Error) -> StoreOpenError {
    match error {
        redb::Error::DatabaseAlreadyOpen => StoreOpenError::InUse,
        // The disk works, but the content of the file is invalid.
        redb::Error::Io(error) if is_invalid_content(&error) => {
            StoreOpenError::Damaged(Box::new(redb::Error::Io(error)))
        }
        redb::Error::Io(error) => StoreOpenError::Io(error),
        other => StoreOpenError::Damaged(Box::new(other)),
    }
}

/// Converts an error of opening the file.
pub(crate) fn file_error(error: DatabaseError) -> StoreOpenError {
    open_error(match error {
        DatabaseError::DatabaseAlreadyOpen => redb::Error::DatabaseAlreadyOpen,
        DatabaseError::Storage(StorageError::Io(error)) => redb::Error::Io(error),
        other => other.into(),
    })
}

fn is_invalid_content(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof)
}

/// Runs work on the database and turns a panic into an error; see [`catch_panic`].
pub(crate) fn guarded<T>(
    work: impl FnOnce() -> Result<T, StoreOpenError>,
) -> Result<T, StoreOpenError> {
    catch_panic(work).unwrap_or_else(|panic| Err(open_error(panic)))
}

/// Catches a panic of redb: it checks its invariants with assertions, which a file damaged from
/// outside breaks. The database may be inconsistent in memory then and has to be reopened.
pub(crate) fn catch_panic<T>(work: impl FnOnce() -> T) -> Result<T, redb::Error> {
    let outer = IS_CAUGHT.replace(true);
    let done = catch_unwind(AssertUnwindSafe(work));
    IS_CAUGHT.set(outer);
    done.map_err(|panic| {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        redb::Error::Corrupted(text.unwrap_or("an assertion failed").to_owned())
    })
}

/// Returns whether a panic of this thread is turned into an error of the store. A panic hook need not
/// report it then.
pub fn is_panic_caught() -> bool {
    IS_CAUGHT.get()
}

thread_local! {
    static IS_CAUGHT: Cell<bool> = const { Cell::new(false) };
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
