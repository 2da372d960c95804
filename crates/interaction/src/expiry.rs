//! Notifications of expiry: `interaction.timeoutWarning` and `interaction.expired` (INT-073, C-55).
//!
//! The engine decides when to warn ([`Engine::watch_expiry`](mcp_flow_engine::Engine)); this module
//! knows the client of each session.

use hashbrown::HashMap;
use mcp_flow_engine::{ExpirySender, Notice, SessionStatus, View};
use mcp_flow_server::context::Client;
use mcp_flow_session::event::{Ending, Limit};
use mcp_flow_session::{Owner, SessionId, Timestamp};
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::mpsc;

use crate::interaction::Interaction;
use crate::protocol_errors::limit_name;

/// Clients to notify of expiry, by session. One task notifies all of them.
#[derive(Default)]
pub(crate) struct ExpiryClients {
    entries: Mutex<Entries>,
}

#[derive(Default)]
struct Entries {
    waiting: HashMap<SessionId, Entry>,
    notices: Option<ExpirySender>,
}

#[derive(Clone)]
struct Entry {
    client: Client,
    owner: Owner,
    deadline: Timestamp,
}

impl Interaction {
    /// Notifies the client before a session that has just asked expires, and when it has.
    pub(crate) fn schedule_warning(&self, view: &View, client: &Client, owner: &Owner) {
        let (Some(deadline), Some(_)) = (view.deadline, view.inactivity) else { return };
        let mut entries = self.inner.expiry.entries.lock();
        let entry = Entry { client: client.clone(), owner: owner.clone(), deadline };
        entries.waiting.insert(view.id, entry);
        let notices = entries.notices.get_or_insert_with(|| {
            let (sender, receiver) = mpsc::unbounded_channel();
            tokio::spawn(notify_clients(self.clone(), receiver));
            sender
        });
        self.engine().watch_expiry(view, notices);
    }

    /// Stops notifications of a session that was answered or has ended.
    pub(crate) fn cancel_warning(&self, id: SessionId) {
        let mut entries = self.inner.expiry.entries.lock();
        if entries.waiting.remove(&id).is_none() {
            return;
        }
        self.engine().unwatch_expiry(id);
        // Without a sender the task ends.
        if entries.waiting.is_empty() {
            entries.notices = None;
        }
    }

    /// Notifies the client if the session has expired; it may have ended otherwise.
    async fn notify_if_expired(&self, id: SessionId, entry: &Entry) {
        self.cancel_warning(id);
        let view = self.engine().view(id, &entry.owner).await;
        if let Ok(View { status: SessionStatus::Ended(ended), .. }) = view
            && let Ending::Expired(limit) = ended.ending
        {
            notify_expired(&entry.client, id, entry.deadline, limit).await;
        }
    }
}

async fn notify_clients(
    interaction: Interaction,
    mut notices: mpsc::UnboundedReceiver<(SessionId, Notice)>,
) {
    while let Some((id, notice)) = notices.recv().await {
        let entry = interaction.inner.expiry.entries.lock().waiting.get(&id).cloned();
        let Some(entry) = entry else { continue };
        match notice {
            _ if entry.client.is_closed() => interaction.cancel_warning(id),
            Notice::Expiring { at, remaining } if remaining > 0 => {
                let params = json!({"sessionId": id, "expiresAt": at, "remainingMs": remaining});
                // Fails if the client is gone.
                let _ = entry.client.notify("interaction.timeoutWarning", &params).await;
            }
            _ => interaction.notify_if_expired(id, &entry).await,
        }
    }
}

/// Notifies a client that a session has expired (C-55).
pub(crate) async fn notify_expired(client: &Client, id: SessionId, at: Timestamp, limit: Limit) {
    let params = json!({"sessionId": id, "expiredAt": at, "limit": limit_name(limit)});
    // Fails if the client is gone.
    let _ = client.notify("interaction.expired", &params).await;
}
