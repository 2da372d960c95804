//! Reads: journals, lists, counts and due sessions.

use mcp_flow_seal::KeyRing;
use mcp_flow_session::store::{Census, Filter, Listed, PageRequest, Phase};
use mcp_flow_session::{JournalEvent, SessionId, StoreError, Timestamp};
use mcp_flow_store_rows::row::hash;
use mcp_flow_store_rows::{RowHeader, read_events, read_summary};
use redb::{Database, ReadOnlyTable, ReadableDatabase, ReadableTableMetadata};

use crate::database::JournalDatabase;
use crate::error::store_error;
use crate::tables::{DEADLINES, ENDED, JOURNAL, OWNERS, RowKey, WORKING};

type Journal = ReadOnlyTable<RowKey, &'static [u8]>;

/// Reads the events of a session.
pub(crate) fn journal(
    journals: &JournalDatabase,
    id: SessionId,
) -> Result<Vec<JournalEvent>, StoreError> {
    let rows = journals.with(|database| rows(database, id.bits())).map_err(store_error)?;
    read_events(id, rows, &journals.keys)
}

fn rows(database: &Database, id: u128) -> Result<Vec<(u32, Vec<u8>)>, redb::Error> {
    let journal = database.begin_read()?.open_table(JOURNAL)?;
    let mut rows = Vec::new();
    for row in journal.range((id, 0)..=(id, u32::MAX))? {
        let (key, value) = row?;
        rows.push((key.value().1, value.value().to_vec()));
    }
    Ok(rows)
}

/// Reads one page of a list. A session that cannot be decrypted, perhaps because an old key was
/// dropped, is skipped.
pub(crate) fn list(
    journals: &JournalDatabase,
    filter: &Filter,
    page: PageRequest,
) -> Result<Vec<Listed>, StoreError> {
    journals.with(|database| find(database, &journals.keys, filter, page)).map_err(store_error)
}

fn find(
    database: &Database,
    keys: &KeyRing,
    filter: &Filter,
    page: PageRequest,
) -> Result<Vec<Listed>, redb::Error> {
    let reading = database.begin_read()?;
    let journal = reading.open_table(JOURNAL)?;
    let mut found = Vec::new();
    let mut visit = |id: u128| -> Result<bool, redb::Error> {
        let last = journal.range((id, 0)..=(id, u32::MAX))?.next_back().transpose()?;
        if let Some((key, last)) = last
            && RowHeader::split(last.value())
                .is_some_and(|(last, _)| filter.phase.covers(last.state))
            && let Some(first) = journal.get((id, 0))?
        {
            let last = (key.value().1, last.value());
            match read_summary(SessionId::from_random(id), first.value(), last, keys) {
                Ok(listed) => found.push(listed),
                Err(error) => tracing::error!(%error, "cannot list a session"),
            }
        }
        Ok(found.len() < page.most)
    };
    let after = match page.after.map(SessionId::bits) {
        None => 0,
        Some(u128::MAX) => return Ok(found),
        Some(id) => id + 1,
    };
    if page.most == 0 {
        return Ok(found);
    }
    if let Some(owner) = &filter.owner {
        let hash = hash(owner);
        for entry in reading.open_table(OWNERS)?.range((hash, after)..=(hash, u128::MAX))? {
            if !visit(entry?.0.value().1)? {
                break;
            }
        }
    } else if filter.phase == Phase::Working {
        for entry in reading.open_table(WORKING)?.range(after..)? {
            if !visit(entry?.0.value())? {
                break;
            }
        }
    } else {
        let mut next = after;
        while let Some(row) = journal.range((next, 0)..)?.next() {
            let id = row?.0.value().0;
            let more = visit(id)?;
            match id.checked_add(1) {
                Some(after) if more => next = after,
                _ => break,
            }
        }
    }
    Ok(found)
}

/// Counts sessions by the lengths of the tables, which takes constant time.
pub(crate) fn census(journals: &JournalDatabase) -> Result<Census, StoreError> {
    let count = |database: &Database| -> Result<Census, redb::Error> {
        let reading = database.begin_read()?;
        let all = reading.open_table(OWNERS)?.len()?;
        let working = reading.open_table(WORKING)?.len()?;
        let ended = reading.open_table(ENDED)?.len()?;
        Ok(Census::of(all, working, ended))
    };
    journals.with(count).map_err(store_error)
}

/// Sessions that are due, and index entries that are too early.
pub(crate) struct Due {
    pub(crate) due: Vec<SessionId>,
    /// Times of the early entries, and their sessions.
    pub(crate) early: Vec<(u64, SessionId)>,
}

pub(crate) fn due(
    journals: &JournalDatabase,
    time: Timestamp,
    most: usize,
) -> Result<Due, StoreError> {
    let time = time.as_millis();
    let find = |database: &Database| -> Result<Due, redb::Error> {
        let reading = database.begin_read()?;
        let journal = reading.open_table(JOURNAL)?;
        let mut found = Due { due: Vec::new(), early: Vec::new() };
        for entry in reading.open_table(DEADLINES)?.range(..=(time, u128::MAX))? {
            let (indexed, id) = entry?.0.value();
            let deadline = last(&journal, id)?.and_then(|header| header.deadline);
            if deadline == Some(indexed) {
                found.due.push(SessionId::from_random(id));
            } else {
                found.early.push((indexed, SessionId::from_random(id)));
            }
            if found.due.len() == most || found.early.len() == REINDEX_LIMIT {
                break;
            }
        }
        Ok(found)
    };
    journals.with(find).map_err(store_error)
}

fn last(journal: &Journal, id: u128) -> Result<Option<RowHeader>, redb::Error> {
    let Some(row) = journal.range((id, 0)..=(id, u32::MAX))?.next_back() else { return Ok(None) };
    Ok(RowHeader::split(row?.1.value()).map(|(header, _)| header))
}

/// Index entries moved at once.
const REINDEX_LIMIT: usize = 1024;
