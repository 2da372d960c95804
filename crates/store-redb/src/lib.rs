//! Journals in one file.
//!
//! [`RedbStore`] keeps the journals of sessions in a redb database. Appends that arrive while one
//! is being made durable share the next commit, so many sessions at once cost hardly more than
//! one. What is in them is sealed ([`keys`]); where they stand and when they are due is not, so
//! that a million sessions that wait need no memory and no time when the file is opened.
//!
//! # Layout, format 1
//!
//! | table | key | value |
//! |---|---|---|
//! | `meta` | `format` | the number 1, four bytes |
//! | `meta` | `seal` | a known text, sealed: whether the keys are right |
//! | `meta` | `probe` | zeros, for a moment: whether there is room on the disk |
//! | `journal` | id, number of the first event | head of the row, then sealed events |
//! | `owners` | first half of SHA-256 of the owner, id | nothing |
//! | `working` | id | nothing: a flow is at work and must be taken up after a crash |
//! | `ended` | id | nothing: it is over, and only its end is remembered |
//! | `deadlines` | time, id | nothing: not due before that time |
//! | `turns` | id | the last turn of a session that its client carries, and until when it matters |
//! | `turn_deadlines` | time, id | nothing: the same by time |
//!
//! The head of a row, little-endian: state (1 byte), number of events up to the end of this row
//! (4), last activity (8), deadline (8), and under which time it stands in `deadlines` (8); the
//! greatest number means never. All but the last are bound to the seal, with the key of the row.
//! In the first row of a session the half hash of its owner follows. What is sealed are JSON texts,
//! one to a line: in the first row flow, owner and birth, then the events. The head of the last row
//! of a session is the one that counts.
//!
//! An answer moves the deadline of its session; `deadlines` is not touched for that, since the
//! time it has is early enough. Whoever finds it too early moves it.

mod commit;
mod create;
mod database;
mod error;
pub mod keys;
mod read;
mod row;
mod tables;
mod turns;

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use mcp_flow_seal::KeyRing;
use mcp_flow_session::store::{
    Append, Census, Filter, LastTurn, Listed, Page, ReplayGuard, Reply, Store, StoreError,
};
use mcp_flow_session::{Event, SessionId, Timestamp};
use redb::{Builder, Database, DatabaseError};
use tokio::sync::mpsc;

use commit::{Job, Write};
use database::Shelf;
use row::Row;

pub use error::OpenError;

/// Keeps journals in one file.
///
/// One process at a time can have it open. Dropping it waits until what is under way is written.
pub struct RedbStore {
    shelf: Arc<Shelf>,
    /// None only while it is being dropped.
    jobs: Option<mpsc::Sender<Job>>,
    writer: Option<JoinHandle<()>>,
}

impl RedbStore {
    /// Opens a file of journals, or makes it, with the keys [found](keys::find) for it.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join(".mcp-flow/journal.redb");
    /// # let path = path.to_str().unwrap();
    /// use mcp_flow_store_redb::RedbStore;
    ///
    /// let store = RedbStore::open(path).unwrap();
    /// // Nobody else can have it meanwhile.
    /// let refused = RedbStore::open(path).unwrap_err();
    /// assert!(refused.to_string().contains("another process"));
    /// # drop(store);
    /// ```
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        let path = path.as_ref();
        let keys = keys::find(path)?;
        Self::open_with_keys(path, keys)
    }

    /// Opens a file of journals, or makes it, with these keys.
    pub fn open_with_keys(path: impl AsRef<Path>, keys: KeyRing) -> Result<Self, OpenError> {
        let path = path.as_ref();
        create::database(path, &database::builder())?;
        let file = path.to_owned();
        let store = Self::open_from(move |builder| builder.create(&file), keys)?;
        create::clean_up(path);
        Ok(store)
    }

    /// Opens journals wherever `open` has them: for backends that are no files.
    ///
    /// It is called again whenever writing has failed, to find out what became of it.
    pub fn open_from(
        open: impl Fn(&Builder) -> Result<Database, DatabaseError> + Send + Sync + 'static,
        keys: KeyRing,
    ) -> Result<Self, OpenError> {
        let shelf = Arc::new(Shelf::open(Box::new(open), keys)?);
        let (jobs, incoming) = mpsc::channel(MOST_WAITING);
        let writer = {
            let shelf = Arc::clone(&shelf);
            std::thread::Builder::new()
                .name("journal".into())
                .spawn(move || commit::run(&shelf, incoming))
                .map_err(OpenError::Io)?
        };
        Ok(Self { shelf, jobs: Some(jobs), writer: Some(writer) })
    }

    /// Has the writer do something, and waits until it is durable.
    async fn submit(&self, write: Write) -> Result<(), StoreError> {
        let (job, done) = Job::new(write);
        let jobs = self.jobs.as_ref().ok_or(StoreError::Closed)?;
        jobs.send(job).await.map_err(|_| StoreError::Closed)?;
        done.await.map_err(|_| StoreError::Closed)?
    }

    /// Reads on a thread that may wait for the disk.
    async fn blocking<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Shelf) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let shelf = Arc::clone(&self.shelf);
        tokio::task::spawn_blocking(move || read(&shelf)).await.map_err(|_| StoreError::Closed)?
    }
}

impl Store for RedbStore {
    fn read(&self, id: SessionId) -> Reply<'_, Vec<Event>> {
        Box::pin(self.blocking(move |shelf| read::journal(shelf, id)))
    }

    fn append(&self, append: Append) -> Reply<'_, ()> {
        Box::pin(async move {
            if append.events.is_empty() {
                return Ok(());
            }
            // Sealed here, so that it happens on many threads; only writing takes its turn.
            let row = Row::seal(&append, &self.shelf.keys)?;
            self.submit(Write::Append(row)).await
        })
    }

    fn list(&self, filter: Filter, page: Page) -> Reply<'_, Vec<Listed>> {
        Box::pin(self.blocking(move |shelf| read::list(shelf, &filter, page)))
    }

    fn due(&self, time: Timestamp, most: usize) -> Reply<'_, Vec<SessionId>> {
        Box::pin(async move {
            loop {
                let found = self.blocking(move |shelf| read::due(shelf, time, most)).await?;
                if found.early.is_empty() {
                    return Ok(found.due);
                }
                // The index was too early for some; with those moved, what is due comes in order.
                self.submit(Write::Reindex(found.early)).await?;
            }
        })
    }

    fn census(&self) -> Reply<'_, Census> {
        Box::pin(self.blocking(read::census))
    }

    fn erase(&self, id: SessionId) -> Reply<'_, ()> {
        Box::pin(self.submit(Write::Erase(id)))
    }

    fn probe(&self) -> Reply<'_, ()> {
        Box::pin(async move {
            let failed = self.shelf.failed();
            if failed > 0 {
                // More than what failed: with its rows, nodes of the trees are written again.
                let size = failed + PROBE_MARGIN;
                self.submit(Write::Probe(size)).await?;
            }
            self.submit(Write::Probe(0)).await
        })
    }
}

impl ReplayGuard for RedbStore {
    fn last_turn(&self, id: SessionId) -> Reply<'_, Option<u64>> {
        Box::pin(self.blocking(move |shelf| turns::last(shelf, id)))
    }

    fn keep_turn(&self, turn: LastTurn) -> Reply<'_, ()> {
        Box::pin(self.submit(Write::Turn(turn)))
    }
}

impl Drop for RedbStore {
    fn drop(&mut self) {
        // The writer ends when nobody can send to it any more; then the file is free.
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

/// Margin of a probe beyond the size of the write that failed.
const PROBE_MARGIN: usize = 256 * 1024;

/// How many writes may wait for their turn; who comes after waits to be one of them.
const MOST_WAITING: usize = 4096;
