//! Creation of the tables, under a lock, and the check of format and keys.

use mcp_flow_seal::KeyRing;
use mcp_flow_store_rows::{StoreOpenError, check_keys, seal_check};
use tokio::time::timeout;
use tokio_postgres::Client;
use tokio_postgres::types::Type;

use crate::error::open_error;
use crate::link::{Link, OPEN_TIMEOUT};

/// Creates the tables unless they exist, and checks their format and keys.
pub(crate) async fn prepare(link: &Link, keys: &KeyRing) -> Result<(), StoreOpenError> {
    let client = link.open().await?;
    match timeout(OPEN_TIMEOUT, prepare_tables(&client, keys)).await {
        Ok(prepared) => prepared,
        Err(_) => Err(StoreOpenError::Unreachable("the server does not respond".to_owned())),
    }
}

async fn prepare_tables(client: &Client, keys: &KeyRing) -> Result<(), StoreOpenError> {
    let failed = |error: tokio_postgres::Error| open_error(&error);
    // The table that was added last.
    let exists = "SELECT to_regclass('mcp_flow_record') IS NOT NULL";
    let exists: bool = client.query_typed(exists, &[]).await.map_err(failed)?[0].get(0);
    if !exists {
        // A newer version may have tables of other names.
        let described = "SELECT to_regclass('mcp_flow_meta') IS NOT NULL";
        if client.query_typed(described, &[]).await.map_err(failed)?[0].get(0) {
            check_format(client).await?;
        }
        let create = format!("BEGIN; SELECT pg_advisory_xact_lock({LOCK}); {TABLES} COMMIT;");
        if let Err(error) = client.batch_execute(&create).await {
            let _ = client.batch_execute("ROLLBACK").await;
            return Err(open_error(&error));
        }
    }
    check_format(client).await?;
    let sealed = seal_check(keys)?;
    let keep = "INSERT INTO mcp_flow_meta (name, value) VALUES ('seal', $1) \
                ON CONFLICT (name) DO NOTHING";
    client.query_typed(keep, &[(&sealed, Type::BYTEA)]).await.map_err(failed)?;
    let known = "SELECT value FROM mcp_flow_meta WHERE name = 'seal'";
    for row in client.query_typed(known, &[]).await.map_err(failed)? {
        check_keys(keys, row.get(0))?;
    }
    // Sealed again with the current key, so that older ones can be dropped.
    let renew = "UPDATE mcp_flow_meta SET value = $1 WHERE name = 'seal'";
    client.query_typed(renew, &[(&sealed, Type::BYTEA)]).await.map_err(failed)?;
    Ok(())
}

/// Fails if the tables are of another version.
async fn check_format(client: &Client) -> Result<(), StoreOpenError> {
    let format = "SELECT value FROM mcp_flow_meta WHERE name = 'format'";
    let rows = client.query_typed(format, &[]).await.map_err(|error| open_error(&error))?;
    for row in rows {
        let value: &[u8] = row.get(0);
        let found = value.try_into().map(u32::from_be_bytes).map_err(|_| {
            StoreOpenError::Unusable("its format, in the table mcp_flow_meta, is no number".into())
        })?;
        if found != FORMAT {
            return Err(StoreOpenError::Format { found, known: FORMAT });
        }
    }
    Ok(())
}

const FORMAT: u32 = 1;

/// Number of the lock under which tables are created.
const LOCK: i64 = 0x6d63_705f_666c_6f77;

const TABLES: &str = "
CREATE TABLE IF NOT EXISTS mcp_flow_session (
    id bytea PRIMARY KEY,
    length int4 NOT NULL,
    state int2 NOT NULL,
    touched int8 NOT NULL,
    deadline int8,
    due int8,
    holder int8,
    owner bytea NOT NULL
) WITH (fillfactor = 70);
CREATE INDEX IF NOT EXISTS mcp_flow_session_owner ON mcp_flow_session (owner, id);
CREATE INDEX IF NOT EXISTS mcp_flow_session_due ON mcp_flow_session (due) WHERE due IS NOT NULL;
CREATE INDEX IF NOT EXISTS mcp_flow_session_holder ON mcp_flow_session (holder) WHERE holder IS NOT NULL;
CREATE INDEX IF NOT EXISTS mcp_flow_session_ended ON mcp_flow_session (id) WHERE state >= 4;
CREATE TABLE IF NOT EXISTS mcp_flow_journal (
    session bytea NOT NULL,
    position int4 NOT NULL,
    value bytea NOT NULL,
    PRIMARY KEY (session, position)
);
CREATE TABLE IF NOT EXISTS mcp_flow_node (
    epoch bigserial PRIMARY KEY,
    until timestamptz NOT NULL,
    info text NOT NULL
);
CREATE TABLE IF NOT EXISTS mcp_flow_message (
    number bigserial PRIMARY KEY,
    recipient int8,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    value bytea NOT NULL
);
CREATE TABLE IF NOT EXISTS mcp_flow_record (
    key text PRIMARY KEY,
    holder int8 NOT NULL,
    until timestamptz NOT NULL,
    value bytea NOT NULL
);
CREATE INDEX IF NOT EXISTS mcp_flow_record_until ON mcp_flow_record (until);
CREATE TABLE IF NOT EXISTS mcp_flow_turn (
    id bytea PRIMARY KEY,
    turn int8 NOT NULL,
    eviction int8 NOT NULL
);
CREATE INDEX IF NOT EXISTS mcp_flow_turn_eviction ON mcp_flow_turn (eviction);
CREATE TABLE IF NOT EXISTS mcp_flow_meta (name text PRIMARY KEY, value bytea NOT NULL);
INSERT INTO mcp_flow_meta (name, value) VALUES ('format', '\\x00000001') ON CONFLICT (name) DO NOTHING;
";
