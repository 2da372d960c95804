//! Records that processes share beside journals.

use std::time::{SystemTime, UNIX_EPOCH};

use mcp_flow_session::store::{Record, RecordChange};
use mcp_flow_session::{Epoch, StoreError};
use rusqlite::{Connection, OptionalExtension, params};

use crate::millis;

/// Reads the holder and the sealed value of a record.
pub(crate) fn read(connection: &Connection, key: &str) -> rusqlite::Result<Option<Record>> {
    let read = "SELECT holder, value FROM record WHERE key = ?1 AND until > ?2";
    let record = connection.prepare_cached(read)?.query_row(params![key, now()], |row| {
        Ok(Record { holder: Epoch::new(row.get(0)?), value: row.get(1)? })
    });
    record.optional()
}

/// Changes a record, whose value is sealed, if it is held as expected. Returns whether it was.
pub(crate) fn change(
    writing: &Connection,
    change: &RecordChange,
) -> rusqlite::Result<Result<bool, StoreError>> {
    writing.prepare_cached("DELETE FROM record WHERE until <= ?1")?.execute([now()])?;
    let held = read(writing, &change.key)?.map(|record| record.holder);
    if held != change.from {
        return Ok(Ok(false));
    }
    match &change.record {
        Some(Record { holder, value }) => {
            let write = "INSERT OR REPLACE INTO record (key, holder, until, value) \
                         VALUES (?1, ?2, ?3, ?4)";
            let lifetime = u64::try_from(change.lifetime.as_millis()).unwrap_or(u64::MAX);
            let until = now().saturating_add(millis(lifetime));
            let row = params![change.key, holder.number(), until, value];
            writing.prepare_cached(write)?.execute(row)?;
        }
        None => {
            writing.prepare_cached("DELETE FROM record WHERE key = ?1")?.execute([&change.key])?;
        }
    }
    Ok(Ok(true))
}

/// Milliseconds of the wall clock, since records may outlive a boot.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
