//! Writes to journals.

use mcp_flow_session::store::Fence;
use mcp_flow_session::{Epoch, SessionId, State, StoreError};
use mcp_flow_store_rows::JournalRow;
use mcp_flow_store_rows::row::state_number;
use rusqlite::{Connection, OptionalExtension, params};

use crate::{key, millis};

type Written<T> = rusqlite::Result<Result<T, StoreError>>;

/// Head of a session before an append.
struct CurrentHead {
    length: u32,
    state: u8,
    due: Option<i64>,
    holder: Option<u64>,
    last: i64,
}

/// Appends a row, if the journal has the expected length and the fence permits it.
pub(crate) fn append(writing: &Connection, row: &JournalRow, fence: &Fence) -> Written<()> {
    let id = key(row.id);
    let head = "SELECT length, state, due, holder, last FROM session WHERE id = ?1";
    let head = writing
        .prepare_cached(head)?
        .query_row([&id], |row| {
            Ok(CurrentHead {
                length: row.get(0)?,
                state: row.get(1)?,
                due: row.get(2)?,
                holder: row.get(3)?,
                last: row.get(4)?,
            })
        })
        .optional()?;
    let length = head.as_ref().map_or(0, |head| head.length);
    let holder = head.as_ref().and_then(|head| head.holder).map(Epoch::new);
    let has_ended = head.as_ref().is_some_and(|head| head.state >= FIRST_FINAL);
    if length != row.expected || has_ended || !fence.permits(holder) {
        return Ok(Err(StoreError::Conflict(row.id)));
    }
    let previous = head.as_ref().filter(|_| !row.replace).map(|head| head.last);
    let insert = "INSERT INTO journal (session, position, previous, node, value) \
                  VALUES (?1, ?2, ?3, ?4, ?5)";
    let value = row.header.join(&row.body);
    let node = fence.by.number();
    writing.prepare_cached(insert)?.execute(params![id, row.position(), previous, node, value])?;
    let last = writing.last_insert_rowid();
    let header = &row.header;
    let state = state_number(header.state);
    let touched = millis(header.touched);
    let deadline = header.deadline.map(millis);
    let due = match (head.as_ref().and_then(|head| head.due), deadline) {
        // Early enough: moved when it comes up.
        (Some(due), Some(deadline)) if due <= deadline => Some(due),
        (_, deadline) => deadline,
    };
    let holder = fence.holder.map(Epoch::number);
    match head {
        None => {
            let insert = "INSERT INTO session (id, length, state, touched, deadline, due, holder, \
                          owner, first, last) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?9)";
            writing.prepare_cached(insert)?.execute(params![
                id,
                header.length,
                state,
                touched,
                deadline,
                due,
                holder,
                row.owner,
                last
            ])?;
        }
        Some(head) => {
            if row.replace {
                remove_rows(writing, head.last)?;
            }
            let update = "UPDATE session SET length = ?2, state = ?3, touched = ?4, deadline = ?5, \
                          due = ?6, holder = ?7, last = ?8, \
                          first = CASE WHEN ?9 THEN ?8 ELSE first END WHERE id = ?1";
            writing.prepare_cached(update)?.execute(params![
                id,
                header.length,
                state,
                touched,
                deadline,
                due,
                holder,
                last,
                row.replace
            ])?;
        }
    }
    Ok(Ok(()))
}

/// Erases a session.
pub(crate) fn erase(writing: &Connection, id: SessionId) -> Written<()> {
    let id = key(id);
    let last = "DELETE FROM session WHERE id = ?1 RETURNING last";
    let last = writing.prepare_cached(last)?.query_row([&id], |row| row.get(0)).optional()?;
    if let Some(last) = last {
        remove_rows(writing, last)?;
    }
    Ok(Ok(()))
}

/// Removes a row and those before it.
fn remove_rows(writing: &Connection, last: i64) -> rusqlite::Result<()> {
    let remove = "DELETE FROM journal WHERE row = ?1 RETURNING previous";
    let mut remove = writing.prepare_cached(remove)?;
    let mut next = Some(last);
    while let Some(row) = next {
        next = remove.query_row([row], |row| row.get(0)).optional()?.flatten();
    }
    Ok(())
}

/// Moves sessions in the index of due ones to their deadlines.
pub(crate) fn reindex(writing: &Connection, early: &[SessionId]) -> Written<()> {
    let mut update = writing.prepare_cached("UPDATE session SET due = deadline WHERE id = ?1")?;
    for id in early {
        update.execute([key(*id)])?;
    }
    Ok(Ok(()))
}

/// Writes this many bytes in place of the probe before.
pub(crate) fn probe(writing: &Connection, size: usize) -> Written<()> {
    let write = "INSERT OR REPLACE INTO meta (name, value) VALUES ('probe', ?1)";
    writing.execute(write, [vec![0_u8; size]])?;
    Ok(Ok(()))
}

/// Number of the first final state in [`State::ALL`].
const FIRST_FINAL: u8 = {
    assert!(State::ALL[4].is_final() && !State::ALL[3].is_final());
    4
};
