//! Changes of all sessions, for administration.

use std::sync::OnceLock;

use mcp_flow_session::prompt::FlowProgress;
use mcp_flow_session::store::Listed;
use mcp_flow_session::{Owner, SessionId};
use tokio::sync::broadcast;

/// A change of any session.
#[derive(Clone, Debug, PartialEq)]
pub enum SessionChange {
    /// A session started, had a turn or ended; this is its entry in a list now.
    Updated(Listed),
    /// A flow reported progress. Not in the journal.
    Progress {
        /// Id of the session.
        id: SessionId,
        /// Owner of the session.
        owner: Owner,
        /// Progress of its flow.
        progress: FlowProgress,
    },
    /// The tombstone of a session was erased. The id tells nothing to those who did not know it.
    Erased(SessionId),
    /// Changes were dropped because this subscriber fell behind: list the sessions again.
    Lagged,
}

/// Changes of all sessions from the moment of subscribing; see
/// [`Engine::changes`](crate::Engine::changes).
#[derive(Debug)]
pub struct SessionChanges {
    receiver: broadcast::Receiver<SessionChange>,
}

impl SessionChanges {
    /// Waits for the next change; None when there will be no more.
    pub async fn next(&mut self) -> Option<SessionChange> {
        match self.receiver.recv().await {
            Ok(change) => Some(change),
            Err(broadcast::error::RecvError::Lagged(_)) => Some(SessionChange::Lagged),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}

/// Publishes changes to subscribers. Costs one atomic load before the first subscription.
#[derive(Debug, Default)]
pub(crate) struct ChangePublisher {
    sender: OnceLock<broadcast::Sender<SessionChange>>,
}

impl ChangePublisher {
    pub(crate) fn subscribe(&self) -> SessionChanges {
        let sender = self.sender.get_or_init(|| broadcast::channel(CAPACITY).0);
        SessionChanges { receiver: sender.subscribe() }
    }

    pub(crate) fn has_subscribers(&self) -> bool {
        self.sender.get().is_some_and(|sender| sender.receiver_count() > 0)
    }

    /// Publishes a change, which is built only if there is a subscriber.
    pub(crate) fn publish(&self, change: impl FnOnce() -> SessionChange) {
        if let Some(sender) = self.sender.get().filter(|_| self.has_subscribers()) {
            // Fails only if the last subscriber has just left.
            let _ = sender.send(change());
        }
    }
}

/// Changes a subscriber may be behind.
const CAPACITY: usize = 1024;

#[cfg(test)]
mod tests {
    use super::{CAPACITY, ChangePublisher, SessionChange};
    use mcp_flow_session::SessionId;

    /// A subscriber that falls behind gets `Lagged`, then the newer changes.
    #[tokio::test]
    async fn a_lagging_subscriber_gets_lagged() {
        let publisher = ChangePublisher::default();
        let id: SessionId = format!("session_{:032x}", 7).parse().unwrap();
        publisher.publish(|| unreachable!("there is no subscriber"));
        let mut changes = publisher.subscribe();
        publisher.publish(|| SessionChange::Erased(id));
        assert_eq!(changes.next().await, Some(SessionChange::Erased(id)));
        for _ in 0..CAPACITY + 1 {
            publisher.publish(|| SessionChange::Erased(id));
        }
        assert_eq!(changes.next().await, Some(SessionChange::Lagged));
        assert_eq!(changes.next().await, Some(SessionChange::Erased(id)));
        drop(changes);
        publisher.publish(|| unreachable!("there is no subscriber any more"));
    }
}
