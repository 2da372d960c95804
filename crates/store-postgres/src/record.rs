//! Records that nodes share beside journals.

use mcp_flow_session::store::{Record, RecordChange};
use mcp_flow_session::{Epoch, StoreError};
use mcp_flow_store_rows::{open_record, seal_record};
use tokio_postgres::types::Type;

use crate::link::STATEMENT_TIMEOUT;
use crate::{Core, Param, millis};

/// Reads a record.
pub(crate) async fn read(core: &Core, key: &str) -> Result<Option<Record>, StoreError> {
    let read = "SELECT holder, value FROM mcp_flow_record \
                WHERE key = $1 AND until > clock_timestamp()";
    let rows = core.durable.query(STATEMENT_TIMEOUT, read, &[(&key, Type::TEXT)]).await?;
    Ok(rows.first().and_then(|row| {
        let holder = Epoch::new(row.get::<_, i64>(0).unsigned_abs());
        Some(Record { holder, value: open_record(&core.keys, key, row.get(1))? })
    }))
}

/// Changes a record if it is held as expected. Returns whether it was.
pub(crate) async fn change(core: &Core, change: RecordChange) -> Result<bool, StoreError> {
    let RecordChange { key, from, record, lifetime } = change;
    let from = from.map(|from| millis(from.number()));
    let Some(Record { holder, value }) = record else {
        let remove = "DELETE FROM mcp_flow_record WHERE key = $1 AND holder = $2 \
                      AND until > clock_timestamp() RETURNING 1";
        let params: [Param<'_>; 2] = [(&key, Type::TEXT), (&from, Type::INT8)];
        return Ok(!core.durable.query(STATEMENT_TIMEOUT, remove, &params).await?.is_empty());
    };
    let value = seal_record(&core.keys, &key, &value)?;
    let (holder, lifetime) = (millis(holder.number()), lifetime.as_secs_f64());
    let (write, from) = match from {
        Some(from) => (REPLACE, from),
        None => (CREATE, 0),
    };
    let params: [Param<'_>; 5] = [
        (&key, Type::TEXT),
        (&holder, Type::INT8),
        (&lifetime, Type::FLOAT8),
        (&value, Type::BYTEA),
        (&from, Type::INT8),
    ];
    Ok(!core.durable.query(STATEMENT_TIMEOUT, write, &params).await?.is_empty())
}

/// Creates a record where there is none, or none that lasts, and removes some that are over.
const CREATE: &str = "
WITH old AS (
    DELETE FROM mcp_flow_record WHERE key <> $1 AND key IN
        (SELECT key FROM mcp_flow_record WHERE until < clock_timestamp() AND $5::int8 = 0
            LIMIT 100)
)
INSERT INTO mcp_flow_record (key, holder, until, value)
VALUES ($1, $2, clock_timestamp() + $3::float8 * interval '1 second', $4)
ON CONFLICT (key) DO UPDATE SET holder = excluded.holder, until = excluded.until, value = excluded.value
    WHERE mcp_flow_record.until <= clock_timestamp()
RETURNING 1";

const REPLACE: &str = "
UPDATE mcp_flow_record
SET holder = $2, until = clock_timestamp() + $3::float8 * interval '1 second', value = $4
WHERE key = $1 AND holder = $5 AND until > clock_timestamp()
RETURNING 1";
