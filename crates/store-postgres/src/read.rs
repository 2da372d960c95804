//! Reads: journals, lists, counts and due sessions.

use mcp_flow_session::store::{Census, Filter, Head, Listed, PageRequest, Phase};
use mcp_flow_session::{Epoch, SessionId, StoreError, Timestamp};
use mcp_flow_store_rows::read_summary;
use mcp_flow_store_rows::row::hash;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::link::STATEMENT_TIMEOUT;
use crate::{Core, Param, condition, key, millis, session_id};

impl Core {
    async fn query(&self, statement: &str, params: &[Param<'_>]) -> Result<Vec<Row>, StoreError> {
        self.reader.query(STATEMENT_TIMEOUT, statement, params).await
    }
}

/// Reads the rows of a session with their positions, oldest first.
pub(crate) async fn rows(core: &Core, id: SessionId) -> Result<Vec<(u32, Vec<u8>)>, StoreError> {
    let rows = "SELECT position, value FROM mcp_flow_journal WHERE session = $1 ORDER BY position";
    let rows = core.query(rows, &[(&key(id), Type::BYTEA)]).await?;
    let row = |row: &Row| (row.get::<_, i32>(0).unsigned_abs(), row.get(1));
    Ok(rows.iter().map(row).collect())
}

/// Reads the head of a session.
pub(crate) async fn head(core: &Core, id: SessionId) -> Result<Option<Head>, StoreError> {
    let head = "SELECT length, state, holder FROM mcp_flow_session WHERE id = $1";
    let rows = core.query(head, &[(&key(id), Type::BYTEA)]).await?;
    Ok(rows.first().map(|row| Head {
        length: usize::try_from(row.get::<_, i32>(0)).unwrap_or(0),
        is_ended: row.get::<_, i16>(1) >= 4,
        holder: row.get::<_, Option<i64>>(2).map(|holder| Epoch::new(holder.unsigned_abs())),
    }))
}

/// Reads one page of a list. A session that cannot be decrypted, perhaps because an old key was
/// dropped or a newer version wrote it, is skipped.
pub(crate) async fn list(
    core: &Core,
    filter: &Filter,
    page: PageRequest,
) -> Result<Vec<Listed>, StoreError> {
    let mut found = Vec::new();
    let mut after = page.after;
    let owner = filter.owner.as_ref().map(|owner| hash(owner).to_vec());
    let by_owner = if owner.is_some() { "owner = $1" } else { "$1 IS NULL" };
    let statement = format!(
        "SELECT id, first.value, last.position, last.value FROM mcp_flow_session \
         JOIN mcp_flow_journal first ON first.session = id AND first.position = 0 \
         JOIN LATERAL (SELECT position, value FROM mcp_flow_journal WHERE session = id \
         ORDER BY position DESC LIMIT 1) last ON true \
         WHERE {} AND {by_owner} AND ($2 IS NULL OR id > $2) ORDER BY id LIMIT $3",
        condition(filter.phase)
    );
    while found.len() < page.most {
        let wanted = i64::try_from(page.most - found.len()).unwrap_or(i64::MAX);
        let from = after.map(key);
        let params: [Param<'_>; 3] =
            [(&owner, Type::BYTEA), (&from, Type::BYTEA), (&wanted, Type::INT8)];
        let rows = core.query(&statement, &params).await?;
        for row in &rows {
            let Some(id) = session_id(row.get(0)) else { continue };
            after = Some(id);
            let last = (row.get::<_, i32>(2).unsigned_abs(), row.get(3));
            match read_summary(id, row.get(1), last, &core.keys) {
                Ok(listed) => found.push(listed),
                Err(error) => tracing::error!(%error, "cannot list a session"),
            }
        }
        if i64::try_from(rows.len()).unwrap_or(i64::MAX) < wanted {
            break;
        }
    }
    Ok(found)
}

/// Counts sessions by phase.
pub(crate) async fn census(core: &Core) -> Result<Census, StoreError> {
    let count = format!(
        "SELECT count(*), count(*) FILTER (WHERE {}), count(*) FILTER (WHERE {}) \
         FROM mcp_flow_session",
        condition(Phase::Working),
        condition(Phase::Ended)
    );
    let rows = core.query(&count, &[]).await?;
    let number = |column| rows.first().map_or(0, |row| row.get::<_, i64>(column).unsigned_abs());
    Ok(Census::of(number(0), number(1), number(2)))
}

/// Returns sessions that are due. Index entries that are too early are moved first, unless a node
/// works on the session: it must not wait for that.
pub(crate) async fn due(
    core: &Core,
    time: Timestamp,
    most: usize,
) -> Result<Vec<SessionId>, StoreError> {
    let time = millis(time.as_millis());
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    let early = "UPDATE mcp_flow_session SET due = deadline WHERE id IN (\
                 SELECT id FROM mcp_flow_session WHERE due <= $1 AND due IS DISTINCT FROM deadline \
                 AND holder IS NULL LIMIT 1000 FOR NO KEY UPDATE SKIP LOCKED)";
    core.query(early, &[(&time, Type::INT8)]).await?;
    let due = "SELECT id FROM mcp_flow_session WHERE due <= $1 AND deadline <= $1 \
               ORDER BY deadline, id LIMIT $2";
    let rows = core.query(due, &[(&time, Type::INT8), (&most, Type::INT8)]).await?;
    Ok(rows.iter().filter_map(|row| session_id(row.get(0))).collect())
}
