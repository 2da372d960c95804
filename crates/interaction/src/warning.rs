//! Telling clients that a session is about to expire (INT-073).

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hashbrown::HashMap;
use mcp_flow_engine::View;
use mcp_flow_flow::{SessionId, Timestamp};
use mcp_flow_server::context::Client;
use serde_json::json;

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

struct Entry {
    client: Client,
    deadline: Timestamp,
    /// When to warn.
    due: Timestamp,
}

impl Interaction {
    /// Warns the client of the end of a session that has just asked, in time.
    pub(crate) fn warn_in_time(&self, view: &View, client: &Client) {
        let (Some(deadline), Some(inactivity)) = (view.deadline, view.inactivity) else { return };
        let lead = (inactivity / 4).min(LONGEST_LEAD);
        let due = Timestamp::from_millis(deadline.as_millis().saturating_sub(lead));
        let entry = Entry { client: client.clone(), deadline, due };
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
}

impl Warnings {
    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes out what is due, and forgets clients that are gone. None if nothing is left to do.
    fn take_due(&self, now: Timestamp) -> Option<Vec<(SessionId, Entry)>> {
        let mut entries = self.lock();
        entries.waiting.retain(|_, entry| !entry.client.is_closed());
        let due = entries.waiting.extract_if(|_, entry| entry.due <= now).collect::<Vec<_>>();
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
        for (id, entry) in due.into_iter().filter(|(_, entry)| entry.deadline > now) {
            let remaining = entry.deadline.as_millis() - now.as_millis();
            let params =
                json!({"sessionId": id, "expiresAt": entry.deadline, "remainingMs": remaining});
            // A client that is gone need not know.
            let _ = entry.client.notify("interaction.timeoutWarning", &params).await;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// How long before the end a client is warned, at most, in milliseconds; never more than a quarter
/// of the wait.
const LONGEST_LEAD: u64 = 60_000;

const PAUSE: Duration = Duration::from_millis(200);
