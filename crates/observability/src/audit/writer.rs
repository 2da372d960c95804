//! The one thread that writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime};

use super::chain::hex;
use super::entry::{Call, Denied, Entry};
use super::file::Log;

/// What the thread is handed.
pub(super) enum Job {
    Call(Box<Call>),
    Denied(Box<Denied>),
    Reopen,
    End,
}

/// What it shares with those who hand it something.
#[derive(Default)]
pub(super) struct Shared {
    /// Calls that were handed over and are not written yet.
    pub(super) waiting: AtomicUsize,
    /// Calls there was no room for, and that were not told of yet.
    pub(super) lost: AtomicU64,
    /// Whether nothing is worth waiting for any more.
    pub(super) ending: AtomicBool,
    /// Whether lines cannot be written at the moment.
    pub(super) failing: AtomicBool,
}

pub(super) struct Writer {
    log: Log,
    shared: Arc<Shared>,
    /// Lines that belong to the chain and are not written yet.
    lines: Vec<u8>,
    /// Since when something is written that might not outlive the machine.
    unsafe_since: Option<Instant>,
}

impl Writer {
    pub(super) fn new(log: Log, shared: Arc<Shared>) -> Self {
        Self { log, shared, lines: Vec::new(), unsafe_since: None }
    }

    pub(super) fn run(mut self, jobs: &Receiver<Job>) {
        let version = env!("CARGO_PKG_VERSION");
        self.add(SystemTime::now(), &Entry::Start { version, process: std::process::id() });
        self.write();
        while let Some(job) = self.next(jobs) {
            let (mut job, mut calls) = (Some(job), 0);
            // As many as are there are written at once.
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
                tracing::warn!(lost, "calls came faster than the audit log could be written");
                self.add(SystemTime::now(), &Entry::Lost { calls: lost });
            }
            self.write();
            self.shared.waiting.fetch_sub(calls, Ordering::Relaxed);
        }
        self.end();
    }

    /// Waits for something to do; what was written is made safe within a second.
    fn next(&mut self, jobs: &Receiver<Job>) -> Option<Job> {
        if let Some(since) = self.unsafe_since {
            match jobs.recv_timeout(UNSAFE_TIME.saturating_sub(since.elapsed())) {
                Ok(job) if since.elapsed() < UNSAFE_TIME => return Some(job),
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

    /// Writes all lines, however long that takes: meanwhile requests are refused, or counted as lost. Only
    /// when everything ends it is given up after a few tries.
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
                        tracing::error!("the audit log {path} cannot be written: {error}");
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
            self.unsafe_since.get_or_insert_with(Instant::now);
        }
        self.lines.clear();
    }

    fn sync(&mut self) {
        if let Err(error) = self.log.sync() {
            tracing::error!(%error, "the audit log {} may be lost", self.log.path().display());
        }
        self.unsafe_since = None;
    }

    fn reopen(&mut self) {
        self.write();
        self.sync();
        if let Err(error) = self.log.reopen() {
            tracing::error!("the audit log goes on in the old file: {error}");
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

/// How many bytes are written at once.
const AT_ONCE: usize = 256 * 1024;

/// How long what was written may wait to be made safe against a loss of power.
const UNSAFE_TIME: Duration = Duration::from_secs(1);

const PAUSE: Duration = Duration::from_millis(500);

/// How often the last lines are tried to be written when everything ends.
const LAST_TRIES: u32 = 6;
