//! Tamper-evident audit log of calls: principal, target and outcome.
//!
//! Each line is one JSON object with the hash of the line before it and its own: SHA-256 of its
//! bytes up to `,"hash"`, or with a key HMAC-SHA-256, so that only a holder of the key can append a
//! valid line. Changing, removing, inserting or moving a line breaks the hash chain there, which
//! [`verify`] reports. Truncation is detected by comparing with a later hash; the program logs the
//! last one when it closes the log.
//!
//! Arguments and results are not recorded.
//!
//! One thread writes. Calls enqueue their entry after they are answered and never block: a full
//! disk must not hold up signals, timers and health checks. When the writer is [`QUEUE`] lines
//! behind, new requests are rejected, unless [`OverflowPolicy::Drop`] allows entries to be lost, which a
//! later entry then counts. A killed process loses the few lines it had not written, and may leave
//! an incomplete line; the next one marks it and continues.

mod chain;
mod entry;
mod file;
mod verify;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::{fmt, io};

use mcp_flow_proto::error::OVERLOADED;
use mcp_flow_proto::method;
use mcp_flow_seal::file::KeyFileError;
use mcp_flow_seal::{Key, KeyRing};
use mcp_flow_server::observe::Denial;
use mcp_flow_server::{Detail, Observed, Observer};
use parking_lot::Mutex;

pub use verify::{ChainError, Expected, Verified, VerifyError, verify};

use entry::{Call, Denied};
use file::Log;
use writer::{Job, Writer, WriterState};

/// An audit log open for writing. A handle; clones share the log.
///
/// ```
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("audit.jsonl");
/// use mcp_flow_server::Server;
/// use mcp_flow_observability::audit::{Audit, Expected, OverflowPolicy, verify};
///
/// let audit = Audit::open(&path, None, OverflowPolicy::Reject).unwrap();
/// let server = Server::builder("demo", "1.0.0").observer(audit.clone()).build().unwrap();
/// // … serve …
/// audit.close();
/// assert_eq!(verify(&[path], None, &Expected::default()).unwrap().entries, 2);
/// ```
#[derive(Clone)]
pub struct Audit {
    inner: Arc<Inner>,
}

struct Inner {
    path: PathBuf,
    jobs: Sender<Job>,
    shared: Arc<WriterState>,
    full: OverflowPolicy,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// Policy when entries arrive faster than they can be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OverflowPolicy {
    /// Rejects requests with a time to retry after, so that nothing goes unrecorded.
    #[default]
    Reject,
    /// Continues; the number of lost entries is recorded once there is room.
    Drop,
}

impl Audit {
    /// Opens or creates a log, readable by its owner alone. An existing log is continued if its
    /// last line is valid; an incomplete line at the end is marked.
    ///
    /// With a key file, lines are signed with its first key and verified with any.
    pub fn open(
        path: &Path,
        key_file: Option<&Path>,
        full: OverflowPolicy,
    ) -> Result<Self, AuditError> {
        let keys = key_file.map(keys).transpose()?;
        let log = Log::open(path, keys)?;
        let (jobs, waiting) = channel();
        let shared = Arc::<WriterState>::default();
        let writer = Writer::new(log, shared.clone());
        let thread = std::thread::Builder::new().name("audit".to_owned());
        let thread = thread.spawn(move || writer.run(&waiting));
        let thread = thread.map_err(|error| AuditError::Io { path: path.to_owned(), error })?;
        let thread = Mutex::new(Some(thread));
        Ok(Self { inner: Arc::new(Inner { path: path.to_owned(), jobs, shared, full, thread }) })
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// Returns whether lines can be written, as far as known.
    pub fn is_working(&self) -> bool {
        !self.inner.shared.failing.load(Ordering::Relaxed)
    }

    /// Reopens the file by its name, for log rotation. The chain continues from one file to the
    /// next.
    pub fn reopen(&self) {
        // The writer ends only when the log is closed.
        let _ = self.inner.jobs.send(Job::Reopen);
    }

    /// Writes pending entries and closes the log. Later calls are not recorded.
    pub fn close(&self) {
        self.inner.close();
    }
}

impl Inner {
    fn close(&self) {
        self.shared.ending.store(true, Ordering::Release);
        let thread = self.thread.lock().take();
        if let Some(thread) = thread {
            let _ = self.jobs.send(Job::End);
            // The thread does not panic; if it did, that was logged.
            let _ = thread.join();
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.close();
    }
}

impl Observer for Audit {
    fn detail(&self) -> Detail {
        Detail::Outline
    }

    fn observe(&self, exchange: &Observed<'_>) {
        let Inner { jobs, shared, full, .. } = &*self.inner;
        let waiting = shared.waiting.load(Ordering::Relaxed);
        // Rejected requests and pings are unbounded and may be dropped; calls that ran are bounded
        // and all recorded.
        let may_be_lost = || match full {
            OverflowPolicy::Reject => {
                exchange.outcome_name() == OVERLOADED.name
                    || exchange.method == method::PING
                    || (exchange.outcome.is_err() && waiting >= 2 * QUEUE)
            }
            OverflowPolicy::Drop => true,
        };
        if waiting >= QUEUE && may_be_lost() {
            shared.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        shared.waiting.fetch_add(1, Ordering::Relaxed);
        // Fails only once the log is closed, and then nothing is served.
        let _ = jobs.send(Job::Call(Box::new(Call::new(exchange))));
    }

    fn denied(&self, denial: &Denial<'_>) {
        // At most one per second, so there is always room.
        let _ = self.inner.jobs.send(Job::Denied(Box::new(Denied::new(denial))));
    }

    fn has_room(&self) -> bool {
        let Inner { shared, full, .. } = &*self.inner;
        *full == OverflowPolicy::Drop || shared.waiting.load(Ordering::Relaxed) < QUEUE
    }
}

impl fmt::Debug for Audit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Audit").field("path", &self.inner.path).finish_non_exhaustive()
    }
}

/// Error while opening an audit log.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuditError {
    /// It cannot be read or written.
    #[error("the audit log {} cannot be used", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        error: io::Error,
    },
    /// Another process has it open.
    #[error("the audit log {} is open in another process; give each server its own file", path.display())]
    Taken {
        /// The file.
        path: PathBuf,
    },
    /// It is a directory, a pipe or a device.
    #[error("the audit log {} is not a regular file", path.display())]
    NoFile {
        /// The path.
        path: PathBuf,
    },
    /// Its last line is invalid.
    #[error(
        "the last line of the audit log {} is invalid: it was changed, or written with another \
         key or without one. Run `mcp-flow audit verify` on it, then move it away to start a new one",
        path.display()
    )]
    Broken {
        /// The file.
        path: PathBuf,
    },
    /// The key cannot be loaded.
    #[error(transparent)]
    Key(#[from] KeyFileError),
    /// No key can be generated.
    #[error("the system's random number generator failed; no key can be generated")]
    NoRandomness,
}

/// Loads the keys of a file, which is created if missing.
fn keys(path: &Path) -> Result<KeyRing, AuditError> {
    let mut secret = [0; Key::LENGTH];
    getrandom::fill(&mut secret).map_err(|_| AuditError::NoRandomness)?;
    Ok(mcp_flow_seal::file::load_or_create(path, Key::from_bytes(secret))?)
}

/// Entries that may wait to be written before requests are rejected.
pub const QUEUE: usize = 4096;
