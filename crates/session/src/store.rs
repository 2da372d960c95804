//! Where journals are kept.

mod guard;
mod memory;

use std::error::Error;
use std::fmt;
use std::pin::Pin;

use serde::{Deserialize, Serialize};

use crate::event::Event;
use crate::session::State;
use crate::{Owner, SessionId, Timestamp};

pub use guard::{LastTurn, MemoryGuard, ReplayGuard};
pub use memory::MemoryStore;

/// Keeps an append-only journal for each session, and knows nothing of what its events mean.
///
/// What was appended is durable before `append` returns, as far as the store promises to be.
/// Every implementation passes the same suite, `testkit::store`, which stops durable ones after
/// any number of writes and reads back. A store is used as `dyn Store`, since a URL chooses it.
pub trait Store: Send + Sync + fmt::Debug + 'static {
    /// Reads a session's events, oldest first. A session never written to has none.
    fn read(&self, id: SessionId) -> Reply<'_, Vec<Event>>;

    /// Adds events after the first `length`, if that is still how many there are.
    ///
    /// All of them are kept, or none. Where the store says `Conflict` nothing was written.
    fn append(&self, append: Append) -> Reply<'_, ()>;

    /// Lists sessions in the order of their ids, one page at a time.
    fn list(&self, filter: Filter, page: Page) -> Reply<'_, Vec<Listed>>;

    /// Names up to `most` sessions whose deadline has come at `time`, the longest overdue first.
    fn due(&self, time: Timestamp, most: usize) -> Reply<'_, Vec<SessionId>>;

    /// Counts sessions, without looking at each of them.
    fn census(&self) -> Reply<'_, Census>;

    /// Forgets a session altogether. One that is not there is already forgotten.
    fn erase(&self, id: SessionId) -> Reply<'_, ()>;

    /// Checks that the store can be written to, and changes nothing that could be read from it.
    ///
    /// After a failed write this succeeds only if there is room for as much again.
    fn probe(&self) -> Reply<'_, ()> {
        // Forgetting what is not there is written like anything else.
        self.erase(SessionId::from_random(0))
    }
}

/// What a store answers, in time.
pub type Reply<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// Events to be added to a journal.
#[derive(Clone, Debug, PartialEq)]
pub struct Append {
    /// Whose journal.
    pub id: SessionId,
    /// How many events it had when it was decided to add these.
    pub length: usize,
    /// The events.
    pub events: Vec<Event>,
    /// What the session is with them.
    pub summary: Summary,
    /// Whether these events take the place of all before them, which are erased (C-11).
    pub replace: bool,
}

/// What a store knows of a session without reading its journal.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Summary {
    /// The flow it runs.
    pub flow: String,
    /// Whom it belongs to.
    pub owner: Owner,
    /// Where it stands.
    pub state: State,
    /// When it started.
    pub created: Timestamp,
    /// When something last happened.
    pub touched: Timestamp,
    /// When it is due to be ended or forgotten; never, if None.
    pub deadline: Option<Timestamp>,
}

/// Which sessions to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only those of this owner.
    pub owner: Option<Owner>,
    /// Only those that stand here.
    pub phase: Phase,
}

/// Where a session stands, as far as listing goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// Anywhere.
    #[default]
    Any,
    /// Not over yet.
    Live,
    /// At work, so that someone has to go on with it after a crash.
    Working,
    /// Waiting for an answer.
    Waiting,
    /// Over, and still remembered.
    Ended,
}

impl Phase {
    /// Whether a state belongs here.
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

/// Which part of a list to give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// Sessions after this one; from the first if None.
    pub after: Option<SessionId>,
    /// How many at most.
    pub most: usize,
}

/// How many sessions there are, by where they stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Those that wait for an answer.
    pub waiting: u64,
    /// Those at work.
    pub working: u64,
    /// Those that are over and still remembered.
    pub ended: u64,
}

impl Census {
    /// Of so many sessions in all, those that are neither at work nor over wait.
    pub const fn of(all: u64, working: u64, ended: u64) -> Self {
        Self { waiting: all.saturating_sub(working).saturating_sub(ended), working, ended }
    }
}

/// One session in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Which session.
    pub id: SessionId,
    /// What is known of it.
    pub summary: Summary,
}

/// Why a journal could not be read or extended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Another writer came first and nothing was written. Read again, decide again.
    #[error("{0} has moved on")]
    Conflict(SessionId),

    /// What was stored cannot be read back. Retrying will not help.
    #[error("the journal of {0} is damaged")]
    Damaged(SessionId),

    /// There is no room left, and nothing was written. Make room, then try again.
    #[error("the journal has no room left on its disk")]
    Full,

    /// The store has been closed. Nothing was written.
    #[error("the journal has been closed")]
    Closed,

    /// The backend failed, perhaps after writing. Read before trying again.
    #[error("the journal cannot be used")]
    Backend(#[source] Box<dyn Error + Send + Sync>),
}

/// Writes events the way stores keep them: one JSON text per line.
pub fn encode(events: &[Event]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(256);
    for event in events {
        // Events are made of maps with text keys, numbers and texts: JSON can say all of it.
        if serde_json::to_writer(&mut bytes, event).is_ok() {
            bytes.push(b'\n');
        }
    }
    bytes
}

/// Reads what [`encode`] wrote.
pub fn decode(bytes: &[u8]) -> Result<Vec<Event>, serde_json::Error> {
    bytes
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(serde_json::from_slice)
        .collect()
}
