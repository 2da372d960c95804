//! Group commit: writes that arrive during a commit share the next one.

use std::error::Error as _;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use mcp_flow_session::StoreError;
use mcp_flow_store_rows::StoreOpenError;
use rusqlite::{Connection, TransactionBehavior};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use crate::error::{LOCKED, open_error, store_error};
use crate::schema::{connect, turn_file};

/// Thread that writes to the database.
pub(crate) struct Writer {
    /// None only during drop.
    jobs: Option<mpsc::Sender<Box<dyn Job>>>,
    thread: Option<JoinHandle<()>>,
    failed: Arc<AtomicUsize>,
}

/// A write that several share a transaction with.
trait Job: Send {
    /// Approximate bytes of the write.
    fn size(&self) -> usize;

    /// Writes. A conflict is a result, and fails no other write; a failure fails the transaction.
    fn write(&mut self, writing: &Connection) -> rusqlite::Result<()>;

    /// Reports the result to the caller, or why the transaction failed.
    fn finish(self: Box<Self>, committed: Result<(), StoreError>);
}

struct Write<T, F> {
    size: usize,
    work: F,
    written: Option<Result<T, StoreError>>,
    progress: Arc<AtomicU8>,
    done: oneshot::Sender<Result<T, StoreError>>,
}

impl<T, F> Job for Write<T, F>
where
    T: Send,
    F: FnMut(&Connection) -> rusqlite::Result<Result<T, StoreError>> + Send,
{
    fn size(&self) -> usize {
        self.size
    }

    fn write(&mut self, writing: &Connection) -> rusqlite::Result<()> {
        let begun =
            self.progress.compare_exchange(WAITING, WRITING, Ordering::AcqRel, Ordering::Acquire);
        if begun.is_ok() {
            self.written = Some((self.work)(writing)?);
        }
        Ok(())
    }

    fn finish(self: Box<Self>, committed: Result<(), StoreError>) {
        let written = self.written.unwrap_or(Err(StoreError::Closed));
        // The caller may have gone away.
        let _ = self.done.send(committed.and(written));
    }
}

impl Writer {
    /// Starts a writer with a connection of its own.
    pub(crate) fn start(path: &Path, is_durable: bool) -> Result<Self, StoreOpenError> {
        let failed = Arc::new(AtomicUsize::new(0));
        let mut database = Database {
            path: path.to_owned(),
            is_durable,
            turn: turn_file(path).map_err(StoreOpenError::Io)?,
            connection: Some(connect(path, is_durable).map_err(open_error)?),
        };
        let (jobs, incoming) = mpsc::channel(WRITE_QUEUE);
        let known = Arc::clone(&failed);
        let thread = std::thread::Builder::new()
            .name("journal".into())
            .spawn(move || run(&mut database, incoming, &known))
            .map_err(StoreOpenError::Io)?;
        Ok(Self { jobs: Some(jobs), thread: Some(thread), failed })
    }

    /// Submits a write of about this size, and waits until it is committed. If its turn does not
    /// come, because another process was stopped in the middle of a write, it is withdrawn.
    pub(crate) async fn submit<T: Send + 'static>(
        &self,
        size: usize,
        work: impl FnMut(&Connection) -> rusqlite::Result<Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (done, mut result) = oneshot::channel();
        let progress = Arc::new(AtomicU8::new(WAITING));
        let job =
            Box::new(Write { size, work, written: None, progress: Arc::clone(&progress), done });
        let jobs = self.jobs.as_ref().ok_or(StoreError::Closed)?;
        let written = async {
            jobs.send(job).await.map_err(|_| StoreError::Closed)?;
            (&mut result).await.map_err(|_| StoreError::Closed)?
        };
        if let Ok(written) = timeout(TURN_TIMEOUT, written).await {
            return written;
        }
        let withdrawn =
            progress.compare_exchange(WAITING, WITHDRAWN, Ordering::AcqRel, Ordering::Acquire);
        match withdrawn {
            Ok(_) => Err(StoreError::Unavailable(LOCKED.to_owned())),
            Err(_) => result.await.map_err(|_| StoreError::Closed)?,
        }
    }

    /// Returns the size of the largest failed write, or 0. A full disk still takes small writes, so
    /// only one as large shows that there is space again.
    pub(crate) fn failed_size(&self) -> usize {
        self.failed.load(Ordering::Relaxed)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // The thread ends when its channel is closed.
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Connection of a writer, opened again after a failure.
struct Database {
    path: PathBuf,
    is_durable: bool,
    turn: File,
    connection: Option<Connection>,
}

impl Database {
    /// Writes all jobs in one transaction.
    fn commit(&mut self, jobs: &mut [Box<dyn Job>]) -> Result<(), StoreError> {
        // Released on drop, also of this process by the system.
        self.turn.lock().map_err(|error| StoreError::Backend(Box::new(error)))?;
        let committed = self.write(jobs);
        let _ = self.turn.unlock();
        committed.map_err(|error| {
            self.connection = None;
            store_error(error)
        })
    }

    fn write(&mut self, jobs: &mut [Box<dyn Job>]) -> rusqlite::Result<()> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            closed => closed.insert(connect(&self.path, self.is_durable)?),
        };
        let writing = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        for job in jobs {
            job.write(&writing)?;
        }
        writing.commit()
    }
}

fn run(database: &mut Database, mut incoming: mpsc::Receiver<Box<dyn Job>>, failed: &AtomicUsize) {
    let mut jobs = Vec::with_capacity(BATCH_LIMIT);
    while incoming.blocking_recv_many(&mut jobs, BATCH_LIMIT) > 0 {
        let size: usize = jobs.iter().map(|job| job.size()).sum();
        let committed = database.commit(&mut jobs);
        match &committed {
            Ok(()) if size >= failed.load(Ordering::Relaxed) => failed.store(0, Ordering::Relaxed),
            Ok(()) => {}
            Err(error) => {
                let cause = error.source().map(tracing::field::display);
                tracing::error!(%error, cause, "cannot write to the store");
                failed.fetch_max(size.min(PROBE_LIMIT), Ordering::Relaxed);
            }
        }
        for job in jobs.drain(..) {
            job.finish(match &committed {
                Ok(()) => Ok(()),
                Err(StoreError::Full) => Err(StoreError::Full),
                Err(StoreError::Unavailable(reason)) => {
                    Err(StoreError::Unavailable(reason.clone()))
                }
                Err(error) => Err(StoreError::Backend(
                    error.source().map_or_else(|| error.to_string(), ToString::to_string).into(),
                )),
            });
        }
    }
}

/// Progress of a write: it waits for its turn, is being written, or its caller has given up.
const WAITING: u8 = 0;
const WRITING: u8 = 1;
const WITHDRAWN: u8 = 2;

/// Longest time for which a write waits for its turn.
const TURN_TIMEOUT: Duration = Duration::from_secs(3);

/// Most writes of one commit: few enough that other processes get their turn soon.
const BATCH_LIMIT: usize = 512;

/// Capacity of the write queue.
const WRITE_QUEUE: usize = 4096;

/// Largest probe: it must not fill the disk itself.
const PROBE_LIMIT: usize = 16 * 1024 * 1024;
