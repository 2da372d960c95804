//! Reads: journals, lists, counts and due sessions.

use std::path::{Path, PathBuf};

use mcp_flow_seal::KeyRing;
use mcp_flow_session::store::{Census, Filter, Head, Listed, PageRequest, Phase};
use mcp_flow_session::{Epoch, SessionId, State, Timestamp};
use mcp_flow_store_rows::read_summary;
use mcp_flow_store_rows::row::hash;
use parking_lot::Mutex;
use rusqlite::{Connection, OptionalExtension, params};

use crate::schema::connect;
use crate::{condition, key, millis, session_id};

/// Connections for reading. There are as many as were used at once.
pub(crate) struct Readers {
    path: PathBuf,
    idle: Mutex<Vec<Connection>>,
}

impl Readers {
    pub(crate) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), idle: Mutex::default() }
    }

    /// Reads on an idle connection, or a new one. After a failure it is closed.
    pub(crate) fn with<T>(
        &self,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        let idle = self.idle.lock().pop();
        let connection = match idle {
            Some(connection) => connection,
            None => connect(&self.path, false)?,
        };
        let done = read(&connection)?;
        let mut idle = self.idle.lock();
        if idle.len() < IDLE_LIMIT {
            idle.push(connection);
        }
        Ok(done)
    }
}

/// Reads the rows of a session with their positions, oldest first.
pub(crate) fn rows(
    connection: &Connection,
    id: SessionId,
) -> rusqlite::Result<Vec<(u32, Vec<u8>)>> {
    // One snapshot: another process may replace the rows meanwhile.
    let reading = connection.unchecked_transaction()?;
    let last = "SELECT last FROM session WHERE id = ?1";
    let last = reading.prepare_cached(last)?.query_row([key(id)], |row| row.get(0)).optional()?;
    let row = "SELECT previous, position, value FROM journal WHERE row = ?1";
    let mut row = reading.prepare_cached(row)?;
    let mut rows = Vec::new();
    let mut next: Option<i64> = last;
    while let Some(number) = next {
        let found = row.query_row([number], |row| {
            Ok((row.get::<_, Option<i64>>(0)?, row.get::<_, u32>(1)?, row.get::<_, Vec<u8>>(2)?))
        });
        let (previous, position, value) = found?;
        rows.push((position, value));
        // Rows are linked backwards, so a damaged file cannot make this go round in circles.
        next = previous.filter(|previous| *previous < number);
    }
    rows.reverse();
    Ok(rows)
}

/// Reads the head of a session.
pub(crate) fn head(connection: &Connection, id: SessionId) -> rusqlite::Result<Option<Head>> {
    let head = "SELECT length, state, holder FROM session WHERE id = ?1";
    let head = connection.prepare_cached(head)?.query_row([key(id)], |row| {
        let state: usize = row.get(1)?;
        Ok(Head {
            length: row.get(0)?,
            is_ended: State::ALL.get(state).is_some_and(|state| state.is_final()),
            holder: row.get::<_, Option<u64>>(2)?.map(Epoch::new),
        })
    });
    head.optional()
}

/// Reads one page of a list. A session that cannot be decrypted, perhaps because an old key was
/// dropped or a newer version wrote it, is skipped.
pub(crate) fn list(
    connection: &Connection,
    keys: &KeyRing,
    filter: &Filter,
    page: PageRequest,
) -> rusqlite::Result<Vec<Listed>> {
    let mut found = Vec::new();
    let after = match page.after.map(SessionId::bits) {
        None => 0,
        Some(u128::MAX) => return Ok(found),
        Some(id) => id + 1,
    };
    if page.most == 0 {
        return Ok(found);
    }
    let (phase, owner) = (condition(filter.phase), filter.owner.as_ref().map(hash));
    let by_owner = if owner.is_some() { "owner = ?2" } else { "?2 IS NULL" };
    let query = format!(
        "SELECT id, first.value, last.position, last.value FROM session \
         JOIN journal first ON first.row = session.first \
         JOIN journal last ON last.row = session.last \
         WHERE {phase} AND {by_owner} AND id >= ?1 ORDER BY id"
    );
    let mut query = connection.prepare_cached(&query)?;
    let mut rows = query.query(params![after.to_be_bytes(), owner])?;
    while let Some(row) = rows.next()? {
        let id = session_id(row.get(0)?);
        let first = row.get_ref(1)?.as_blob()?;
        let last = (row.get(2)?, row.get_ref(3)?.as_blob()?);
        match read_summary(id, first, last, keys) {
            Ok(listed) => found.push(listed),
            Err(error) => tracing::error!(%error, "cannot list a session"),
        }
        if found.len() == page.most {
            break;
        }
    }
    Ok(found)
}

/// Counts sessions by phase.
pub(crate) fn census(connection: &Connection) -> rusqlite::Result<Census> {
    let count = |phase| -> rusqlite::Result<u64> {
        let count = format!("SELECT count(*) FROM session WHERE {}", condition(phase));
        connection.prepare_cached(&count)?.query_row([], |row| row.get(0))
    };
    Ok(Census::of(count(Phase::Any)?, count(Phase::Working)?, count(Phase::Ended)?))
}

/// Sessions that are due, and those whose index entry is too early.
pub(crate) struct Due {
    pub(crate) due: Vec<SessionId>,
    pub(crate) early: Vec<SessionId>,
}

pub(crate) fn due(connection: &Connection, time: Timestamp, most: usize) -> rusqlite::Result<Due> {
    let mut found = Due { due: Vec::new(), early: Vec::new() };
    let query = "SELECT id, deadline IS due FROM session WHERE due <= ?1 ORDER BY due, id";
    let mut query = connection.prepare_cached(query)?;
    let mut rows = query.query([millis(time.as_millis())])?;
    while let Some(row) = rows.next()? {
        let id = session_id(row.get(0)?);
        if row.get(1)? {
            found.due.push(id);
        } else {
            found.early.push(id);
        }
        if found.due.len() == most || found.early.len() == REINDEX_LIMIT {
            break;
        }
    }
    Ok(found)
}

/// Index entries moved at once.
const REINDEX_LIMIT: usize = 1024;

/// Idle connections that are kept.
const IDLE_LIMIT: usize = 8;
