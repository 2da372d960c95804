//! What is asked of the engine, and what it answers.

use std::time::Duration;

use mcp_flow_session::session::Answer;
use mcp_flow_session::{Owner, Timestamp, Violation};
use serde_json::{Map, Value};

use crate::view::View;

/// A flow to be started.
#[derive(Clone, Debug)]
pub struct Start {
    /// Which flow.
    pub flow: String,
    /// Whom the session will belong to.
    pub owner: Owner,
    /// What the flow is told; a value here answers the question of the same key.
    pub params: Map<String, Value>,
    /// What else it is told.
    pub context: Map<String, Value>,
    /// Time that it may wait for an answer; what its flow or the engine says if None.
    pub inactivity: Option<Duration>,
    /// Time that it may wait if neither this start nor its flow says, in place of what the engine
    /// says.
    pub default_inactivity: Option<Duration>,
    /// Whether the flow begins only after the start has been answered.
    pub in_background: bool,
}

impl Start {
    /// A flow to be started with nothing but its name.
    pub fn new(flow: impl Into<String>, owner: Owner) -> Self {
        Self {
            flow: flow.into(),
            owner,
            params: Map::new(),
            context: Map::new(),
            inactivity: None,
            default_inactivity: None,
            in_background: false,
        }
    }

    /// Tells the flow something; it need not ask for it (INT-020).
    #[must_use]
    pub fn params(mut self, params: Map<String, Value>) -> Self {
        self.params = params;
        self
    }

    /// Tells the flow something else (INT-021).
    #[must_use]
    pub fn context(mut self, context: Map<String, Value>) -> Self {
        self.context = context;
        self
    }

    /// Has the start answered at once, with a session that is idle; then the flow begins, and its
    /// first question comes by itself (INT-027, INT-062).
    #[must_use]
    pub fn in_background(mut self) -> Self {
        self.in_background = true;
        self
    }

    /// Time that it may wait for an answer (INT-022).
    #[must_use]
    pub fn inactivity(mut self, duration: Duration) -> Self {
        self.inactivity = Some(duration);
        self
    }

    /// Time that it may wait for an answer if nothing else is said.
    #[must_use]
    pub fn default_inactivity(mut self, duration: Duration) -> Self {
        self.default_inactivity = Some(duration);
        self
    }
}

/// An answer to the open question.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Response {
    /// The answer, and what the client wants kept with it.
    pub answer: Answer,
    /// Which turn it answers, as [`OpenQuestion::turn`](crate::OpenQuestion) said. With it, an
    /// answer sent twice counts once, and one meant for another question is refused.
    pub turn: Option<u32>,
    /// Which attempt at that turn it is, as [`OpenQuestion::attempt`](crate::OpenQuestion) said.
    /// With it, a wrong answer sent twice counts once too.
    pub attempt: Option<u32>,
    /// Knowledge its sender can have had, where that is known here. An answer that names no turn is
    /// not taken for one to a question that came later (INT-041).
    pub seen: Option<Seen>,
}

/// Knowledge a client can have of a session at the moment its message is received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The newest turn it can have been asked.
    pub turn: u32,
    /// Whether no reply to an earlier answer can have been lost, so that sending the last answer
    /// twice is not a retry.
    pub is_reliable: bool,
}

impl Response {
    /// Says which turn this answers.
    #[must_use]
    pub fn for_turn(mut self, turn: u32) -> Self {
        self.turn = Some(turn);
        self
    }

    /// Says which attempt at its turn this is.
    #[must_use]
    pub fn at_attempt(mut self, attempt: u32) -> Self {
        self.attempt = Some(attempt);
        self
    }

    /// Says what its sender can have known.
    #[must_use]
    pub fn seen(mut self, seen: Option<Seen>) -> Self {
        self.seen = seen;
        self
    }

    /// When the client says the answer was given.
    #[must_use]
    pub fn timestamp(mut self, timestamp: Timestamp) -> Self {
        self.answer.timestamp = Some(timestamp);
        self
    }

    /// What the client wants kept with the answer.
    #[must_use]
    pub fn metadata(mut self, metadata: Map<String, Value>) -> Self {
        self.answer.metadata = metadata;
        self
    }
}

impl From<Value> for Response {
    fn from(value: Value) -> Self {
        Self { answer: value.into(), ..Self::default() }
    }
}

/// What became of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// It was taken, and this is how things stand now.
    Accepted(View),
    /// It had been taken before, and this is how things stand now.
    Repeated(View),
    /// It breaks the rules; the question is still open (INT-040).
    Rejected {
        /// What is wrong with it.
        violation: Violation,
        /// How many more answers may be tried.
        left: u32,
        /// How things stand.
        view: View,
    },
    /// It breaks the rules, for the last time: the session is over (C-07).
    Ended(View),
}

impl Reply {
    /// How things stand.
    pub fn view(&self) -> &View {
        match self {
            Self::Accepted(view) | Self::Repeated(view) | Self::Ended(view) => view,
            Self::Rejected { view, .. } => view,
        }
    }
}
