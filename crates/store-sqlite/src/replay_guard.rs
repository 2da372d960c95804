//! Replay protection: the last turn recorded for each client-held session.
//!
//! Each write also removes a few records: expired ones, and past [`LIMIT`] those that
//! [`ReplayGuard`](mcp_flow_session::store::ReplayGuard) evicts first. No task has to do it.

use mcp_flow_session::store::LastTurn;
use mcp_flow_session::{SessionId, StoreError};
use rusqlite::{Connection, OptionalExtension, params};

use crate::key;

/// Reads the last turn of a session.
pub(crate) fn last(connection: &Connection, id: SessionId) -> rusqlite::Result<Option<u64>> {
    let last = "SELECT turn FROM turn WHERE id = ?1";
    let last = connection.prepare_cached(last)?.query_row([key(id)], |row| row.get::<_, i64>(0));
    Ok(last.optional()?.map(i64::cast_unsigned))
}

/// Writes the last turn of a session, and evicts some records that expired or exceed the limit.
pub(crate) fn keep(
    writing: &Connection,
    turn: &LastTurn,
) -> rusqlite::Result<Result<(), StoreError>> {
    keep_within(writing, turn, LIMIT)?;
    Ok(Ok(()))
}

fn keep_within(writing: &Connection, turn: &LastTurn, limit: i64) -> rusqlite::Result<()> {
    let (id, eviction) = (key(turn.id), sort_key(turn.eviction_key()));
    let update = "UPDATE turn SET turn = ?2, eviction = ?3 WHERE id = ?1";
    let insert = "INSERT INTO turn (id, turn, eviction) VALUES (?1, ?2, ?3)";
    let mut count = count(writing)?;
    let record = params![id, turn.turn.cast_signed(), eviction];
    if writing.prepare_cached(update)?.execute(record)? == 0 {
        count += 1;
        writing.prepare_cached(insert)?.execute(record)?;
    }
    for _ in 0..EVICTED_PER_WRITE {
        let is_expired = "eviction <= ?1";
        // Records without a deadline go first, the oldest of them before others.
        let evicted = match remove_first(writing, is_expired, sort_key(turn.at.as_millis()))? {
            0 if count > limit => {
                match remove_first(writing, "eviction >= ?1", sort_key(LastTurn::NO_DEADLINE))? {
                    0 => remove_first(writing, is_expired, i64::MAX)?,
                    removed => removed,
                }
            }
            removed => removed,
        };
        if evicted == 0 {
            break;
        }
        count -= 1;
    }
    let keep = "INSERT OR REPLACE INTO meta (name, value) VALUES ('turns', ?1)";
    writing.prepare_cached(keep)?.execute([count])?;
    Ok(())
}

/// Removes the first record that meets a condition, and returns how many there were.
fn remove_first(writing: &Connection, condition: &str, value: i64) -> rusqlite::Result<usize> {
    let remove = format!(
        "DELETE FROM turn WHERE id IN \
         (SELECT id FROM turn WHERE {condition} ORDER BY eviction, id LIMIT 1)"
    );
    writing.prepare_cached(&remove)?.execute([value])
}

/// Returns the number of records, which takes too long to count each time.
fn count(writing: &Connection) -> rusqlite::Result<i64> {
    let count = "SELECT value FROM meta WHERE name = 'turns'";
    let count = writing.prepare_cached(count)?.query_row([], |row| row.get(0)).optional()?;
    Ok(count.unwrap_or(0))
}

/// Returns a number in the database with the same order.
fn sort_key(key: u64) -> i64 {
    (key ^ (1 << 63)).cast_signed()
}

/// Records removed per write at most.
const EVICTED_PER_WRITE: usize = 8;

/// Limit on records: about 100 MB of the file.
const LIMIT: i64 = 1_000_000;

#[cfg(test)]
mod tests {
    use mcp_flow_session::store::LastTurn;
    use mcp_flow_session::{SessionId, Timestamp};
    use rusqlite::Connection;

    use super::{keep_within, last};

    /// C-43: past the limit, sessions without a deadline go first, those idle longest before
    /// others.
    #[test]
    fn records_without_a_deadline_are_evicted_oldest_first() {
        let database = Connection::open_in_memory().unwrap();
        database.execute_batch(crate::schema::TABLES).unwrap();
        for (session, until, at) in [(1, None, 1), (2, None, 2), (3, Some(90), 3), (1, None, 4)] {
            keep(&database, session, until, at);
        }
        keep(&database, 4, Some(80), 5);
        assert_eq!(kept(&database), [1, 3, 4], "session 2 was idle longest");
        keep(&database, 5, Some(70), 6);
        assert_eq!(kept(&database), [3, 4, 5], "those with a deadline are protected until it");
        keep(&database, 6, Some(100), 7);
        assert_eq!(kept(&database), [3, 4, 6], "then the one that expires soonest goes");
        keep(&database, 7, Some(200), 95);
        assert_eq!(kept(&database), [6, 7], "expired ones make room");
    }

    fn keep(database: &Connection, session: u128, until: Option<u64>, at: u64) {
        let id = SessionId::from_random(session);
        let until = until.map_or(Timestamp::NEVER, Timestamp::from_millis);
        let turn = LastTurn { id, turn: u64::MAX, until, at: Timestamp::from_millis(at) };
        keep_within(database, &turn, 3).unwrap();
    }

    fn kept(database: &Connection) -> Vec<u128> {
        let is_kept = |id: &u128| {
            let turn = last(database, SessionId::from_random(*id)).unwrap();
            assert!(turn.is_none_or(|turn| turn == u64::MAX));
            turn.is_some()
        };
        (1..10).filter(is_kept).collect()
    }
}
