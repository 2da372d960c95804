//! Watches: push changes to one client.
//!
//! Changes are batched, so that a burst is one message, and held back while the client does not
//! read.

use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use mcp_flow_engine::{SessionChange, SessionChanges};
use mcp_flow_interaction::describe_session;
use mcp_flow_server::Principal;
use mcp_flow_server::context::Client;
use mcp_flow_session::prompt::FlowProgress;
use mcp_flow_session::{Owner, SessionId};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::admin::Admin;
use crate::recorder::{MAX_EXCHANGES, Recorder, RecordingGuard};

/// One watch, until the client disconnects or ends it.
pub(crate) struct Watch {
    pub(crate) number: u64,
    pub(crate) client: Client,
    /// The watching principal, whose permission is checked again before each message.
    pub(crate) principal: Principal,
    pub(crate) admin: Admin,
    pub(crate) stop: CancellationToken,
    /// Set for the topic `sessions`.
    pub(crate) sessions: Option<SessionWatch>,
    /// Set for the topics `traffic` and `stats`.
    pub(crate) recording: Option<RecordingGuard>,
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) traffic: bool,
    pub(crate) stats: bool,
    /// Number of the last exchange sent.
    pub(crate) sent: u64,
}

pub(crate) struct SessionWatch {
    pub(crate) changes: SessionChanges,
    /// Owner of the sessions; `None` for all.
    pub(crate) of: Option<Owner>,
    pub(crate) pending: PendingChanges,
}

/// Changes batched for the next message: the latest of each session.
#[derive(Default)]
pub(crate) struct PendingChanges {
    sessions: HashMap<SessionId, Value>,
    progress: HashMap<SessionId, FlowProgress>,
    forgotten: Vec<SessionId>,
    missed: bool,
}

impl Watch {
    pub(crate) async fn run(mut self) {
        let (client, stop) = (self.client.clone(), self.stop.clone());
        tokio::select! {
            () = client.closed() => {}
            () = stop.cancelled() => {}
            () = self.push() => {}
        }
    }

    /// Pushes changes until the client has been unreachable for too long or loses its permission.
    async fn push(&mut self) {
        let mut due: Option<Instant> = None;
        let mut reached = Instant::now();
        let (mut more_traffic, mut more_stats) = (false, false);
        loop {
            tokio::select! {
                change = next_change(&mut self.sessions) => {
                    let Some(change) = change else { return };
                    if self.sessions.as_mut().is_some_and(|sessions| sessions.add(change)) {
                        due.get_or_insert_with(|| Instant::now() + BATCH_TIME);
                    }
                }
                news = next_recorded(&mut self.recording, self.traffic, self.stats) => {
                    match news {
                        Recorded::Exchange => more_traffic = true,
                        Recorded::Second => more_stats = true,
                    }
                    due.get_or_insert_with(|| Instant::now() + BATCH_TIME);
                }
                () = until(due) => {
                    let is_reachable = self.client.is_reachable();
                    if is_reachable {
                        reached = Instant::now();
                    } else if reached.elapsed() > MAX_UNREACHABLE {
                        return;
                    }
                    if !is_reachable || self.client.is_congested() {
                        due = Some(Instant::now() + RETRY_DELAY);
                        continue;
                    }
                    due = None;
                    if !self.recheck_permission() {
                        return;
                    }
                    self.send_sessions().await;
                    if std::mem::take(&mut more_traffic) && self.traffic {
                        self.send_traffic().await;
                    }
                    if std::mem::take(&mut more_stats) && self.stats {
                        self.send_second().await;
                    }
                }
            }
        }
    }

    /// Checks the principal's permission again. A former admin keeps only their own sessions.
    /// Returns whether the watch continues.
    fn recheck_permission(&mut self) -> bool {
        if !self.principal.is_valid() {
            return false;
        }
        if self.admin.is_admin(&self.principal) {
            return true;
        }
        (self.traffic, self.stats) = (false, false);
        let Some(sessions) = &mut self.sessions else { return false };
        if sessions.of.is_none() {
            sessions.of = Some(Owner::new(self.principal.name()));
            sessions.pending.miss();
        }
        true
    }

    async fn send_sessions(&mut self) {
        let Some(sessions) = &mut self.sessions else { return };
        if let Some(mut params) = sessions.pending.take() {
            params["watchId"] = self.number.into();
            self.notify("notifications/admin/sessions", &params).await;
        }
    }

    async fn send_traffic(&mut self) {
        let (exchanges, last) = self.recorder.after(self.sent, MAX_PER_MESSAGE);
        let skipped = last - self.sent - exchanges.len() as u64;
        self.sent = last;
        let params = json!({"watchId": self.number, "exchanges": exchanges, "skipped": skipped});
        self.notify("notifications/admin/traffic", &params).await;
    }

    async fn send_second(&self) {
        if let Some(second) = self.recorder.last_second() {
            let params = json!({"watchId": self.number, "seconds": [second]});
            self.notify("notifications/admin/stats", &params).await;
        }
    }

    async fn notify(&self, method: &str, params: &Value) {
        // A failure means that the connection is closing.
        let _ = self.client.notify(method, params).await;
    }
}

impl SessionWatch {
    /// Adds a change. Returns whether there is something to send.
    fn add(&mut self, change: SessionChange) -> bool {
        let of = self.of.as_ref();
        let is_wanted = |owner: &Owner| of.is_none_or(|of| of == owner);
        let pending = &mut self.pending;
        if pending.missed {
            return false;
        }
        match change {
            SessionChange::Updated(listed) if is_wanted(&listed.summary.owner) => {
                let mut session = describe_session(&listed);
                session["owner"] = listed.summary.owner.name().into();
                pending.progress.remove(&listed.id);
                pending.sessions.insert(listed.id, session);
            }
            SessionChange::Progress { id, owner, progress } if is_wanted(&owner) => {
                pending.progress.insert(id, progress);
            }
            // The owner is unknown by now, and the id of a removed session reveals nothing.
            SessionChange::Erased(id) => {
                pending.sessions.remove(&id);
                pending.progress.remove(&id);
                pending.forgotten.push(id);
            }
            SessionChange::Lagged => pending.miss(),
            SessionChange::Updated(_) | SessionChange::Progress { .. } => return false,
        }
        let held = pending.sessions.len() + pending.progress.len() + pending.forgotten.len();
        if held > MAX_PENDING {
            pending.miss();
        }
        true
    }
}

impl PendingChanges {
    /// Drops the pending changes and marks them as missed: the client has to list the sessions
    /// again.
    fn miss(&mut self) {
        *self = Self { missed: true, ..Self::default() };
    }

    fn take(&mut self) -> Option<Value> {
        let Self { sessions, progress, forgotten, missed } = std::mem::take(self);
        if missed {
            return Some(json!({"missed": true}));
        }
        if sessions.is_empty() && progress.is_empty() && forgotten.is_empty() {
            return None;
        }
        let progress: Vec<_> = progress
            .into_iter()
            .map(|(id, progress)| json!({"sessionId": id, "progress": progress}))
            .collect();
        let sessions: Vec<_> = sessions.into_values().collect();
        Some(json!({"sessions": sessions, "progress": progress, "forgotten": forgotten}))
    }
}

async fn next_change(sessions: &mut Option<SessionWatch>) -> Option<SessionChange> {
    match sessions {
        Some(sessions) => sessions.changes.next().await,
        None => std::future::pending().await,
    }
}

enum Recorded {
    Exchange,
    Second,
}

/// Waits for the next exchange or second; forever if neither topic is watched.
async fn next_recorded(
    recording: &mut Option<RecordingGuard>,
    traffic: bool,
    stats: bool,
) -> Recorded {
    let Some(recording) = recording else { return std::future::pending().await };
    // The senders live as long as the recorder.
    tokio::select! {
        Ok(()) = recording.latest.changed(), if traffic => Recorded::Exchange,
        Ok(()) = recording.seconds.changed(), if stats => Recorded::Second,
        else => std::future::pending().await,
    }
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => std::future::pending().await,
    }
}

/// Time for which changes are batched.
const BATCH_TIME: Duration = Duration::from_millis(50);

/// Delay before another attempt if the client does not read or is not reachable.
const RETRY_DELAY: Duration = Duration::from_millis(250);

/// Maximum time for which a client may be unreachable.
const MAX_UNREACHABLE: Duration = Duration::from_secs(60);

/// Maximum number of pending changes; beyond it they are marked as missed.
const MAX_PENDING: usize = 2000;

/// Maximum number of exchanges in one message.
pub(crate) const MAX_PER_MESSAGE: usize = MAX_EXCHANGES / 5;
