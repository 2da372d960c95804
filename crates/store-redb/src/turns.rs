//! Replay protection: the last turn of each session that its client carries.
//!
//! Entries are forgotten when no token of their session can be used any more: a few with each one
//! that is written, so that nobody has to sweep.

use mcp_flow_session::store::LastTurn;
use mcp_flow_session::{SessionId, StoreError};
use redb::{
    Database, ReadableDatabase, ReadableTable, ReadableTableMetadata, TableDefinition, TableError,
    WriteTransaction,
};

use crate::database::Shelf;
use crate::error::failed;

/// The last turn of a session, and until when its tokens can be used.
const TURNS: TableDefinition<'_, u128, (u64, u64)> = TableDefinition::new("turns");

/// The same by time.
const TURN_DEADLINES: TableDefinition<'_, (u64, u128), ()> = TableDefinition::new("turn_deadlines");

/// Reads the last turn of a session.
pub(crate) fn last(shelf: &Shelf, id: SessionId) -> Result<Option<u64>, StoreError> {
    let found = shelf.with(|database| find(database, id)).map_err(failed)?;
    Ok(found.map(|(turn, _)| turn))
}

/// Returns whether a turn was written.
pub(crate) fn is_kept(database: &Database, turn: &LastTurn) -> Result<bool, redb::Error> {
    Ok(find(database, turn.id)? == Some((turn.turn, turn.until.as_millis())))
}

/// Writes the last turn of a session, and forgets some whose time is over.
pub(crate) fn keep(transaction: &WriteTransaction, turn: &LastTurn) -> Result<(), redb::Error> {
    let mut turns = transaction.open_table(TURNS)?;
    let mut deadlines = transaction.open_table(TURN_DEADLINES)?;
    let (id, until) = (turn.id.bits(), turn.until.as_millis());
    let before = turns.insert(id, (turn.turn, until))?.map(|before| before.value().1);
    if let Some(before) = before {
        deadlines.remove((before, id))?;
    }
    deadlines.insert((until, id), ())?;
    for _ in 0..MOST_FORGOTTEN {
        let first = deadlines.first()?.map(|(key, _)| key.value());
        let Some((due, id)) = first else { break };
        if due > turn.at.as_millis() && turns.len()? <= MOST_TURNS {
            break;
        }
        deadlines.remove((due, id))?;
        turns.remove(id)?;
    }
    Ok(())
}

fn find(database: &Database, id: SessionId) -> Result<Option<(u64, u64)>, redb::Error> {
    match database.begin_read()?.open_table(TURNS) {
        Ok(turns) => Ok(turns.get(id.bits())?.map(|found| found.value())),
        // Made when the first turn is written.
        Err(TableError::TableDoesNotExist(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Number of entries removed at once.
const MOST_FORGOTTEN: usize = 8;

/// Limit on entries; past it those that expire soonest are removed.
const MOST_TURNS: u64 = 1_000_000;
