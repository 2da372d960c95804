//! Counts of what clients did and checked.

use std::fmt;
use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

/// Counts of checked operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct Counts {
    /// Requests answered once, with the expected reply.
    pub(crate) replies: u64,
    /// Calls cancelled while they ran.
    pub(crate) cancelled: u64,
    /// Progress notifications.
    pub(crate) progress: u64,
    /// Flow sessions that finished.
    pub(crate) sessions: u64,
    /// Flow sessions abandoned.
    pub(crate) abandoned: u64,
    /// Changes of a subscribed resource.
    pub(crate) changes: u64,
    /// Bytes of large results.
    pub(crate) bytes: u64,
}

impl Counts {
    /// Prints the counts for the load generator, on standard error, which the test harness does not
    /// write to.
    pub(crate) fn report(&mut self) {
        if *self != Self::default() {
            eprintln!("{MARK}{}", serde_json::to_string(&std::mem::take(self)).unwrap());
        }
    }

    /// Parses a line of a client's standard error, if it is a complete report.
    pub(crate) fn read(line: &str) -> Option<Self> {
        serde_json::from_str(line.split_once(MARK)?.1).ok()
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.replies += other.replies;
        self.cancelled += other.cancelled;
        self.progress += other.progress;
        self.sessions += other.sessions;
        self.abandoned += other.abandoned;
        self.changes += other.changes;
        self.bytes += other.bytes;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { replies, cancelled, progress, sessions, abandoned, changes, bytes } = self;
        let megabytes = bytes / 1_000_000;
        write!(
            formatter,
            "{replies} replies checked, {cancelled} calls cancelled, {progress} reports of progress, \
             {sessions} sessions finished and {abandoned} abandoned, {changes} changes received, \
             {megabytes} MB of large results"
        )
    }
}

const MARK: &str = "counts ";
