//! Who called what with which outcome, in a file where nothing can be changed unseen.
//!
//! Each line is one JSON object, with the hash of the line before it and its own: SHA-256 of its
//! bytes up to `,"hash"`, or with a key HMAC-SHA-256, so that only who has the key can write a line
//! that fits. A line that is changed, taken out, put in or moved breaks the chain at that place,
//! which [`verify`] names. What is cut off at the end is noticed by whoever has noted a later hash;
//! the log of the program tells the last one when it ends.
//!
//! Arguments and results are not in it.
//!
//! Lines are written by one thread. Calls hand over what is to be written after they are answered,
//! and wait for nothing: a disk that is full must not hold up signals, timers and questions after
//! health. When the thread is [`QUEUE`] lines behind, requests are refused before they begin, unless
//! [`Full::Drop`] says that lines may be lost, which a line of the log then counts. A process that is killed loses what it had not written,
//! which is a few lines, and may leave half a line; the next one marks that and goes on.

mod chain;
mod entry;
mod file;
mod verify;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::{fmt, io};

use mcp_flow_proto::error::OVERLOADED;
use mcp_flow_proto::method;
use mcp_flow_seal::file::KeyFileError;
use mcp_flow_seal::{Key, KeyRing};
use mcp_flow_server::observe::Denial;
use mcp_flow_server::{Detail, Observed, Observer};

pub use verify::{Broken, Expected, Verified, VerifyError, verify};

use entry::{Call, Denied};
use file::Log;
use writer::{Job, Shared, Writer};

/// An audit log that is written to. A handle; clones are the same.
///
/// ```
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("audit.jsonl");
/// use mcp_flow_server::Server;
/// use mcp_flow_observability::audit::{Audit, Expected, Full, verify};
///
/// let audit = Audit::open(&path, None, Full::Wait).unwrap();
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
    shared: Arc<Shared>,
    full: Full,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// What happens to calls when lines cannot be written as fast as they come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Full {
    /// Requests are refused and told to wait, so that nothing happens that is not written down.
    #[default]
    Wait,
    /// Calls go on; how many lines are missing is written down when there is room again.
    Drop,
}

impl Audit {
    /// Opens a log, or makes it, readable by its owner alone. One that exists is gone on with if
    /// its last line fits; half a line at the end is marked as such.
    ///
    /// With a key file lines are made by its first key, and read by any.
    pub fn open(path: &Path, key_file: Option<&Path>, full: Full) -> Result<Self, OpenError> {
        let keys = key_file.map(keys).transpose()?;
        let log = Log::open(path, keys)?;
        let (jobs, waiting) = channel();
        let shared = Arc::<Shared>::default();
        let writer = Writer::new(log, shared.clone());
        let thread = std::thread::Builder::new().name("audit".to_owned());
        let thread = thread.spawn(move || writer.run(&waiting));
        let thread = thread.map_err(|error| OpenError::Io { path: path.to_owned(), error })?;
        let thread = Mutex::new(Some(thread));
        Ok(Self { inner: Arc::new(Inner { path: path.to_owned(), jobs, shared, full, thread }) })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// Whether lines can be written, as far as is known.
    pub fn is_working(&self) -> bool {
        !self.inner.shared.failing.load(Ordering::Relaxed)
    }

    /// Opens the file again by its name, after what is written already: for when it was moved away
    /// to begin another. The chain goes on from one file to the next.
    pub fn reopen(&self) {
        // The writer is gone only when the log is closed.
        let _ = self.inner.jobs.send(Job::Reopen);
    }

    /// Writes what is still to be written, and ends. What is called after this is not written.
    pub fn close(&self) {
        self.inner.close();
    }
}

impl Inner {
    fn close(&self) {
        self.shared.ending.store(true, Ordering::Release);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = self.jobs.send(Job::End);
            // It does not panic; if it did, that has been told already.
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
        // What was refused may be any number, and pings; what has begun is bounded, and all of it is
        // written down.
        let may_be_lost = || match full {
            Full::Wait => {
                exchange.outcome_name() == OVERLOADED.name
                    || exchange.method == method::PING
                    || (exchange.outcome.is_err() && waiting >= 2 * QUEUE)
            }
            Full::Drop => true,
        };
        if waiting >= QUEUE && may_be_lost() {
            shared.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        shared.waiting.fetch_add(1, Ordering::Relaxed);
        // It fails when the log is closed, and then nobody is served any more.
        let _ = jobs.send(Job::Call(Box::new(Call::new(exchange))));
    }

    fn denied(&self, denial: &Denial<'_>) {
        // One in a second at most: there is always room for those.
        let _ = self.inner.jobs.send(Job::Denied(Box::new(Denied::new(denial))));
    }

    fn has_room(&self) -> bool {
        let Inner { shared, full, .. } = &*self.inner;
        *full == Full::Drop || shared.waiting.load(Ordering::Relaxed) < QUEUE
    }
}

impl fmt::Debug for Audit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Audit").field("path", &self.inner.path).finish_non_exhaustive()
    }
}

/// Why an audit log cannot be written to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// It cannot be read or written.
    #[error("the audit log {} cannot be used", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        #[source]
        error: io::Error,
    },
    /// Another process writes to it.
    #[error("the audit log {} is another server's; give each a file of its own", path.display())]
    Taken {
        /// The file.
        path: PathBuf,
    },
    /// It is a folder, a pipe or a device.
    #[error("the audit log {} is no plain file", path.display())]
    NoFile {
        /// What is there.
        path: PathBuf,
    },
    /// What is in it cannot be gone on with.
    #[error(
        "the last line of the audit log {} does not fit: it was changed, or written with another \
         key or without one. Run `mcp-flow audit verify` on it, then move it away so that a new \
         one is begun",
        path.display()
    )]
    Broken {
        /// The file.
        path: PathBuf,
    },
    /// The key cannot be had.
    #[error(transparent)]
    Key(#[from] KeyFileError),
    /// No key can be made.
    #[error("the system has no randomness to make a key of")]
    NoRandomness,
}

/// The keys in a file, which is made if it is not there.
fn keys(path: &Path) -> Result<KeyRing, OpenError> {
    let mut secret = [0; Key::LENGTH];
    getrandom::fill(&mut secret).map_err(|_| OpenError::NoRandomness)?;
    Ok(mcp_flow_seal::file::load_or_create(path, Key::from_bytes(secret))?)
}

/// How many lines may wait to be written before requests are refused.
pub const QUEUE: usize = 4096;
