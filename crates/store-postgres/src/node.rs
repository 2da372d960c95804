//! Nodes and their leases, by the clock of the server.

use std::sync::Arc;
use std::time::Duration;

use mcp_flow_session::store::{
    Head, Heartbeat, LEASE, Node, NodeInfo, Record, RecordChange, SharedStore, StoreChanges,
    StoreError, StoreExamination, StoreFuture,
};
use mcp_flow_session::{Epoch, SessionId, Timestamp};
use mcp_flow_store_rows::seal_message;
use tokio::time::Instant;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::changes::Changes;
use crate::link::STATEMENT_TIMEOUT;
use crate::{
    Core, NOT_DURABLE, Param, PostgresStore, examine, key, millis, read, record, session_id,
};

impl SharedStore for PostgresStore {
    fn head(&self, id: SessionId) -> StoreFuture<'_, Option<Head>> {
        let core = Arc::clone(&self.core);
        Box::pin(self.run(async move { read::head(&core, id).await }))
    }

    fn join(&self, info: NodeInfo) -> StoreFuture<'_, Epoch> {
        let core = Arc::clone(&self.core);
        Box::pin(self.run(async move {
            let info = serde_json::to_string(&info).unwrap_or_default();
            // Durable, so that no epoch is given twice, and not over before it is committed.
            let join = format!(
                "INSERT INTO mcp_flow_node (until, info) VALUES ({}, $1) RETURNING epoch",
                lease_end(STATEMENT_TIMEOUT)
            );
            let rows = core.durable.query(STATEMENT_TIMEOUT, &join, &[(&info, Type::TEXT)]).await?;
            let epoch = rows.first().map_or(0, |row| row.get::<_, i64>(0));
            Ok(Epoch::new(epoch.unsigned_abs()))
        }))
    }

    fn beat(&self, epoch: Epoch) -> StoreFuture<'_, Heartbeat> {
        let core = Arc::clone(&self.core);
        Box::pin(self.run(async move { core.beat(epoch).await }))
    }

    fn has_orphans(&self) -> StoreFuture<'_, bool> {
        let core = Arc::clone(&self.core);
        Box::pin(self.run(async move {
            let rows = core.control(HAS_ORPHANS, &[]).await?;
            Ok(rows.first().is_some_and(|row| row.get(0)))
        }))
    }

    fn leave(&self, epoch: Epoch) -> StoreFuture<'_, ()> {
        let core = Arc::clone(&self.core);
        Box::pin(self.run(async move {
            let epoch = millis(epoch.number());
            let leave = format!("DELETE FROM mcp_flow_node WHERE epoch = $1 AND {NOT_DURABLE}");
            core.control(&leave, &[(&epoch, Type::INT8)]).await.map(drop)
        }))
    }

    fn claim(
        &self,
        by: Epoch,
        most: usize,
        except: Vec<SessionId>,
    ) -> StoreFuture<'_, Vec<SessionId>> {
        let core = Arc::clone(&self.core);
        Box::pin(self.run(async move {
            // Committed first: from then on an expired node cannot renew its lease.
            if core.clock.is_steady() {
                let expire = format!("{EXPIRE} AND {NOT_DURABLE}");
                core.control(&expire, &[]).await?;
            }
            let claim = format!(
                "UPDATE mcp_flow_session SET holder = $1 WHERE id IN (SELECT id FROM \
                 mcp_flow_session WHERE {ORPHANED} AND id <> ALL($3) LIMIT $2 FOR NO KEY UPDATE SKIP LOCKED) \
                 AND {NOT_DURABLE} RETURNING id"
            );
            let (by, most) = (millis(by.number()), i64::try_from(most).unwrap_or(i64::MAX));
            let except: Vec<_> = except.into_iter().map(key).collect();
            let params: [Param<'_>; 3] =
                [(&by, Type::INT8), (&most, Type::INT8), (&except, Type::BYTEA_ARRAY)];
            Ok(ids(&core.control(&claim, &params).await?))
        }))
    }

    fn release(&self, by: Epoch, id: SessionId) -> StoreFuture<'_, ()> {
        let core = Arc::clone(&self.core);
        Box::pin(self.run(async move {
            let release = format!(
                "UPDATE mcp_flow_session SET holder = 0 WHERE id = $1 AND holder = $2 AND {NOT_DURABLE}"
            );
            let by = millis(by.number());
            let params: [Param<'_>; 2] = [(&key(id), Type::BYTEA), (&by, Type::INT8)];
            core.control(&release, &params).await.map(drop)
        }))
    }

    fn held(&self, by: Epoch) -> StoreFuture<'_, Vec<SessionId>> {
        let core = Arc::clone(&self.core);
        Box::pin(self.run(async move {
            let held = "SELECT id FROM mcp_flow_session WHERE holder = $1";
            let by = millis(by.number());
            Ok(ids(&core.control(held, &[(&by, Type::INT8)]).await?))
        }))
    }

    fn nodes(&self) -> StoreFuture<'_, Vec<Node>> {
        let core = Arc::clone(&self.core);
        Box::pin(self.run(async move { Ok(nodes(&core.control(NODES, &[]).await?)) }))
    }

    fn record(&self, key: String) -> StoreFuture<'_, Option<Record>> {
        let core = Arc::clone(&self.core);
        Box::pin(self.run(async move { record::read(&core, &key).await }))
    }

    fn change_record(&self, change: RecordChange) -> StoreFuture<'_, bool> {
        let core = Arc::clone(&self.core);
        Box::pin(self.run(async move { record::change(&core, change).await }))
    }

    fn post(&self, to: Option<Epoch>, message: Vec<u8>) -> StoreFuture<'_, ()> {
        let core = Arc::clone(&self.core);
        Box::pin(self.run(async move { core.post(to, &message).await }))
    }

    fn changes(&self, of: Epoch) -> Box<dyn StoreChanges> {
        Box::new(Changes::start(&self.core, &self.handle, of))
    }

    fn examine(&self) -> StoreFuture<'_, StoreExamination> {
        let core = Arc::clone(&self.core);
        Box::pin(self.run(async move { examine::examine(&core).await }))
    }
}

impl Core {
    /// Runs a statement about nodes. It is quick, or the connection is given up.
    pub(crate) async fn control(
        &self,
        statement: &str,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, StoreError> {
        self.control.query(CONTROL_TIMEOUT, statement, params).await
    }

    /// An expired node is removed, or renews its lease, but not both, because both lock its row.
    async fn beat(&self, epoch: Epoch) -> Result<Heartbeat, StoreError> {
        let number = millis(epoch.number());
        let renew = format!(
            "UPDATE mcp_flow_node SET until = {} WHERE epoch = $1 AND {NOT_DURABLE} \
             RETURNING (extract(epoch FROM clock_timestamp()) * 1000)::int8",
            lease_end(Duration::ZERO)
        );
        let sent = Instant::now();
        let renewed = self.lease.query(CONTROL_TIMEOUT, &renew, &[(&number, Type::INT8)]).await?;
        let clock = renewed.first().map(|row| row.get::<_, i64>(0));
        if let Some(clock) = clock {
            self.clock.observe(clock, sent);
        }
        Ok(Heartbeat {
            is_member: !renewed.is_empty(),
            clock: clock.map(|clock| Timestamp::from_millis(clock.unsigned_abs())),
        })
    }

    async fn post(&self, to: Option<Epoch>, message: &[u8]) -> Result<(), StoreError> {
        let value = seal_message(&self.keys, message)?;
        let recipient = to.map(|to| millis(to.number()));
        let post = format!(
            "WITH old AS (DELETE FROM mcp_flow_message WHERE number IN \
                (SELECT number FROM mcp_flow_message \
                WHERE at < clock_timestamp() - interval '10 seconds' FOR UPDATE SKIP LOCKED)), \
            posted AS (INSERT INTO mcp_flow_message (recipient, value) VALUES ($1, $2) \
                RETURNING number) \
            SELECT pg_notify('mcp_flow', 'm' || coalesce($1::text, '') || ':' || number) \
            FROM posted WHERE {NOT_DURABLE}"
        );
        let params: [Param<'_>; 2] = [(&recipient, Type::INT8), (&value, Type::BYTEA)];
        self.control(&post, &params).await.map(drop)
    }
}

fn ids(rows: &[Row]) -> Vec<SessionId> {
    rows.iter().filter_map(|row| session_id(row.get(0))).collect()
}

fn nodes(rows: &[Row]) -> Vec<Node> {
    let node = |row: &Row| Node {
        epoch: Epoch::new(row.get::<_, i64>(0).unsigned_abs()),
        info: serde_json::from_str(row.get(1)).unwrap_or_default(),
    };
    rows.iter().map(node).collect()
}

/// SQL expression for the end of a lease that begins in a while.
fn lease_end(after: Duration) -> String {
    format!("clock_timestamp() + interval '{} milliseconds'", (after + LEASE).as_millis())
}

/// Removes nodes whose lease has expired. Leases that end later than any that was just renewed were
/// given before the clock was set back.
///
/// After a crash the server may have lost renewals of the last second. A crash ends all connections,
/// so a connection removes nobody until all live nodes have renewed their leases since it was opened.
const EXPIRE: &str = "
DELETE FROM mcp_flow_node WHERE epoch IN (
    SELECT epoch FROM mcp_flow_node
    WHERE until < clock_timestamp() OR until > clock_timestamp() + interval '10 seconds'
    FOR UPDATE SKIP LOCKED
) AND (SELECT backend_start < clock_timestamp() - interval '1500 milliseconds'
    FROM pg_stat_get_activity(pg_backend_pid()))";

const NODES: &str =
    "SELECT epoch, info FROM mcp_flow_node WHERE until >= clock_timestamp() ORDER BY epoch";

const HAS_ORPHANS: &str = "SELECT EXISTS (SELECT 1 FROM mcp_flow_session WHERE holder IS NOT NULL AND NOT EXISTS \
     (SELECT 1 FROM mcp_flow_node WHERE epoch = holder AND until >= clock_timestamp()))";

/// SQL condition for sessions with work that no node holds. Expired nodes are removed before. A row
/// that another node has just claimed is checked again, which a join would do with the old row.
const ORPHANED: &str =
    "holder IS NOT NULL AND holder <> ALL(ARRAY(SELECT epoch FROM mcp_flow_node))";

/// Longest time for a statement about nodes, shorter than a lease.
pub(crate) const CONTROL_TIMEOUT: Duration = Duration::from_secs(1);
