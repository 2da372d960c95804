//! Changes by other nodes that share the store: sessions in memory are dropped if they are
//! outdated, and subscribers learn of them.

use mcp_flow_session::store::{Listed, SharedStore, StoreChange};
use mcp_flow_session::{Epoch, Session, SessionId};

use crate::engine::Engine;
use crate::notice::{Notice, asked};
use crate::session_changes::SessionChange;

impl Engine {
    /// Follows the changes of other nodes. Never returns.
    pub(crate) async fn follow_changes(&self, shared: &dyn SharedStore, epoch: Epoch) {
        let mut changes = shared.changes(epoch);
        loop {
            match changes.next().await {
                StoreChange::Session(id) => self.follow_session(id).await,
                StoreChange::Posted(message) => self.receive_post(message),
                StoreChange::Missed => {
                    let mut ids = self.inner.hub.watched();
                    ids.extend(self.inner.slots.all().iter().map(|slot| slot.id));
                    ids.sort_unstable();
                    ids.dedup();
                    for id in ids {
                        self.follow_session(id).await;
                    }
                }
            }
        }
    }

    /// Drops the slot of a session that another node has changed, and tells subscribers.
    async fn follow_session(&self, id: SessionId) {
        if let Some(slot) = self.inner.slots.get(id) {
            // A turn in progress finds out by itself when it commits.
            if let Ok(_turn) = slot.turn.try_lock() {
                let _ = self.check_current(&slot).await;
            }
        }
        let is_watched = self.inner.hub.is_watched(id);
        if !is_watched && !self.inner.hub.changes.has_subscribers() {
            return;
        }
        let read = self.inner.store.read(id).await;
        let session = read.ok().and_then(|events| Session::replay(&events).ok().flatten());
        let Some(session) = session else { return };
        let mut notices = Vec::new();
        match &session.ended {
            Some(ended) => notices.push(Notice::Ended(ended.clone())),
            None if session.open.is_none() => notices.push(Notice::Accepted),
            None => {
                notices.extend(asked(&session));
                notices.extend((!session.queued.is_empty()).then_some(Notice::QueueChanged));
            }
        }
        if session.ended.is_some() {
            self.inner.counts.release(&session.started.owner);
        }
        if is_watched {
            self.inner.hub.publish_turn(id, &session, notices);
        } else {
            let summary = session.summary();
            let updated = || SessionChange::Updated(Listed { id, summary });
            self.inner.hub.changes.publish(updated);
        }
    }
}
