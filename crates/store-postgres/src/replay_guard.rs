//! Replay protection: the last turn recorded for each client-held session.
//!
//! Each write also removes a few records: expired ones, and past [`LIMIT`] those that
//! [`ReplayGuard`](mcp_flow_session::store::ReplayGuard) evicts first. No task has to do it.

use mcp_flow_session::store::LastTurn;
use mcp_flow_session::{SessionId, StoreError};
use tokio_postgres::types::Type;

use crate::link::STATEMENT_TIMEOUT;
use crate::{Core, Param, key};

/// Reads the last turn of a session.
pub(crate) async fn last(core: &Core, id: SessionId) -> Result<Option<u64>, StoreError> {
    let last = "SELECT turn FROM mcp_flow_turn WHERE id = $1";
    let rows = core.reader.query(STATEMENT_TIMEOUT, last, &[(&key(id), Type::BYTEA)]).await?;
    Ok(rows.first().map(|row| row.get::<_, i64>(0).cast_unsigned()))
}

/// Writes the last turn of a session, and evicts some records that expired or exceed the limit.
pub(crate) async fn keep(core: &Core, turn: &LastTurn) -> Result<(), StoreError> {
    let keep = "INSERT INTO mcp_flow_turn (id, turn, eviction) VALUES ($1, $2, $3) \
                ON CONFLICT (id) DO UPDATE SET turn = excluded.turn, eviction = excluded.eviction";
    let (id, number) = (key(turn.id), turn.turn.cast_signed());
    let eviction = sort_key(turn.eviction_key());
    let params: [Param<'_>; 3] =
        [(&id, Type::BYTEA), (&number, Type::INT8), (&eviction, Type::INT8)];
    core.reader.query(STATEMENT_TIMEOUT, keep, &params).await?;
    let now = sort_key(turn.at.as_millis());
    let expire = "DELETE FROM mcp_flow_turn WHERE id IN (SELECT id FROM mcp_flow_turn \
                  WHERE eviction <= $1 ORDER BY eviction LIMIT 8 FOR UPDATE SKIP LOCKED)";
    core.reader.query(STATEMENT_TIMEOUT, expire, &[(&now, Type::INT8)]).await?;
    // The estimate of the server is close enough, and takes no time. Records without a deadline go
    // first, the oldest of them before others.
    let evict = "DELETE FROM mcp_flow_turn WHERE id IN (SELECT id FROM mcp_flow_turn \
                 WHERE (SELECT reltuples FROM pg_class WHERE oid = 'mcp_flow_turn'::regclass) > $1 \
                 ORDER BY eviction < $2, eviction LIMIT 1)";
    let is_checked = turn.at.as_millis().is_multiple_of(64);
    if is_checked {
        let without_deadline = sort_key(LastTurn::NO_DEADLINE);
        let params: [Param<'_>; 2] = [(&LIMIT, Type::FLOAT4), (&without_deadline, Type::INT8)];
        core.reader.query(STATEMENT_TIMEOUT, evict, &params).await?;
    }
    Ok(())
}

/// Returns a number in the database with the same order.
fn sort_key(key: u64) -> i64 {
    (key ^ (1 << 63)).cast_signed()
}

/// Limit on records: about 100 MB.
const LIMIT: f32 = 1_000_000.0;
