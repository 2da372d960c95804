//! Pushing what happens to one client: gathered for a moment, so that a burst is one message, and
//! held back while the client does not read.

use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use mcp_flow_engine::{Change, Changes};
use mcp_flow_interaction::describe_session;
use mcp_flow_server::Principal;
use mcp_flow_server::context::Client;
use mcp_flow_session::prompt::Progress;
use mcp_flow_session::{Owner, SessionId};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::admin::Admin;
use crate::recorder::{EXCHANGES, Recorder, Watching};

/// What one client is told of, until it leaves or wants no more.
pub(crate) struct Watch {
    pub(crate) number: u64,
    pub(crate) client: Client,
    /// Who watches. What they may see is asked for again with each message.
    pub(crate) principal: Principal,
    pub(crate) admin: Admin,
    pub(crate) stop: CancellationToken,
    /// Set if it watches sessions.
    pub(crate) sessions: Option<WatchedSessions>,
    /// Set if it watches exchanges or seconds.
    pub(crate) recording: Option<Watching>,
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) traffic: bool,
    pub(crate) stats: bool,
    /// The last exchange it was told of.
    pub(crate) told: u64,
}

pub(crate) struct WatchedSessions {
    pub(crate) changes: Changes,
    /// Only those of one owner, or all.
    pub(crate) of: Option<Owner>,
    pub(crate) pending: Pending,
}

/// Changes that are gathered for the next message: the latest of each session.
#[derive(Default)]
pub(crate) struct Pending {
    sessions: HashMap<SessionId, Value>,
    progress: HashMap<SessionId, Progress>,
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

    /// Tells of everything there is to tell, until nobody can be told any more.
    async fn push(&mut self) {
        let mut due: Option<Instant> = None;
        let mut reached = Instant::now();
        let (mut more_traffic, mut more_stats) = (false, false);
        loop {
            tokio::select! {
                change = next_change(&mut self.sessions) => {
                    let Some(change) = change else { return };
                    if self.sessions.as_mut().is_some_and(|sessions| sessions.add(change)) {
                        due.get_or_insert_with(|| Instant::now() + GATHER);
                    }
                }
                news = next_recorded(&mut self.recording, self.traffic, self.stats) => {
                    match news {
                        News::Exchange => more_traffic = true,
                        News::Second => more_stats = true,
                    }
                    due.get_or_insert_with(|| Instant::now() + GATHER);
                }
                () = until(due) => {
                    let is_reachable = self.client.is_reachable();
                    if is_reachable {
                        reached = Instant::now();
                    } else if reached.elapsed() > LONGEST_ABSENCE {
                        return;
                    }
                    if !is_reachable || self.client.is_congested() {
                        due = Some(Instant::now() + PAUSE);
                        continue;
                    }
                    due = None;
                    if !self.may_go_on() {
                        return;
                    }
                    self.tell_sessions().await;
                    if std::mem::take(&mut more_traffic) && self.traffic {
                        self.tell_traffic().await;
                    }
                    if std::mem::take(&mut more_stats) && self.stats {
                        self.tell_second().await;
                    }
                }
            }
        }
    }

    /// Whether there is anything the client may still be told. Who may not see what is others' any
    /// more is told of their own.
    fn may_go_on(&mut self) -> bool {
        if !self.principal.is_valid() {
            return false;
        }
        if self.admin.may_see_all(&self.principal) {
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

    async fn tell_sessions(&mut self) {
        let Some(sessions) = &mut self.sessions else { return };
        if let Some(mut params) = sessions.pending.take() {
            params["watchId"] = self.number.into();
            self.notify("notifications/admin/sessions", &params).await;
        }
    }

    async fn tell_traffic(&mut self) {
        let (exchanges, last) = self.recorder.after(self.told, MOST_AT_ONCE);
        let skipped = last - self.told - exchanges.len() as u64;
        self.told = last;
        let params = json!({"watchId": self.number, "exchanges": exchanges, "skipped": skipped});
        self.notify("notifications/admin/traffic", &params).await;
    }

    async fn tell_second(&self) {
        if let Some(second) = self.recorder.last_second() {
            let params = json!({"watchId": self.number, "seconds": [second]});
            self.notify("notifications/admin/stats", &params).await;
        }
    }

    async fn notify(&self, method: &str, params: &Value) {
        // What cannot be sent is not missed: the connection is ending.
        let _ = self.client.notify(method, params).await;
    }
}

impl WatchedSessions {
    /// Adds a change; whether there is something new to tell.
    fn add(&mut self, change: Change) -> bool {
        let of = self.of.as_ref();
        let is_wanted = |owner: &Owner| of.is_none_or(|of| of == owner);
        let pending = &mut self.pending;
        if pending.missed {
            return false;
        }
        match change {
            Change::Turned(listed) if is_wanted(&listed.summary.owner) => {
                let mut told = describe_session(&listed);
                told["owner"] = listed.summary.owner.name().into();
                pending.progress.remove(&listed.id);
                pending.sessions.insert(listed.id, told);
            }
            Change::Progress { id, owner, progress } if is_wanted(&owner) => {
                pending.progress.insert(id, progress);
            }
            // Whose it was nobody knows any more, and an id that is gone opens nothing.
            Change::Forgotten(id) => {
                pending.sessions.remove(&id);
                pending.progress.remove(&id);
                pending.forgotten.push(id);
            }
            Change::Missed => pending.miss(),
            Change::Turned(_) | Change::Progress { .. } => return false,
        }
        let held = pending.sessions.len() + pending.progress.len() + pending.forgotten.len();
        if held > MOST_PENDING {
            pending.miss();
        }
        true
    }
}

impl Pending {
    /// Gives up telling of single sessions: the client lists them again.
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

async fn next_change(sessions: &mut Option<WatchedSessions>) -> Option<Change> {
    match sessions {
        Some(sessions) => sessions.changes.next().await,
        None => std::future::pending().await,
    }
}

enum News {
    Exchange,
    Second,
}

/// Waits for what is wanted of the recording; for ever if that is nothing.
async fn next_recorded(recording: &mut Option<Watching>, traffic: bool, stats: bool) -> News {
    let Some(recording) = recording else { return std::future::pending().await };
    // Whoever sends lives as long as the recording itself.
    tokio::select! {
        Ok(()) = recording.latest.changed(), if traffic => News::Exchange,
        Ok(()) = recording.seconds.changed(), if stats => News::Second,
        else => std::future::pending().await,
    }
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => std::future::pending().await,
    }
}

/// How long changes are gathered before they are sent: too short for a person to notice.
const GATHER: Duration = Duration::from_millis(50);

/// How long to wait for a client that does not read, or does not listen at the moment.
const PAUSE: Duration = Duration::from_millis(250);

/// For whoever cannot be reached for so long nothing is recorded any more.
const LONGEST_ABSENCE: Duration = Duration::from_secs(60);

/// Past so many changes that could not be sent, a client lists again.
const MOST_PENDING: usize = 2000;

/// How many exchanges are told in one message.
pub(crate) const MOST_AT_ONCE: usize = EXCHANGES / 5;
