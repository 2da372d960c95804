//! Stores of journals.

mod guard;
mod memory;
mod node;

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::event::JournalEvent;
use crate::replay::Divergence;
use crate::session::State;
use crate::{Owner, SessionId, Timestamp};

pub use guard::{LastTurn, MemoryGuard, ReplayGuard};
pub use memory::MemoryStore;
pub use node::{
    Epoch, Fence, Head, Heartbeat, Node, NodeInfo, Record, RecordChange, SharedStore, StoreChange,
    StoreChanges, StoreExamination,
};

/// Stores an append-only journal for each session. It does not interpret the events.
///
/// Events are durable before `append` returns, as far as the store is. Every implementation passes
/// the suite `testkit::store`, which stops durable ones after any number of writes and reads back.
/// A store is used as `dyn Store`, since a URL selects it.
pub trait Store: Send + Sync + fmt::Debug + 'static {
    /// Reads a session's events, oldest first. A session never written to has none.
    fn read(&self, id: SessionId) -> StoreFuture<'_, Vec<JournalEvent>>;

    /// Adds events after the first `length`, if that is still how many there are.
    ///
    /// All of them are stored, or none. After `Conflict` nothing was written: the journal has another
    /// length, its session has ended, or the [`Fence`] does not permit it.
    fn append(&self, append: Append) -> StoreFuture<'_, ()>;

    /// Lists sessions ordered by id, one page at a time.
    fn list(&self, filter: Filter, page: PageRequest) -> StoreFuture<'_, Vec<Listed>>;

    /// Returns up to `most` sessions that are [due](Summary::due) at `time`, longest overdue first.
    fn due(&self, time: Timestamp, most: usize) -> StoreFuture<'_, Vec<SessionId>>;

    /// Counts sessions by phase, without reading each of them.
    fn census(&self) -> StoreFuture<'_, Census>;

    /// Erases a session. Does nothing if there is none.
    fn erase(&self, id: SessionId) -> StoreFuture<'_, ()>;

    /// Checks that the store is writable. Changes nothing that can be read.
    ///
    /// After a failed write this succeeds only if there is space for as much again.
    fn probe(&self) -> StoreFuture<'_, ()> {
        // Erasing an unknown session is a write like any other.
        self.erase(SessionId::from_random(0))
    }

    /// Returns the methods for several processes, if they can use this store at once.
    fn shared(&self) -> Option<&dyn SharedStore> {
        None
    }
}

/// Time for which a heartbeat keeps a node alive.
pub const LEASE: Duration = Duration::from_millis(1200);

/// Future returned by the methods of a store.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// Events to append to a journal.
#[derive(Clone, Debug, PartialEq)]
pub struct Append {
    /// Id of the session.
    pub id: SessionId,
    /// Number of events the journal must have.
    pub length: usize,
    /// Events to append.
    pub events: Vec<JournalEvent>,
    /// Summary of the session after them.
    pub summary: Summary,
    /// Set if they replace all events before them, which are erased (C-11).
    pub replace: bool,
    /// Node that appends, and the holder of the session after it.
    pub fence: Fence,
}

/// Summary of a session, indexed by stores.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Summary {
    /// Name of its flow.
    pub flow: String,
    /// Owner of the session.
    pub owner: Owner,
    /// State of the session.
    pub state: State,
    /// Time of its creation.
    pub created: Timestamp,
    /// Time of the last event.
    pub touched: Timestamp,
    /// Time at which it expires, or its tombstone is erased.
    pub deadline: Option<Timestamp>,
    /// Time at which its next timer fires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wakes: Option<Timestamp>,
    /// Set if its flow waits for nothing but timers, so that there is nothing to resume before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_asleep: bool,
    /// Labels set by the flow.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Difference for which it was set aside, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stuck: Option<Divergence>,
}

impl Summary {
    /// Returns the time at which something has to be done about the session.
    pub fn due(&self) -> Option<Timestamp> {
        // Each program tries once whether its code fits.
        if self.stuck.is_some() {
            return Some(self.touched);
        }
        match (self.deadline, self.wakes) {
            (Some(deadline), Some(wakes)) => Some(deadline.min(wakes)),
            (deadline, wakes) => deadline.or(wakes),
        }
    }
}

/// Filter of a list of sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only sessions of this owner.
    pub owner: Option<Owner>,
    /// Only sessions in this phase.
    pub phase: Phase,
}

/// Group of states, for listing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// All states.
    #[default]
    Any,
    /// Not ended.
    Live,
    /// Flow working; to be resumed after a crash.
    Working,
    /// Waiting for an answer.
    Waiting,
    /// Ended, with a tombstone.
    Ended,
}

impl Phase {
    /// Returns whether the phase includes a state.
    pub const fn covers(self, state: State) -> bool {
        match self {
            Self::Any => true,
            Self::Live => !state.is_final(),
            Self::Working => state.is_working(),
            Self::Waiting => matches!(state, State::WaitingUser),
            Self::Ended => state.is_final(),
        }
    }
}

/// Page of a list to return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRequest {
    /// Id after which the page begins; the first if None.
    pub after: Option<SessionId>,
    /// Most sessions to return.
    pub most: usize,
}

/// Number of sessions by phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Waiting for an answer.
    pub waiting: u64,
    /// Flow working.
    pub working: u64,
    /// Ended, with a tombstone.
    pub ended: u64,
}

impl Census {
    /// Computes the number of waiting sessions from the total and the others.
    pub const fn of(all: u64, working: u64, ended: u64) -> Self {
        Self { waiting: all.saturating_sub(working).saturating_sub(ended), working, ended }
    }
}

/// Entry of a list of sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Id of the session.
    pub id: SessionId,
    /// Its summary.
    pub summary: Summary,
}

/// Reason a journal could not be read or appended to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Another writer came first and nothing was written. Read again, decide again.
    #[error("{0} was changed by another writer")]
    Conflict(SessionId),

    /// The journal is unreadable. Retrying will not help.
    #[error("the journal of {0} is damaged")]
    Damaged(SessionId),

    /// A newer version of the program wrote the journal. Leave it alone: that version can read it.
    #[error("the journal of {0} was written by a newer version; update this one")]
    Newer(SessionId),

    /// The store cannot be reached, or this node is not a member of it now. Try again.
    #[error("the store cannot be reached: {0}")]
    Unavailable(String),

    /// The disk is full, and nothing was written. Free space, then try again.
    #[error("no space left on the disk of the store")]
    Full,

    /// The store has been closed. Nothing was written.
    #[error("the store has been closed")]
    Closed,

    /// The backend failed, perhaps after writing. Read before trying again.
    #[error("the store failed")]
    Backend(#[source] Box<dyn Error + Send + Sync>),
}

/// Encodes events as newline-delimited JSON.
pub fn encode(events: &[JournalEvent]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(256);
    for event in events {
        // Cannot fail: events have only string keys, numbers and strings.
        if serde_json::to_writer(&mut bytes, event).is_ok() {
            bytes.push(b'\n');
        }
    }
    bytes
}

/// Decodes what [`encode`] wrote.
pub fn decode(bytes: &[u8]) -> Result<Vec<JournalEvent>, serde_json::Error> {
    bytes
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(serde_json::from_slice)
        .collect()
}
