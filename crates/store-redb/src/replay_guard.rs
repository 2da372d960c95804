//! Replay protection: the last turn recorded for each client-held session.
//!
//! Each write also removes a few records: expired ones, and past [`LIMIT`] those that
//! [`ReplayGuard`](mcp_flow_session::store::ReplayGuard) evicts first. No task has to do it.

use mcp_flow_session::store::LastTurn;
use mcp_flow_session::{SessionId, StoreError, Timestamp};
use redb::{
    Database, ReadableDatabase, ReadableTable, ReadableTableMetadata, TableDefinition, TableError,
    WriteTransaction,
};

use crate::database::JournalDatabase;
use crate::error::store_error;

/// The last turn of a session, and its eviction key.
const TURNS: TableDefinition<'_, u128, (u64, u64)> = TableDefinition::new("turns");

/// Sessions in the order of their eviction keys.
const TURN_DEADLINES: TableDefinition<'_, (u64, u128), ()> = TableDefinition::new("turn_deadlines");

/// Reads the last turn of a session.
pub(crate) fn last(journals: &JournalDatabase, id: SessionId) -> Result<Option<u64>, StoreError> {
    let found = journals.with(|database| find(database, id)).map_err(store_error)?;
    Ok(found.map(|(turn, _)| turn))
}

/// Reads the last turns of all sessions.
pub(crate) fn all(journals: &JournalDatabase) -> Result<Vec<LastTurn>, StoreError> {
    let read = |database: &Database| -> Result<Vec<LastTurn>, redb::Error> {
        let turns = match database.begin_read()?.open_table(TURNS) {
            Ok(turns) => turns,
            Err(TableError::TableDoesNotExist(_)) => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        };
        let mut all = Vec::new();
        for record in turns.iter()? {
            let (id, record) = record?;
            let (turn, eviction) = record.value();
            let (until, at) = match eviction.checked_sub(LastTurn::NO_DEADLINE) {
                Some(at) => (Timestamp::NEVER, Timestamp::from_millis(at)),
                None => (Timestamp::from_millis(eviction), Timestamp::default()),
            };
            all.push(LastTurn { id: SessionId::from_random(id.value()), turn, until, at });
        }
        Ok(all)
    };
    journals.with(read).map_err(store_error)
}

/// Returns whether a turn was written.
pub(crate) fn is_kept(database: &Database, turn: &LastTurn) -> Result<bool, redb::Error> {
    Ok(find(database, turn.id)? == Some((turn.turn, turn.eviction_key())))
}

/// Writes the last turn of a session, and evicts some records that expired or exceed the limit.
pub(crate) fn keep(transaction: &WriteTransaction, turn: &LastTurn) -> Result<(), redb::Error> {
    keep_within(transaction, turn, LIMIT)
}

fn keep_within(
    transaction: &WriteTransaction,
    turn: &LastTurn,
    limit: u64,
) -> Result<(), redb::Error> {
    let mut turns = transaction.open_table(TURNS)?;
    let mut deadlines = transaction.open_table(TURN_DEADLINES)?;
    let (id, key) = (turn.id.bits(), turn.eviction_key());
    let before = turns.insert(id, (turn.turn, key))?.map(|before| before.value().1);
    if let Some(before) = before {
        deadlines.remove((before, id))?;
    }
    deadlines.insert((key, id), ())?;
    for _ in 0..EVICTED_PER_WRITE {
        let Some(first) = deadlines.first()?.map(|(key, _)| key.value()) else { break };
        let evicted = if first.0 <= turn.at.as_millis() {
            first
        } else if turns.len()? > limit {
            first_without_deadline(&deadlines)?.unwrap_or(first)
        } else {
            break;
        };
        deadlines.remove(evicted)?;
        turns.remove(evicted.1)?;
    }
    Ok(())
}

/// The record without a deadline that was written first.
fn first_without_deadline(
    deadlines: &impl ReadableTable<(u64, u128), ()>,
) -> Result<Option<(u64, u128)>, redb::Error> {
    // Records of earlier versions have no time of writing; they are older than all that have one.
    for from in [u64::MAX, LastTurn::NO_DEADLINE] {
        if let Some(record) = deadlines.range((from, 0)..)?.next() {
            return Ok(Some(record?.0.value()));
        }
    }
    Ok(None)
}

fn find(database: &Database, id: SessionId) -> Result<Option<(u64, u64)>, redb::Error> {
    match database.begin_read()?.open_table(TURNS) {
        Ok(turns) => Ok(turns.get(id.bits())?.map(|found| found.value())),
        // Created when the first turn is written.
        Err(TableError::TableDoesNotExist(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Records removed per write at most.
const EVICTED_PER_WRITE: usize = 8;

/// Limit on records: about 100 MB of the file.
const LIMIT: u64 = 1_000_000;

#[cfg(test)]
mod tests {
    use mcp_flow_session::store::LastTurn;
    use mcp_flow_session::{SessionId, Timestamp};
    use redb::backends::InMemoryBackend;
    use redb::{Builder, Database};

    use super::{TURN_DEADLINES, TURNS, find, keep_within};

    /// C-43: past the limit, sessions without a deadline go first, those idle longest before
    /// others.
    #[test]
    fn records_without_a_deadline_are_evicted_oldest_first() {
        let database = Builder::new().create_with_backend(InMemoryBackend::new()).unwrap();
        // As an earlier version wrote it.
        let writing = database.begin_write().unwrap();
        writing.open_table(TURNS).unwrap().insert(9, (1, u64::MAX)).unwrap();
        writing.open_table(TURN_DEADLINES).unwrap().insert((u64::MAX, 9), ()).unwrap();
        writing.commit().unwrap();
        for (session, until, at) in [(1, None, 1), (2, None, 2), (3, Some(90), 3), (1, None, 4)] {
            keep(&database, session, until, at);
        }
        assert_eq!(kept(&database), [1, 2, 3], "the one of unknown age goes first");
        keep(&database, 4, Some(80), 5);
        assert_eq!(kept(&database), [1, 3, 4], "session 2 was idle longest");
        keep(&database, 5, Some(70), 6);
        assert_eq!(kept(&database), [3, 4, 5], "those with a deadline are protected until it");
        keep(&database, 6, Some(100), 7);
        assert_eq!(kept(&database), [3, 4, 6], "then the one that expires soonest goes");
        keep(&database, 7, Some(200), 95);
        assert_eq!(kept(&database), [6, 7], "expired ones make room");
    }

    fn keep(database: &Database, session: u128, until: Option<u64>, at: u64) {
        let id = SessionId::from_random(session);
        let until = until.map_or(Timestamp::NEVER, Timestamp::from_millis);
        let turn = LastTurn { id, turn: 1, until, at: Timestamp::from_millis(at) };
        let writing = database.begin_write().unwrap();
        keep_within(&writing, &turn, 3).unwrap();
        writing.commit().unwrap();
    }

    fn kept(database: &Database) -> Vec<u128> {
        let is_kept = |id: &u128| find(database, SessionId::from_random(*id)).unwrap().is_some();
        (1..10).filter(is_kept).collect()
    }
}
