//! What clients have done and checked.

use std::fmt;
use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

/// Counts of what was done. Every count is of something that was checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct Tally {
    /// Requests that were answered as they must be, once.
    pub(crate) replies: u64,
    /// Calls given up while they ran.
    pub(crate) cancelled: u64,
    /// Reports of progress.
    pub(crate) progress: u64,
    /// Conversations held to their end.
    pub(crate) conversations: u64,
    /// Conversations left in the middle.
    pub(crate) left: u64,
    /// Changes of a resource that was subscribed to.
    pub(crate) changes: u64,
    /// Bytes of large results.
    pub(crate) bytes: u64,
}

impl Tally {
    /// Tells the conductor. A client's errors are the one way out that nothing else writes to.
    pub(crate) fn report(&mut self) {
        if *self != Self::default() {
            eprintln!("{MARK}{}", serde_json::to_string(&std::mem::take(self)).unwrap());
        }
    }

    /// What a line of a client's errors reports, if it is that and whole.
    pub(crate) fn read(line: &str) -> Option<Self> {
        serde_json::from_str(line.split_once(MARK)?.1).ok()
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.replies += other.replies;
        self.cancelled += other.cancelled;
        self.progress += other.progress;
        self.conversations += other.conversations;
        self.left += other.left;
        self.changes += other.changes;
        self.bytes += other.bytes;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { replies, cancelled, progress, conversations, left, changes, bytes } = self;
        let megabytes = bytes / 1_000_000;
        write!(
            formatter,
            "{replies} replies checked, {cancelled} calls cancelled, {progress} reports of progress, \
             {conversations} conversations held and {left} left, {changes} changes told, \
             {megabytes} MB of large results"
        )
    }
}

const MARK: &str = "tally ";
