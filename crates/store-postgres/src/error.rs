//! Errors of the server.

use std::error::Error;

use mcp_flow_session::StoreError;
use mcp_flow_store_rows::StoreOpenError;
use tokio_postgres::error::SqlState;

/// Converts an error of the server to one of the store.
pub(crate) fn store_error(error: tokio_postgres::Error) -> StoreError {
    match error.code() {
        Some(&SqlState::DISK_FULL) => StoreError::Full,
        Some(code) if is_temporary(code) => StoreError::Unavailable(describe(&error)),
        Some(_) => StoreError::Backend(Box::new(error)),
        None => StoreError::Unavailable(describe(&error)),
    }
}

/// Converts an error of connecting.
pub(crate) fn open_error(error: &tokio_postgres::Error) -> StoreOpenError {
    let text = describe(error);
    match error.code() {
        Some(&SqlState::INVALID_PASSWORD) => StoreOpenError::Unusable(format!(
            "{text}; check user and password: postgres://USER:PASSWORD@HOST/DB"
        )),
        Some(&SqlState::INVALID_AUTHORIZATION_SPECIFICATION) => StoreOpenError::Unusable(format!(
            "the server does not admit this connection: {text}; check the user, pg_hba.conf and \
             ?sslmode="
        )),
        Some(&SqlState::INVALID_CATALOG_NAME) => {
            StoreOpenError::Unusable(format!("{text}; create it with `createdb`"))
        }
        Some(&SqlState::INSUFFICIENT_PRIVILEGE) => StoreOpenError::Unusable(format!(
            "{text}; grant the role CREATE on the schema once, then SELECT, INSERT, UPDATE and \
             DELETE on the tables mcp_flow_*"
        )),
        Some(&SqlState::READ_ONLY_SQL_TRANSACTION) => StoreOpenError::Unusable(
            "the server is a read-only replica; connect to the primary, or name several hosts with \
             ?target_session_attrs=read-write"
                .to_owned(),
        ),
        _ if text.contains("does not support TLS") => StoreOpenError::Unusable(format!(
            "{text}; switch it on at the server, or use ?sslmode=disable on a trusted network"
        )),
        None if text.contains("password missing") => StoreOpenError::Unusable(
            "the server asks for a password, and the URL has none: postgres://USER:PASSWORD@HOST/DB"
                .to_owned(),
        ),
        Some(code) if !is_temporary(code) => StoreOpenError::Unusable(text),
        _ => StoreOpenError::Unreachable(text),
    }
}

/// Returns whether a connection pooler refused the options of the connection.
pub(crate) fn is_unsupported_option(error: &tokio_postgres::Error) -> bool {
    error
        .as_db_error()
        .is_some_and(|error| error.message().contains("unsupported startup parameter"))
}

/// Returns whether trying again may help: the server starts, stops, is busy or a connection broke.
fn is_temporary(code: &SqlState) -> bool {
    let class = code.code().get(..2).unwrap_or_default();
    matches!(class, "08" | "40" | "53" | "57" | "55")
}

/// Text of an error with its causes.
pub(crate) fn describe(error: &tokio_postgres::Error) -> String {
    if let Some(error) = error.as_db_error() {
        return error.message().to_owned();
    }
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
