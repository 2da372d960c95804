//! Errors of the database.

use mcp_flow_session::StoreError;
use mcp_flow_store_rows::StoreOpenError;
use rusqlite::ErrorCode;

/// Converts an error of the database to one of the store.
pub(crate) fn store_error(error: rusqlite::Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::Full,
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            StoreError::Unavailable(LOCKED.to_owned())
        }
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            tracing::error!(%error, "the file of the store is damaged; restore it from a backup");
            StoreError::Unavailable("its file is damaged".to_owned())
        }
        _ => StoreError::Backend(Box::new(error)),
    }
}

/// Converts an error of opening the database.
pub(crate) fn open_error(error: rusqlite::Error) -> StoreOpenError {
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
            StoreOpenError::Damaged(Box::new(error))
        }
        Some(ErrorCode::DiskFull) => StoreOpenError::Io(std::io::ErrorKind::StorageFull.into()),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreOpenError::InUse,
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
            StoreOpenError::Io(std::io::ErrorKind::PermissionDenied.into())
        }
        _ => StoreOpenError::Io(std::io::Error::other(error)),
    }
}

/// Reason a write did not get its turn.
pub(crate) const LOCKED: &str = "another process keeps the store locked";
