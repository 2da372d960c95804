//! The writer thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime};

use super::chain::hex;
use super::entry::{Call, Denied, Entry};
use super::file::Log;

/// A job for the writer.
pub(super) enum Job {
    Call(Box<Call>),
    Denied(Box<Denied>),
    Reopen,
    End,
}

/// State shared between the writer and its callers.
#[derive(Default)]
pub(super) struct WriterState {
    /// Calls enqueued and not written yet.
    pub(super) waiting: AtomicUsize,
    /// Calls dropped and not reported yet.
    pub(super) lost: AtomicU64,
    /// Set when the log is closing.
    pub(super) ending: AtomicBool,
    /// Set while writing fails.
    pub(super) failing: AtomicBool,
}

pub(super) struct Writer {
    log: Log,
    shared: Arc<WriterState>,
    /// Lines in the chain that are not written yet.
    lines: Vec<u8>,
    /// Time of the first write that is not synced yet.
    unsynced_since: Option<Instant>,
}

impl Writer {
    pub(super) fn new(log: Log, shared: Arc<WriterState>) -> Self {
        Self { log, shared, lines: Vec::new(), unsynced_since: None }
    }

    pub(super) fn run(mut self, jobs: &Receiver<Job>) {
        let version = env!("CARGO_PKG_VERSION");
        self.add(SystemTime::now(), &Entry::Start { version, process: std::process::id() });
        self.write();
        while let Some(job) = self.next(jobs) {
            let (mut job, mut calls) = (Some(job), 0);
            // All pending entries are written at once.
            while let Some(one) = job.take() {
                match one {
                    Job::Call(call) => {
                        calls += 1;
                        self.add(call.at, &Entry::Call(call));
                    }
                    Job::Denied(denied) => self.add(denied.at, &Entry::Denied(*denied)),
                    Job::Reopen => self.reopen(),
                    Job::End => return self.end(),
                }
                if self.lines.len() < AT_ONCE {
                    job = jobs.try_recv().ok();
                }
            }
            let lost = self.shared.lost.swap(0, Ordering::Relaxed);
            if lost > 0 {
                tracing::warn!(lost, "audit entries were dropped");
                self.add(SystemTime::now(), &Entry::Lost { calls: lost });
            }
            self.write();
            self.shared.waiting.fetch_sub(calls, Ordering::Relaxed);
        }
        self.end();
    }

    /// Waits for a job; writes are synced within a second.
    fn next(&mut self, jobs: &Receiver<Job>) -> Option<Job> {
        if let Some(since) = self.unsynced_since {
            match jobs.recv_timeout(SYNC_INTERVAL.saturating_sub(since.elapsed())) {
                Ok(job) if since.elapsed() < SYNC_INTERVAL => return Some(job),
                Ok(job) => {
                    self.sync();
                    return Some(job);
                }
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => self.sync(),
            }
        }
        jobs.recv().ok()
    }

    fn add(&mut self, time: SystemTime, entry: &Entry) {
        self.log.chain.add(&mut self.lines, time, entry);
    }

    /// Writes all lines, however long it takes: meanwhile requests are rejected, or counted as
    /// lost. Only while closing it gives up after a few attempts.
    fn write(&mut self) {
        let (mut written, mut failures) = (0, 0);
        while written < self.lines.len() {
            match self.log.write(&self.lines[written..]) {
                Ok(more) if more > 0 => (written, failures) = (written + more, 0),
                result => {
                    failures += 1;
                    self.shared.failing.store(true, Ordering::Relaxed);
                    let error = result.err().map(|error| error.to_string()).unwrap_or_default();
                    let path = self.log.path().display();
                    if failures == 1 {
                        tracing::error!("writing the audit log {path} failed: {error}");
                    }
                    if failures >= LAST_TRIES && self.shared.ending.load(Ordering::Acquire) {
                        tracing::error!("the end of the audit log {path} is lost: {error}");
                        break;
                    }
                    std::thread::sleep(PAUSE);
                }
            }
        }
        self.shared.failing.store(failures > 0, Ordering::Relaxed);
        if written > 0 {
            self.unsynced_since.get_or_insert_with(Instant::now);
        }
        self.lines.clear();
    }

    fn sync(&mut self) {
        if let Err(error) = self.log.sync() {
            tracing::error!(%error, "syncing the audit log {} failed", self.log.path().display());
        }
        self.unsynced_since = None;
    }

    fn reopen(&mut self) {
        self.write();
        self.sync();
        if let Err(error) = self.log.reopen() {
            tracing::error!(
                "the audit log was not reopened, and continues in the old file: {error}"
            );
        }
    }

    fn end(mut self) {
        self.add(SystemTime::now(), &Entry::Stop {});
        self.write();
        self.sync();
        let chain = &self.log.chain;
        tracing::info!(
            entries = chain.sequence,
            hash = hex(&chain.last),
            "the audit log {} is closed",
            self.log.path().display()
        );
    }
}

/// Most bytes written at once.
const AT_ONCE: usize = 256 * 1024;

/// Time until a write is synced.
const SYNC_INTERVAL: Duration = Duration::from_secs(1);

const PAUSE: Duration = Duration::from_millis(500);

/// Attempts to write the last lines while closing.
const LAST_TRIES: u32 = 6;
