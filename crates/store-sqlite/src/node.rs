//! Nodes: the processes on this machine that use the database.
//!
//! Leases are measured by the monotonic clock, which stands still while the machine is suspended,
//! so that nobody expires then. It begins anew at each boot; leases of another boot have expired.

use std::sync::OnceLock;

use mcp_flow_session::store::{
    Head, Heartbeat, LEASE, Node, NodeInfo, Record, RecordChange, SharedStore, StoreChanges,
    StoreExamination, StoreFuture,
};
use mcp_flow_session::{Epoch, SessionId};
use mcp_flow_store_rows::{open_record, seal_message, seal_record};
use rusqlite::{Connection, params};

use crate::changes::Changes;
use crate::{SqliteStore, key, read, record, session_id};

impl SharedStore for SqliteStore {
    fn head(&self, id: SessionId) -> StoreFuture<'_, Option<Head>> {
        Box::pin(self.read(move |connection| read::head(connection, id)))
    }

    fn join(&self, info: NodeInfo) -> StoreFuture<'_, Epoch> {
        let info = serde_json::to_string(&info).unwrap_or_default();
        Box::pin(self.volatile.submit(0, move |writing| {
            let insert = "INSERT INTO node (boot, until, info) VALUES (?1, ?2, ?3)";
            writing.execute(insert, params![boot(), lease_end(), info])?;
            Ok(Ok(Epoch::new(writing.last_insert_rowid().unsigned_abs())))
        }))
    }

    fn beat(&self, epoch: Epoch) -> StoreFuture<'_, Heartbeat> {
        Box::pin(self.volatile.submit(0, move |writing| {
            let renew = "UPDATE node SET until = ?2 WHERE epoch = ?1 AND boot = ?3";
            let renewed = writing.prepare_cached(renew)?.execute(params![
                epoch.number(),
                lease_end(),
                boot()
            ])?;
            Ok(Ok(Heartbeat { is_member: renewed > 0, clock: None }))
        }))
    }

    fn has_orphans(&self) -> StoreFuture<'_, bool> {
        Box::pin(self.read(|connection| {
            let orphans = "SELECT EXISTS (SELECT 1 FROM session WHERE holder IS NOT NULL AND holder \
                           NOT IN (SELECT epoch FROM node WHERE boot = ?1 AND until > ?2))";
            connection.prepare_cached(orphans)?.query_row(params![boot(), now()], |row| row.get(0))
        }))
    }

    fn leave(&self, epoch: Epoch) -> StoreFuture<'_, ()> {
        Box::pin(self.volatile.submit(0, move |writing| {
            writing.execute("DELETE FROM node WHERE epoch = ?1", [epoch.number()])?;
            Ok(Ok(()))
        }))
    }

    fn claim(
        &self,
        by: Epoch,
        most: usize,
        except: Vec<SessionId>,
    ) -> StoreFuture<'_, Vec<SessionId>> {
        Box::pin(self.volatile.submit(0, move |writing| {
            expire(writing)?;
            let orphans = format!("SELECT id FROM session WHERE {ORPHANED} LIMIT ?1");
            let mut orphans = writing.prepare_cached(&orphans)?;
            let orphans = orphans.query_map([most + except.len()], |row| row.get(0))?;
            let orphans: Vec<_> = orphans.collect::<rusqlite::Result<_>>()?;
            let orphans = orphans.into_iter().map(session_id);
            let claimed = orphans.filter(|id| !except.contains(id)).take(most).collect::<Vec<_>>();
            let mut claim =
                writing.prepare_cached("UPDATE session SET holder = ?2 WHERE id = ?1")?;
            for id in &claimed {
                claim.execute(params![key(*id), by.number()])?;
            }
            Ok(Ok(claimed))
        }))
    }

    fn release(&self, by: Epoch, id: SessionId) -> StoreFuture<'_, ()> {
        Box::pin(self.volatile.submit(0, move |writing| {
            let release = "UPDATE session SET holder = 0 WHERE id = ?1 AND holder = ?2";
            writing.prepare_cached(release)?.execute(params![key(id), by.number()])?;
            Ok(Ok(()))
        }))
    }

    fn held(&self, by: Epoch) -> StoreFuture<'_, Vec<SessionId>> {
        Box::pin(self.read(move |connection| {
            let held = "SELECT id FROM session WHERE holder = ?1";
            let mut held = connection.prepare_cached(held)?;
            let ids = held.query_map(params![by.number()], |row| row.get(0))?;
            ids.map(|id| id.map(session_id)).collect()
        }))
    }

    fn nodes(&self) -> StoreFuture<'_, Vec<Node>> {
        Box::pin(self.read(nodes))
    }

    fn record(&self, key: String) -> StoreFuture<'_, Option<Record>> {
        Box::pin(async move {
            let name = key.clone();
            let found = self.read(move |connection| record::read(connection, &name)).await?;
            Ok(found.and_then(|Record { holder, value }| {
                Some(Record { holder, value: open_record(&self.keys, &key, &value)? })
            }))
        })
    }

    fn change_record(&self, mut change: RecordChange) -> StoreFuture<'_, bool> {
        Box::pin(async move {
            let mut size = 0;
            if let Some(record) = &mut change.record {
                record.value = seal_record(&self.keys, &change.key, &record.value)?;
                size = record.value.len();
            }
            self.volatile.submit(size, move |writing| record::change(writing, &change)).await
        })
    }

    fn post(&self, to: Option<Epoch>, message: Vec<u8>) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            let value = seal_message(&self.keys, &message)?;
            let recipient = to.map(Epoch::number);
            self.volatile
                .submit(value.len(), move |writing| {
                    let forget = "DELETE FROM message WHERE until <= ?1";
                    writing.prepare_cached(forget)?.execute([now()])?;
                    let insert =
                        "INSERT INTO message (recipient, until, value) VALUES (?1, ?2, ?3)";
                    let until = now() + MESSAGE_LIFE;
                    writing.prepare_cached(insert)?.execute(params![recipient, until, value])?;
                    Ok(Ok(()))
                })
                .await
        })
    }

    fn changes(&self, of: Epoch) -> Box<dyn StoreChanges> {
        Box::new(Changes::start(&self.path, &self.keys, of))
    }

    fn examine(&self) -> StoreFuture<'_, StoreExamination> {
        Box::pin(self.read(|connection| {
            let mode: String = connection.query_row("PRAGMA journal_mode", [], |row| row.get(0))?;
            let check: String =
                connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
            let mut problems = Vec::new();
            if mode != "wal" {
                problems.push(format!(
                    "its journal mode is {mode}: the file system has no shared memory for WAL, so \
                     processes wait for each other; use a local disk"
                ));
            }
            if check != "ok" {
                problems.push(format!("its file is damaged: {check}; restore it from a backup"));
            }
            Ok(StoreExamination { clock: None, problems })
        }))
    }
}

/// Removes nodes whose lease has expired.
fn expire(writing: &Connection) -> rusqlite::Result<()> {
    let expire = "DELETE FROM node WHERE boot <> ?1 OR until <= ?2";
    writing.prepare_cached(expire)?.execute(params![boot(), now()])?;
    Ok(())
}

fn nodes(connection: &Connection) -> rusqlite::Result<Vec<Node>> {
    let live = "SELECT epoch, info FROM node WHERE boot = ?1 AND until > ?2 ORDER BY epoch";
    let mut live = connection.prepare_cached(live)?;
    let nodes = live.query_map(params![boot(), now()], |row| {
        let info: String = row.get(1)?;
        let info = serde_json::from_str(&info).unwrap_or_default();
        Ok(Node { epoch: Epoch::new(row.get(0)?), info })
    })?;
    nodes.collect()
}

/// Returns the milliseconds of the monotonic clock, which all processes share.
#[cfg(unix)]
fn now() -> i64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec * 1000 + now.tv_nsec / 1_000_000
}

/// Returns the milliseconds of the system clock: the standard library has no other that processes share.
#[cfg(not(unix))]
fn now() -> i64 {
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    i64::try_from(now.as_millis()).unwrap_or(i64::MAX / 2)
}

fn lease_end() -> i64 {
    now() + i64::try_from(LEASE.as_millis()).unwrap_or(i64::MAX / 2)
}

/// Returns the id of the boot whose monotonic clock this is.
fn boot() -> &'static str {
    static BOOT: OnceLock<String> = OnceLock::new();
    BOOT.get_or_init(|| {
        let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
        id.map_or_else(|_| String::new(), |id| id.trim().to_owned())
    })
}

/// SQL condition for sessions with work that no node holds. Expired nodes are removed before.
const ORPHANED: &str = "holder IS NOT NULL AND holder NOT IN (SELECT epoch FROM node)";

/// Milliseconds after which a message is removed.
const MESSAGE_LIFE: i64 = 10_000;
