//! Store of journals in one SQLite file, for any number of processes on one machine.
//!
//! [`SqliteStore`] writes from one thread per process, in groups: appends that arrive during a
//! commit share the next one. Processes take turns by a lock on a file beside the database, because
//! SQLite's own waiting lets some of them starve. Events are encrypted
//! ([`keys`]); state and deadline are not, so that opening a file of a million waiting sessions takes
//! neither memory nor time.
//!
//! # Layout, format 1
//!
//! | table | row | content |
//! |---|---|---|
//! | `meta` | `seal` | a known text, sealed, to check the keys |
//! | `session` | session | its head: length, state, deadline, holder, hash of its owner |
//! | `journal` | append | its events, sealed: a row of [`mcp_flow_store_rows`] |
//! | `node` | process | its lease, by the monotonic clock of one boot |
//! | `message` | message between processes | sealed, for a few seconds |
//! | `record` | value that a process holds and others may take | sealed |
//! | `turn` | client-held session | its last turn |
//!
//! Rows of `journal` are in the order of appends and linked backwards, so that an append touches
//! few pages. `session.due` is no later than the deadline: an answer moves the deadline without
//! updating that index, and entries found to be too early are moved then.

mod changes;
mod error;
mod journal;
mod node;
mod read;
mod record;
mod replay_guard;
mod schema;
mod writer;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mcp_flow_seal::KeyRing;
use mcp_flow_session::store::{
    Append, Census, Filter, LastTurn, Listed, PageRequest, Phase, ReplayGuard, SharedStore, Store,
    StoreError, StoreFuture,
};
use mcp_flow_session::{JournalEvent, SessionId, Timestamp};
use mcp_flow_store_rows::JournalRow;
use rusqlite::Connection;

use error::store_error;
use read::Readers;
use writer::Writer;

pub use mcp_flow_store_rows::{StoreOpenError, keys};

/// Store of journals in one SQLite file.
///
/// Any number of processes can have it open. Dropping it waits for pending writes.
pub struct SqliteStore {
    keys: Arc<KeyRing>,
    path: PathBuf,
    readers: Arc<Readers>,
    /// Writes that are durable before they are acknowledged.
    durable: Writer,
    /// Leases and messages, which need not survive the machine.
    volatile: Writer,
}

impl SqliteStore {
    /// Opens a store, or creates it, with the keys [found](keys::find) for it.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join(".mcp-flow/journal.db");
    /// use mcp_flow_store_sqlite::SqliteStore;
    ///
    /// let store = SqliteStore::open(&path).unwrap();
    /// // Other processes can use it at the same time.
    /// let other = SqliteStore::open(&path).unwrap();
    /// ```
    pub fn open(path: impl AsRef<Path>) -> Result<Self, StoreOpenError> {
        let path = path.as_ref();
        let keys = keys::find(path)?;
        Self::open_with_keys(path, keys)
    }

    /// Opens a store, or creates it, with these keys.
    pub fn open_with_keys(path: impl AsRef<Path>, keys: KeyRing) -> Result<Self, StoreOpenError> {
        let path = path.as_ref().to_owned();
        schema::prepare(&path, &keys)?;
        Ok(Self {
            keys: Arc::new(keys),
            readers: Arc::new(Readers::new(&path)),
            durable: Writer::start(&path, true)?,
            volatile: Writer::start(&path, false)?,
            path,
        })
    }

    /// Reads on a blocking thread.
    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let readers = Arc::clone(&self.readers);
        let done = tokio::task::spawn_blocking(move || readers.with(read)).await;
        done.map_err(|_| StoreError::Closed)?.map_err(store_error)
    }
}

impl Store for SqliteStore {
    fn read(&self, id: SessionId) -> StoreFuture<'_, Vec<JournalEvent>> {
        Box::pin(async move {
            let rows = self.read(move |connection| read::rows(connection, id)).await?;
            mcp_flow_store_rows::read_events(id, rows, &self.keys)
        })
    }

    fn append(&self, append: Append) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            if append.events.is_empty() {
                return Ok(());
            }
            // Encrypted here, on the caller's thread; only the write is serialized.
            let row = JournalRow::seal(&append, &self.keys)?;
            let (size, fence) = (row.body.len(), append.fence);
            self.durable.submit(size, move |writing| journal::append(writing, &row, &fence)).await
        })
    }

    fn list(&self, filter: Filter, page: PageRequest) -> StoreFuture<'_, Vec<Listed>> {
        let keys = Arc::clone(&self.keys);
        Box::pin(self.read(move |connection| read::list(connection, &keys, &filter, page)))
    }

    fn due(&self, time: Timestamp, most: usize) -> StoreFuture<'_, Vec<SessionId>> {
        Box::pin(async move {
            loop {
                let found = self.read(move |connection| read::due(connection, time, most)).await?;
                if found.early.is_empty() {
                    return Ok(found.due);
                }
                // With early entries moved, the next query returns due sessions in order.
                let early = found.early;
                let reindex = move |writing: &Connection| journal::reindex(writing, &early);
                self.volatile.submit(0, reindex).await?;
            }
        })
    }

    fn census(&self) -> StoreFuture<'_, Census> {
        Box::pin(self.read(read::census))
    }

    fn erase(&self, id: SessionId) -> StoreFuture<'_, ()> {
        Box::pin(self.durable.submit(0, move |writing| journal::erase(writing, id)))
    }

    fn probe(&self) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            let failed = self.durable.failed_size();
            if failed > 0 {
                // More than what failed, since a write also rewrites pages of indexes.
                let size = failed + PROBE_MARGIN;
                let write = move |writing: &Connection| journal::probe(writing, size);
                self.durable.submit(size, write).await?;
            }
            self.durable.submit(0, |writing| journal::probe(writing, 0)).await
        })
    }

    fn shared(&self) -> Option<&dyn SharedStore> {
        Some(self)
    }
}

impl ReplayGuard for SqliteStore {
    fn last_turn(&self, id: SessionId) -> StoreFuture<'_, Option<u64>> {
        Box::pin(self.read(move |connection| replay_guard::last(connection, id)))
    }

    fn keep_turn(&self, turn: LastTurn) -> StoreFuture<'_, ()> {
        Box::pin(self.durable.submit(0, move |writing| replay_guard::keep(writing, &turn)))
    }
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SqliteStore").field("path", &self.path).finish_non_exhaustive()
    }
}

/// SQL condition for the states of a phase. Partial indexes have the same text.
const fn condition(phase: Phase) -> &'static str {
    match phase {
        Phase::Any => "true",
        Phase::Live => "state < 4",
        Phase::Working => "state IN (0, 1, 3)",
        Phase::Waiting => "state = 2",
        Phase::Ended => "state >= 4",
    }
}

/// Bytes of a session id in the database. Their order is that of the ids.
fn key(id: SessionId) -> [u8; 16] {
    id.bits().to_be_bytes()
}

fn session_id(key: [u8; 16]) -> SessionId {
    SessionId::from_random(u128::from_be_bytes(key))
}

/// Number of milliseconds in the database. Later than all that fit is the latest that fits.
fn millis(time: u64) -> i64 {
    i64::try_from(time).unwrap_or(i64::MAX)
}

/// Size of a probe beyond that of the failed write.
const PROBE_MARGIN: usize = 256 * 1024;
