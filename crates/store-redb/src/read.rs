//! Reading: journals, lists, numbers, and what is due.

use mcp_flow_seal::KeyRing;
use mcp_flow_session::store::{Census, Filter, Listed, Page, Phase, Summary};
use mcp_flow_session::{Event, SessionId, StoreError, Timestamp};
use redb::{Database, ReadOnlyTable, ReadableDatabase, ReadableTableMetadata};

use crate::database::Shelf;
use crate::error::failed;
use crate::row::{self, Head};
use crate::tables::{DEADLINES, ENDED, JOURNAL, OWNERS, RowKey, WORKING};

type Journal = ReadOnlyTable<RowKey, &'static [u8]>;

/// The events of a session.
pub(crate) fn journal(shelf: &Shelf, id: SessionId) -> Result<Vec<Event>, StoreError> {
    let rows = shelf.with(|database| rows(database, id.bits())).map_err(failed)?;
    let mut events = Vec::new();
    for (position, value) in rows {
        // A row that is missing, or from another time, shows in the numbers.
        if usize::try_from(position) != Ok(events.len()) {
            return Err(StoreError::Damaged(id));
        }
        let (head, opened) = row::open(id, position, &value, &shelf.keys)?;
        events.extend(opened.events);
        if usize::try_from(head.length) != Ok(events.len()) {
            return Err(StoreError::Damaged(id));
        }
    }
    Ok(events)
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

/// One page of a list. A session that cannot be opened, perhaps for want of an old key, is left out:
/// it must not keep anyone from the others.
pub(crate) fn list(shelf: &Shelf, filter: &Filter, page: Page) -> Result<Vec<Listed>, StoreError> {
    shelf.with(|database| find(database, &shelf.keys, filter, page)).map_err(failed)
}

fn find(
    database: &Database,
    keys: &KeyRing,
    filter: &Filter,
    page: Page,
) -> Result<Vec<Listed>, redb::Error> {
    let reading = database.begin_read()?;
    let journal = reading.open_table(JOURNAL)?;
    let mut found = Vec::new();
    let mut visit = |id: u128| -> Result<bool, redb::Error> {
        if let Some(last) = last(&journal, id)?
            && filter.phase.covers(last.state)
            && let Some(first) = journal.get((id, 0))?
        {
            match listed(SessionId::from_random(id), first.value(), &last, keys) {
                Ok(listed) => found.push(listed),
                Err(error) => tracing::error!(%error, "a session cannot be listed"),
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
        let hash = row::hash(owner);
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

fn listed(id: SessionId, first: &[u8], last: &Head, keys: &KeyRing) -> Result<Listed, StoreError> {
    let (_, opened) = row::open(id, 0, first, keys)?;
    let born = opened.summary.ok_or(StoreError::Damaged(id))?;
    let summary = Summary {
        state: last.state,
        touched: Timestamp::from_millis(last.touched),
        deadline: last.deadline.map(Timestamp::from_millis),
        ..born
    };
    Ok(Listed { id, summary })
}

/// How many sessions there are. The tables know how long they are, however long that is.
pub(crate) fn census(shelf: &Shelf) -> Result<Census, StoreError> {
    let count = |database: &Database| -> Result<Census, redb::Error> {
        let reading = database.begin_read()?;
        let all = reading.open_table(OWNERS)?.len()?;
        let working = reading.open_table(WORKING)?.len()?;
        let ended = reading.open_table(ENDED)?.len()?;
        Ok(Census::of(all, working, ended))
    };
    shelf.with(count).map_err(failed)
}

/// Sessions that are due, and those that only seemed to be.
pub(crate) struct Due {
    pub(crate) due: Vec<SessionId>,
    /// Under which time they stand, though theirs is another.
    pub(crate) early: Vec<(u64, SessionId)>,
}

pub(crate) fn due(shelf: &Shelf, time: Timestamp, most: usize) -> Result<Due, StoreError> {
    let time = time.as_millis();
    let find = |database: &Database| -> Result<Due, redb::Error> {
        let reading = database.begin_read()?;
        let journal = reading.open_table(JOURNAL)?;
        let mut found = Due { due: Vec::new(), early: Vec::new() };
        for entry in reading.open_table(DEADLINES)?.range(..=(time, u128::MAX))? {
            let (indexed, id) = entry?.0.value();
            let deadline = last(&journal, id)?.and_then(|head| head.deadline);
            if deadline == Some(indexed) {
                found.due.push(SessionId::from_random(id));
            } else {
                found.early.push((indexed, SessionId::from_random(id)));
            }
            if found.due.len() == most || found.early.len() == MOST_MOVED {
                break;
            }
        }
        Ok(found)
    };
    shelf.with(find).map_err(failed)
}

fn last(journal: &Journal, id: u128) -> Result<Option<Head>, redb::Error> {
    let Some(row) = journal.range((id, 0)..=(id, u32::MAX))?.next_back() else { return Ok(None) };
    Ok(Head::split(row?.1.value()).map(|(head, _)| head))
}

/// How many sessions are put under another time at once.
const MOST_MOVED: usize = 1024;
