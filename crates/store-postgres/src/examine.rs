//! Settings and privileges with which the server would lose data, or refuse statements later.

use mcp_flow_session::store::StoreExamination;
use mcp_flow_session::{StoreError, Timestamp};

use crate::Core;
use crate::link::STATEMENT_TIMEOUT;

/// Examines the server and the privileges of the role.
pub(crate) async fn examine(core: &Core) -> Result<StoreExamination, StoreError> {
    let rows = core.durable.query(STATEMENT_TIMEOUT, EXAMINE, &[]).await?;
    let Some(row) = rows.first() else { return Ok(StoreExamination::default()) };
    let mut problems = Vec::new();
    for (column, setting, good, loss) in [
        (1_usize, "fsync", ["on", "on"], "a crash of the machine can destroy the database"),
        (2, "full_page_writes", ["on", "on"], "a crash of the machine can destroy the database"),
        (3, "synchronous_commit", ["on", "remote_apply"], "a crash can lose acknowledged answers"),
    ] {
        let value: &str = row.get(column);
        // `local` and `remote_write` are durable on the server itself.
        if !good.contains(&value) && !["local", "remote_write"].contains(&value) {
            problems.push(format!("{setting} is {value}: {loss}; set it to on at the server"));
        }
    }
    let missing: Option<&str> = row.get(4);
    if let Some(missing) = missing {
        problems.push(format!(
            "the role lacks privileges on {missing}: grant SELECT, INSERT, UPDATE and DELETE on the \
             tables mcp_flow_*, and USAGE of their sequences"
        ));
    }
    if row.get(5) {
        problems.push("the server is a read-only replica; connect to the primary".to_owned());
    }
    let clock = row.get::<_, i64>(0).unsigned_abs();
    Ok(StoreExamination { clock: Some(Timestamp::from_millis(clock)), problems })
}

const EXAMINE: &str = "
SELECT (extract(epoch FROM clock_timestamp()) * 1000)::int8,
    current_setting('fsync'), current_setting('full_page_writes'),
    current_setting('synchronous_commit'),
    (SELECT string_agg(name, ', ') FROM unnest(ARRAY['session', 'journal', 'node', 'message', 'record',
            'turn', 'meta']) AS name
        WHERE NOT has_table_privilege('mcp_flow_' || name, 'SELECT')
            OR NOT has_table_privilege('mcp_flow_' || name, 'INSERT')
            OR NOT has_table_privilege('mcp_flow_' || name, 'UPDATE')
            OR NOT has_table_privilege('mcp_flow_' || name, 'DELETE')),
    pg_is_in_recovery()";
