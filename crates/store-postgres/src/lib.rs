//! Store of journals in PostgreSQL, for any number of nodes.
//!
//! [`PostgresStore`] sends all appends that wait as one statement, conditional on the head of each
//! session. Changes are announced by `NOTIFY`, gathered and outside of the appends, since a
//! notification takes a lock of the whole server. Where notifications do not arrive, as behind a
//! connection pooler, nodes poll. Events are encrypted ([`keys`]).
//!
//! # Schema, format 1
//!
//! | table | row | content |
//! |---|---|---|
//! | `mcp_flow_meta` | `format`, `seal` | number of the format; a known text, sealed, to check the keys |
//! | `mcp_flow_session` | session | its head: length, state, deadline, holder, hash of its owner |
//! | `mcp_flow_journal` | append | its events, sealed: a row of [`mcp_flow_store_rows`] |
//! | `mcp_flow_node` | node | its lease, by the clock of the server |
//! | `mcp_flow_message` | message between nodes | sealed, for a few seconds |
//! | `mcp_flow_record` | value that a node holds and others may take | sealed |
//! | `mcp_flow_turn` | client-held session | its last turn |
//!
//! The tables are created by whoever connects first, under a lock. After that a role needs only
//! `SELECT`, `INSERT`, `UPDATE` and `DELETE` on them, and `USAGE` of their sequences.

mod append;
mod changes;
mod error;
mod examine;
mod link;
mod node;
mod read;
mod record;
mod replay_guard;
mod schema;
mod server_clock;
mod tls;
mod url;

use std::fmt;
use std::sync::Arc;
use std::thread::JoinHandle;

use mcp_flow_seal::KeyRing;
use mcp_flow_session::store::{
    Append, Census, Filter, LastTurn, Listed, PageRequest, Phase, ReplayGuard, SharedStore, Store,
    StoreError, StoreFuture,
};
use mcp_flow_session::{JournalEvent, SessionId, Timestamp};
use mcp_flow_store_rows::JournalRow;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio_postgres::types::{ToSql, Type};

use append::{AppendJob, run_writer};
use changes::run_notifier;
use link::Link;
use server_clock::ServerClock;

pub use mcp_flow_store_rows::{StoreOpenError, keys};
pub use url::{BadPostgresUrl, PostgresUrl};

/// Store of journals in PostgreSQL.
///
/// It connects when it is used, and again after a connection was lost. Its connections are served
/// by a thread of their own, so that heartbeats do not wait for whatever else the program does.
pub struct PostgresStore {
    core: Arc<Core>,
    handle: Handle,
    /// Ends the thread when dropped.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// State shared by the tasks of a store.
pub(crate) struct Core {
    keys: KeyRing,
    url: PostgresUrl,
    /// Reads.
    reader: Link,
    /// Heartbeats, which wait for nothing else.
    lease: Link,
    /// Claims and messages, which need not be durable: see [`NOT_DURABLE`].
    control: Link,
    /// Whatever else is durable.
    durable: Link,
    clock: ServerClock,
    appends: mpsc::Sender<AppendJob>,
    /// Sessions that this node has changed, with its epoch, to be announced.
    changed: mpsc::UnboundedSender<(u64, SessionId)>,
}

impl PostgresStore {
    /// Connects, creates the tables unless they exist, and checks format and keys.
    pub fn open(url: &PostgresUrl, keys: KeyRing) -> Result<Self, StoreOpenError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(StoreOpenError::Io)?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        let (opened, open) = std::sync::mpsc::channel();
        let url = url.clone();
        let thread = std::thread::Builder::new().name("postgres".into()).spawn(move || {
            runtime.block_on(async move {
                match Core::open(url, keys).await {
                    Ok((core, appends, changed)) => {
                        let core = Arc::new(core);
                        let _ = opened.send(Ok(Arc::clone(&core)));
                        let writer = run_writer(&core, appends);
                        let notifier = run_notifier(&core, changed);
                        tokio::select! {
                            ((), ()) = async { tokio::join!(writer, notifier) } => {}
                            _ = stopped => {}
                        }
                    }
                    Err(error) => _ = opened.send(Err(error)),
                }
            });
        });
        let thread = thread.map_err(StoreOpenError::Io)?;
        let core = open.recv().map_err(|_| {
            StoreOpenError::Unreachable("its thread has ended before it was open".to_owned())
        })??;
        Ok(Self { core, handle, stop: Some(stop), thread: Some(thread) })
    }

    /// Runs work on the thread of the connections.
    async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.handle.spawn(work).await.map_err(|_| StoreError::Closed)?
    }
}

impl Core {
    async fn open(
        url: PostgresUrl,
        keys: KeyRing,
    ) -> Result<
        (Self, mpsc::Receiver<AppendJob>, mpsc::UnboundedReceiver<(u64, SessionId)>),
        StoreOpenError,
    > {
        let durable = Link::new(&url)?;
        schema::prepare(&durable, &keys).await?;
        let (reader, lease, control) = (Link::new(&url)?, Link::new(&url)?, Link::new(&url)?);
        let (appends, waiting) = mpsc::channel(WRITE_QUEUE);
        let (changed, announced) = mpsc::unbounded_channel();
        let clock = ServerClock::default();
        Ok((
            Self { keys, url, reader, lease, control, durable, clock, appends, changed },
            waiting,
            announced,
        ))
    }
}

impl Store for PostgresStore {
    fn read(&self, id: SessionId) -> StoreFuture<'_, Vec<JournalEvent>> {
        let core = Arc::clone(&self.core);
        Box::pin(async move {
            let rows = self.run(async move { read::rows(&core, id).await }).await?;
            mcp_flow_store_rows::read_events(id, rows, &self.core.keys)
        })
    }

    fn append(&self, append: Append) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            if append.events.is_empty() {
                return Ok(());
            }
            // Encrypted here, on the caller's thread.
            let row = JournalRow::seal(&append, &self.core.keys)?;
            let (job, done) = AppendJob::new(row, append.fence);
            self.core.appends.send(job).await.map_err(|_| StoreError::Closed)?;
            done.await.map_err(|_| StoreError::Closed)?
        })
    }

    fn list(&self, filter: Filter, page: PageRequest) -> StoreFuture<'_, Vec<Listed>> {
        let core = Arc::clone(&self.core);
        Box::pin(self.run(async move { read::list(&core, &filter, page).await }))
    }

    fn due(&self, time: Timestamp, most: usize) -> StoreFuture<'_, Vec<SessionId>> {
        let core = Arc::clone(&self.core);
        Box::pin(self.run(async move { read::due(&core, time, most).await }))
    }

    fn census(&self) -> StoreFuture<'_, Census> {
        let core = Arc::clone(&self.core);
        Box::pin(self.run(async move { read::census(&core).await }))
    }

    fn erase(&self, id: SessionId) -> StoreFuture<'_, ()> {
        let core = Arc::clone(&self.core);
        Box::pin(self.run(async move { append::erase(&core, id).await }))
    }

    fn probe(&self) -> StoreFuture<'_, ()> {
        let core = Arc::clone(&self.core);
        Box::pin(self.run(async move { append::probe(&core).await }))
    }

    fn shared(&self) -> Option<&dyn SharedStore> {
        Some(self)
    }
}

impl ReplayGuard for PostgresStore {
    fn last_turn(&self, id: SessionId) -> StoreFuture<'_, Option<u64>> {
        let core = Arc::clone(&self.core);
        Box::pin(self.run(async move { replay_guard::last(&core, id).await }))
    }

    fn keep_turn(&self, turn: LastTurn) -> StoreFuture<'_, ()> {
        let core = Arc::clone(&self.core);
        Box::pin(self.run(async move { replay_guard::keep(&core, &turn).await }))
    }
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("PostgresStore").field("url", &self.core.url).finish_non_exhaustive()
    }
}

/// A parameter of a statement with its type. Statements are not prepared by name, so that they work
/// behind a connection pooler.
type Param<'a> = (&'a (dyn ToSql + Sync), Type);

/// SQL condition, always true, of statements that are committed without waiting for the disk: what a
/// crash of the server loses of them does no harm. A slow disk would delay heartbeats, so that all
/// nodes lose their leases.
///
/// What a node did before is durable together with its next append. So a claim that was lost has
/// caused nothing, and the fence refuses its node. Renewals of leases that were lost are sent again
/// before anybody expires: see `EXPIRE`. Messages may be lost anyway.
const NOT_DURABLE: &str = "(SELECT set_config('synchronous_commit', 'off', true)) = 'off'";

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
fn key(id: SessionId) -> Vec<u8> {
    id.bits().to_be_bytes().to_vec()
}

fn session_id(key: &[u8]) -> Option<SessionId> {
    Some(SessionId::from_random(u128::from_be_bytes(key.try_into().ok()?)))
}

/// Number of milliseconds in the database. Later than all that fit is the latest that fits.
fn millis(time: u64) -> i64 {
    i64::try_from(time).unwrap_or(i64::MAX)
}

/// Capacity of the write queue.
const WRITE_QUEUE: usize = 4096;
