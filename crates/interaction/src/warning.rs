//! Telling clients that a session is about to expire, and that it has (INT-073, C-55).

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hashbrown::HashMap;
use mcp_flow_engine::{Standing, View};
use mcp_flow_server::context::Client;
use mcp_flow_session::event::{Ending, Limit};
use mcp_flow_session::{Owner, SessionId, Timestamp};
use serde_json::json;

use crate::fault::limit_name;
use crate::interaction::Interaction;

/// The sessions that wait for someone who can be told. One task sees to all of them, as long as
/// there are any.
#[derive(Default)]
pub(crate) struct Warnings {
    entries: Mutex<Entries>,
}

#[derive(Default)]
struct Entries {
    waiting: HashMap<SessionId, Entry>,
    is_watched: bool,
}

#[derive(Clone)]
struct Entry {
    client: Client,
    owner: Owner,
    deadline: Timestamp,
    /// Time to warn; None once that is done.
    due: Option<Timestamp>,
}

impl Interaction {
    /// Warns the client of the end of a session that has just asked, and tells it of that end.
    pub(crate) fn warn_in_time(&self, view: &View, client: &Client, owner: &Owner) {
        let (Some(deadline), Some(inactivity)) = (view.deadline, view.inactivity) else { return };
        let lead = (inactivity / 4).min(LONGEST_LEAD);
        let due = Some(Timestamp::from_millis(deadline.as_millis().saturating_sub(lead)));
        let entry = Entry { client: client.clone(), owner: owner.clone(), deadline, due };
        let mut entries = self.inner.warnings.lock();
        entries.waiting.insert(view.id, entry);
        if !std::mem::replace(&mut entries.is_watched, true) {
            tokio::spawn(watch(self.clone()));
        }
    }

    /// The session goes on, or is over.
    pub(crate) fn do_not_warn(&self, id: SessionId) {
        self.inner.warnings.lock().waiting.remove(&id);
    }

    /// Tells the client of a session whose deadline has passed what became of it, if that is that it
    /// expired. It may have gone on in some other way.
    async fn tell_if_expired(&self, id: SessionId, entry: &Entry) {
        let view = self.engine().view(id, &entry.owner).await;
        if let Ok(View { standing: Standing::Ended(ended), .. }) = view
            && let Ending::Expired(limit) = ended.ending
        {
            tell_expired(&entry.client, id, entry.deadline, limit).await;
        }
    }
}

impl Warnings {
    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds what is due, and forgets clients that are gone. None if nothing is left to do.
    fn take_due(&self, now: Timestamp) -> Option<Vec<(SessionId, Entry)>> {
        let mut entries = self.lock();
        entries.waiting.retain(|_, entry| !entry.client.is_closed());
        let mut due = Vec::new();
        entries.waiting.retain(|id, entry| {
            if entry.deadline <= now {
                due.push((*id, entry.clone()));
                return false;
            }
            if entry.due.is_some_and(|due| due <= now) {
                entry.due = None;
                due.push((*id, entry.clone()));
            }
            true
        });
        if entries.waiting.is_empty() && due.is_empty() {
            entries.is_watched = false;
            return None;
        }
        Some(due)
    }
}

async fn watch(interaction: Interaction) {
    loop {
        let now = interaction.engine().now();
        let Some(due) = interaction.inner.warnings.take_due(now) else { return };
        for (id, entry) in due {
            if entry.deadline <= now {
                interaction.tell_if_expired(id, &entry).await;
                continue;
            }
            let remaining = entry.deadline.as_millis() - now.as_millis();
            let params =
                json!({"sessionId": id, "expiresAt": entry.deadline, "remainingMs": remaining});
            // A client that is gone need not know.
            let _ = entry.client.notify("interaction.timeoutWarning", &params).await;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Tells a client that a session has expired (C-55).
pub(crate) async fn tell_expired(client: &Client, id: SessionId, at: Timestamp, limit: Limit) {
    let params = json!({"sessionId": id, "expiredAt": at, "limit": limit_name(limit)});
    // A client that is gone need not know.
    let _ = client.notify("interaction.expired", &params).await;
}

/// How long before the end a client is warned, at most, in milliseconds; never more than a quarter
/// of the wait.
const LONGEST_LEAD: u64 = 60_000;

const PAUSE: Duration = Duration::from_millis(200);
