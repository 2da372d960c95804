//! Replies that wait until they are due.

use std::collections::BTreeMap;

use serde_json::Value;
use tokio::time::Instant;

use crate::player::Reply;

/// Replies in the order in which they are due. Those of one request keep their order; other requests do
/// not wait for them.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    waiting: BTreeMap<(Instant, u64), Reply>,
    last: u64,
}

impl Schedule {
    /// Adds replies, each of which has a delay after the one before it.
    pub(crate) fn push(&mut self, replies: impl IntoIterator<Item = Reply>) {
        let mut due = Instant::now();
        for reply in replies {
            due += reply.delay;
            self.last += 1;
            self.waiting.insert((due, self.last), reply);
        }
    }

    /// Removes the replies to a request that was cancelled.
    pub(crate) fn cancel(&mut self, request: &Value) {
        self.waiting.retain(|_, reply| reply.request != *request);
    }

    /// Takes the next reply if it is due.
    pub(crate) fn pop(&mut self) -> Option<Reply> {
        let first = self.waiting.first_entry()?;
        (first.key().0 <= Instant::now()).then(|| first.remove())
    }

    /// Time at which the next reply is due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.waiting.first_key_value().map(|((due, _), _)| *due)
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }
}

/// Waits for a time, or forever.
pub(crate) async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}
