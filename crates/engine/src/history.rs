//! Exported histories: the journal of a session with a chain of digests, and its import.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use mcp_flow_session::store::{Append, Fence};
use mcp_flow_session::{Epoch, JournalEvent, Session, SessionId, StoreError};
use ring::digest::{Context, SHA256};
use serde_json::{Value, json};

use crate::engine::Engine;
use crate::error::EngineError;
use crate::view::View;

/// The journal of a session, as `interaction.getHistory` returns it and
/// `mcp-flow sessions export` writes it.
///
/// Each event has a digest of itself and all before it, so that an edited history is found, with the
/// position. The digests have no key: who edits a history on purpose can compute them again.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionHistory {
    /// Id of the session.
    pub id: SessionId,
    /// Its events, oldest first.
    pub events: Vec<JournalEvent>,
}

/// A history that cannot be imported.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("event {position} of the history {reason}")]
pub struct BadHistory {
    /// Number of the first event that is wrong, counted from 1; 0 for the history as a whole.
    pub position: usize,
    /// Error in it, as the end of a sentence.
    pub reason: String,
}

impl SessionHistory {
    /// Number of the format.
    pub const FORMAT: u64 = 1;

    /// Reads an exported history. Nothing in it may have changed.
    pub fn read(history: &Value) -> Result<Self, BadHistory> {
        let bad = |position, reason: &str| BadHistory { position, reason: reason.to_owned() };
        match history["mcpFlowHistory"].as_u64() {
            Some(Self::FORMAT) => {}
            Some(_) => return Err(bad(0, "has the format of a newer program; update this one")),
            None => return Err(bad(0, "has no `mcpFlowHistory`: export it again")),
        }
        let id = history["sessionId"].as_str().and_then(|id| id.parse().ok());
        let id = id.ok_or_else(|| bad(0, "has no valid `sessionId`"))?;
        let entries = history["entries"].as_array().map(Vec::as_slice).unwrap_or_default();
        let mut chain = Chain::new(id);
        let mut events = Vec::with_capacity(entries.len());
        for (index, entry) in entries.iter().enumerate() {
            let position = index + 1;
            let event: JournalEvent = serde_json::from_value(entry["event"].clone())
                .map_err(|error| bad(position, &format!("cannot be read: {error}")))?;
            if entry["hash"] != chain.add(&event) {
                return Err(bad(position, "does not match its `hash`: it was edited"));
            }
            events.push(event);
        }
        if history["hash"] != chain.last {
            return Err(bad(events.len() + 1, "is missing: the end was cut off"));
        }
        let history = Self { id, events };
        history.session().map(|_| history)
    }

    /// Writes the history, with digests.
    pub fn to_value(&self) -> Value {
        let mut chain = Chain::new(self.id);
        let mut entry = |event| json!({"event": event, "hash": chain.add(event)});
        let entries: Vec<_> = self.events.iter().map(&mut entry).collect();
        json!({
            "mcpFlowHistory": Self::FORMAT,
            "sessionId": self.id.to_string(),
            "entries": entries,
            "hash": chain.last,
        })
    }

    /// Returns the state of the session after the last event.
    pub fn session(&self) -> Result<Session, BadHistory> {
        match Session::replay(&self.events) {
            Ok(Some(session)) => Ok(session),
            Ok(None) => Err(BadHistory { position: 1, reason: "is missing".to_owned() }),
            Err(damaged) => {
                let reason = "does not follow from those before it".to_owned();
                Err(BadHistory { position: damaged.index + 1, reason })
            }
        }
    }
}

/// Digests of events, each with the one before it.
struct Chain {
    last: String,
}

impl Chain {
    fn new(id: SessionId) -> Self {
        Self { last: id.to_string() }
    }

    fn add(&mut self, event: &JournalEvent) -> String {
        let mut context = Context::new(&SHA256);
        context.update(self.last.as_bytes());
        context.update(b"\n");
        // Cannot fail: events have only string keys, numbers and strings.
        context.update(&serde_json::to_vec(event).unwrap_or_default());
        self.last = STANDARD_NO_PAD.encode(context.finish());
        self.last.clone()
    }
}

impl Engine {
    /// Adds a session from its history, under its id or a new one, for the owner it has. It goes on
    /// where it was: its timeouts begin again, and steps that have run do not run again.
    ///
    /// The recorded outcomes of its steps are believed, so this is for administration.
    pub async fn import(
        &self,
        history: SessionHistory,
        with_new_id: bool,
    ) -> Result<View, EngineError> {
        let inner = &self.inner;
        let (mut events, bounds) = (history.events.clone(), &inner.limits.bounds);
        let mut session = history.session()?;
        if events.len() >= bounds.events {
            return Err(EngineError::TooLarge { what: "a history", most: bounds.events });
        }
        let id = if with_new_id { crate::engine::new_id()? } else { history.id };
        let is_live = session.ended.is_none();
        if is_live {
            let imported = JournalEvent::Imported { at: self.now() };
            session.apply(imported.clone()).map_err(|_| StoreError::Damaged(id))?;
            events.push(imported);
            self.reserve_quota(&session.started.owner).await?;
        }
        let epoch = self.held_lease().await?.map_or(Epoch::NONE, |lease| lease.epoch);
        let append = Append {
            id,
            length: 0,
            events,
            summary: session.summary(),
            replace: false,
            fence: Fence { by: epoch, holder: None, steal: false },
        };
        if let Err(error) = inner.store.append(append).await {
            inner.counts.invalidate(&session.started.owner);
            return Err(match error {
                StoreError::Conflict(id) => EngineError::SessionExists(id),
                error => error.into(),
            });
        }
        inner.hub.publish_turn(id, &session, Vec::new());
        if is_live && session.state.is_working() && !session.is_asleep() {
            inner.stalled.add(id);
        }
        if let Some(wakes) = session.wakes() {
            inner.wakeups.add(wakes, self.now());
        }
        Ok(View::of(id, &session, None))
    }
}
