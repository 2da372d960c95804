//! Telling those who watch all sessions what becomes of any of them.

use std::sync::OnceLock;

use mcp_flow_session::prompt::Progress;
use mcp_flow_session::store::Listed;
use mcp_flow_session::{Owner, SessionId};
use tokio::sync::broadcast;

/// Something that became of a session, whichever it is.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// It started, moved on or ended; this is what a list would say of it now.
    Turned(Listed),
    /// Its flow says how far it has come. Not kept in the journal.
    Progress {
        /// Which session.
        id: SessionId,
        /// Whose it is.
        owner: Owner,
        /// How far.
        progress: Progress,
    },
    /// It was over and is now forgotten. Only those who knew of it can make something of its id.
    Forgotten(SessionId),
    /// More happened than was kept for this listener: list again to know where things stand.
    Missed,
}

/// What becomes of all sessions, from the moment of asking; see
/// [`Engine::changes`](crate::Engine::changes).
#[derive(Debug)]
pub struct Changes {
    receiver: broadcast::Receiver<Change>,
}

impl Changes {
    /// Waits for the next change; None when there will be no more.
    pub async fn next(&mut self) -> Option<Change> {
        match self.receiver.recv().await {
            Ok(change) => Some(change),
            Err(broadcast::error::RecvError::Lagged(_)) => Some(Change::Missed),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}

/// Who watches all sessions. Costs a look at one pointer as long as nobody ever has.
#[derive(Debug, Default)]
pub(crate) struct Watchers {
    sender: OnceLock<broadcast::Sender<Change>>,
}

impl Watchers {
    pub(crate) fn subscribe(&self) -> Changes {
        let sender = self.sender.get_or_init(|| broadcast::channel(CAPACITY).0);
        Changes { receiver: sender.subscribe() }
    }

    /// Tells of a change, which is put together only if someone listens.
    pub(crate) fn tell(&self, change: impl FnOnce() -> Change) {
        if let Some(sender) = self.sender.get().filter(|sender| sender.receiver_count() > 0) {
            // The last listener may leave at this very moment.
            let _ = sender.send(change());
        }
    }
}

/// How many changes a listener may be behind.
const CAPACITY: usize = 1024;

#[cfg(test)]
mod tests {
    use super::{CAPACITY, Change, Watchers};
    use mcp_flow_session::SessionId;

    /// Whoever is too slow is told so, and then of what is newer.
    #[tokio::test]
    async fn a_listener_that_falls_behind_knows_it() {
        let watchers = Watchers::default();
        let id: SessionId = format!("session_{:032x}", 7).parse().unwrap();
        watchers.tell(|| unreachable!("nobody listens"));
        let mut changes = watchers.subscribe();
        watchers.tell(|| Change::Forgotten(id));
        assert_eq!(changes.next().await, Some(Change::Forgotten(id)));
        for _ in 0..CAPACITY + 1 {
            watchers.tell(|| Change::Forgotten(id));
        }
        assert_eq!(changes.next().await, Some(Change::Missed));
        assert_eq!(changes.next().await, Some(Change::Forgotten(id)));
        drop(changes);
        watchers.tell(|| unreachable!("nobody listens any more"));
    }
}
