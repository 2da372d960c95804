//! Store of journals in one file.
//!
//! [`RedbStore`] stores the journals of sessions in a redb database. Appends that arrive during a
//! commit share the next one, so concurrent sessions cost hardly more than one. Events are
//! encrypted ([`keys`]). State and deadline are not, so that opening a file of a million waiting
//! sessions takes neither memory nor time.
//!
//! # Layout, format 1
//!
//! | table | key | value |
//! |---|---|---|
//! | `meta` | `format` | the number 1, four bytes |
//! | `meta` | `seal` | a known text, sealed, to check the keys |
//! | `meta` | `probe` | zeros, temporarily, to check for free space |
//! | `journal` | id, number of the first event | header of the row, then sealed events |
//! | `owners` | first half of SHA-256 of the owner, id | empty |
//! | `working` | id | empty: the flow is working and must be resumed after a crash |
//! | `ended` | id | empty: the session has ended, and its tombstone is left |
//! | `deadlines` | time, id | empty: not due before that time |
//! | `turns` | id | last turn of a client-held session, and its eviction key |
//! | `turn_deadlines` | eviction key, id | empty: the index of `turns` |
//!
//! [`row`](mcp_flow_store_rows::row) describes the rows.
//!
//! An answer moves the deadline of its session without updating `deadlines`, whose entry is early
//! enough. Entries found to be too early are moved then.

mod commit;
mod create_file;
mod database;
mod error;
mod read;
mod replay_guard;
mod tables;

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use mcp_flow_seal::KeyRing;
use mcp_flow_session::store::{
    Append, Census, Filter, LastTurn, Listed, PageRequest, ReplayGuard, Store, StoreError,
    StoreFuture,
};
use mcp_flow_session::{JournalEvent, SessionId, Timestamp};
use mcp_flow_store_rows::JournalRow;
use redb::{Builder, Database, DatabaseError};
use tokio::sync::mpsc;

use commit::{Job, Write};
use database::JournalDatabase;
pub use error::is_panic_caught;
pub use mcp_flow_store_rows::{StoreOpenError, keys};

/// Store of journals in one file.
///
/// One process at a time can open it. Dropping it waits for pending writes.
pub struct RedbStore {
    journals: Arc<JournalDatabase>,
    /// None only during drop.
    jobs: Option<mpsc::Sender<Job>>,
    writer: Option<JoinHandle<()>>,
}

impl RedbStore {
    /// Opens a store, or creates it, with the keys [found](keys::find) for it.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join(".mcp-flow/journal.redb");
    /// # let path = path.to_str().unwrap();
    /// use mcp_flow_store_redb::RedbStore;
    ///
    /// let store = RedbStore::open(path).unwrap();
    /// // It can be open only once.
    /// let refused = RedbStore::open(path).unwrap_err();
    /// assert!(refused.to_string().contains("another process"));
    /// # drop(store);
    /// ```
    pub fn open(path: impl AsRef<Path>) -> Result<Self, StoreOpenError> {
        let path = path.as_ref();
        let keys = keys::find(path)?;
        Self::open_with_keys(path, keys)
    }

    /// Opens a store, or creates it, with these keys.
    pub fn open_with_keys(path: impl AsRef<Path>, keys: KeyRing) -> Result<Self, StoreOpenError> {
        let path = path.as_ref();
        create_file::create(path, &database::builder())?;
        let file = path.to_owned();
        let store = Self::open_from(move |builder| builder.create(&file), keys)?;
        create_file::remove_leftovers(path);
        Ok(store)
    }

    /// Opens a store with a custom redb backend.
    ///
    /// `open` is called again after a failed write or a panic, to read what was committed.
    pub fn open_from(
        open: impl Fn(&Builder) -> Result<Database, DatabaseError> + Send + Sync + 'static,
        keys: KeyRing,
    ) -> Result<Self, StoreOpenError> {
        let journals = Arc::new(JournalDatabase::open(Box::new(open), keys)?);
        let (jobs, incoming) = mpsc::channel(WRITE_QUEUE);
        let writer = {
            let journals = Arc::clone(&journals);
            std::thread::Builder::new()
                .name("journal".into())
                .spawn(move || commit::run(&journals, incoming))
                .map_err(StoreOpenError::Io)?
        };
        Ok(Self { journals, jobs: Some(jobs), writer: Some(writer) })
    }

    /// Returns the last turns of all client-held sessions, to copy them to another store.
    pub async fn turns(&self) -> Result<Vec<LastTurn>, StoreError> {
        self.blocking(replay_guard::all).await
    }

    /// Submits a write, and waits until it is durable.
    async fn submit(&self, write: Write) -> Result<(), StoreError> {
        let (job, done) = Job::new(write);
        let jobs = self.jobs.as_ref().ok_or(StoreError::Closed)?;
        jobs.send(job).await.map_err(|_| StoreError::Closed)?;
        done.await.map_err(|_| StoreError::Closed)?
    }

    /// Reads on a blocking thread.
    async fn blocking<T: Send + 'static>(
        &self,
        read: impl FnOnce(&JournalDatabase) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let journals = Arc::clone(&self.journals);
        tokio::task::spawn_blocking(move || read(&journals))
            .await
            .map_err(|_| StoreError::Closed)?
    }
}

impl Store for RedbStore {
    fn read(&self, id: SessionId) -> StoreFuture<'_, Vec<JournalEvent>> {
        Box::pin(self.blocking(move |journals| read::journal(journals, id)))
    }

    fn append(&self, append: Append) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            if append.events.is_empty() {
                return Ok(());
            }
            // Encrypted here, on the caller's thread; only the write is serialized.
            let row = JournalRow::seal(&append, &self.journals.keys)?;
            self.submit(Write::Append(row)).await
        })
    }

    fn list(&self, filter: Filter, page: PageRequest) -> StoreFuture<'_, Vec<Listed>> {
        Box::pin(self.blocking(move |journals| read::list(journals, &filter, page)))
    }

    fn due(&self, time: Timestamp, most: usize) -> StoreFuture<'_, Vec<SessionId>> {
        Box::pin(async move {
            loop {
                let found = self.blocking(move |journals| read::due(journals, time, most)).await?;
                if found.early.is_empty() {
                    return Ok(found.due);
                }
                // With early entries moved, the next query returns due sessions in order.
                self.submit(Write::Reindex(found.early)).await?;
            }
        })
    }

    fn census(&self) -> StoreFuture<'_, Census> {
        Box::pin(self.blocking(read::census))
    }

    fn erase(&self, id: SessionId) -> StoreFuture<'_, ()> {
        Box::pin(self.submit(Write::Erase(id)))
    }

    fn probe(&self) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            let failed = self.journals.failed_size();
            if failed > 0 {
                // More than what failed, since a write also rewrites nodes of the trees.
                let size = failed + PROBE_MARGIN;
                self.submit(Write::Probe(size)).await?;
            }
            self.submit(Write::Probe(0)).await
        })
    }
}

impl ReplayGuard for RedbStore {
    fn last_turn(&self, id: SessionId) -> StoreFuture<'_, Option<u64>> {
        Box::pin(self.blocking(move |journals| replay_guard::last(journals, id)))
    }

    fn keep_turn(&self, turn: LastTurn) -> StoreFuture<'_, ()> {
        Box::pin(self.submit(Write::Turn(turn)))
    }
}

impl Drop for RedbStore {
    fn drop(&mut self) {
        // The writer thread ends when its channel is closed, and closes the file.
        self.jobs = None;
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

impl fmt::Debug for RedbStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("RedbStore").finish_non_exhaustive()
    }
}

/// Size of a probe beyond that of the failed write.
const PROBE_MARGIN: usize = 256 * 1024;

/// Capacity of the write queue.
const WRITE_QUEUE: usize = 4096;
