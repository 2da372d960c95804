//! Requests to the engine, and the reply to an answer.

use std::time::Duration;

use mcp_flow_session::session::Answer;
use mcp_flow_session::{InvalidAnswer, Owner, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::view::{QuestionId, View};

/// Request to start a session.
#[derive(Clone, Debug)]
pub struct StartRequest {
    /// Name of the flow.
    pub flow: String,
    /// Owner of the session.
    pub owner: Owner,
    /// Parameters of the flow; a value also answers the question of the same key.
    pub params: Map<String, Value>,
    /// Context for the flow, beside its parameters.
    pub context: Map<String, Value>,
    /// Inactivity timeout. Defaults to that of the flow, then of the engine.
    pub inactivity: Option<Duration>,
    /// Inactivity timeout if neither this start nor the flow sets one, in place of the engine's.
    pub default_inactivity: Option<Duration>,
    /// Time for which the result is retained, if longer than that of the flow.
    pub retention: Option<Duration>,
    /// Set if the flow begins in the background, after the reply to the start.
    pub in_background: bool,
    /// Scopes of the credential of the owner.
    pub scopes: Vec<String>,
    /// Number of sessions whose calls led to this start.
    pub depth: u32,
}

impl StartRequest {
    /// Creates a request with nothing but the flow and the owner.
    pub fn new(flow: impl Into<String>, owner: Owner) -> Self {
        Self {
            flow: flow.into(),
            owner,
            params: Map::new(),
            context: Map::new(),
            inactivity: None,
            default_inactivity: None,
            retention: None,
            in_background: false,
            scopes: Vec::new(),
            depth: 0,
        }
    }

    /// Sets the parameters; the flow does not ask for what they answer (INT-020).
    #[must_use]
    pub fn params(mut self, params: Map<String, Value>) -> Self {
        self.params = params;
        self
    }

    /// Sets the context (INT-021).
    #[must_use]
    pub fn context(mut self, context: Map<String, Value>) -> Self {
        self.context = context;
        self
    }

    /// Sets the scopes of the owner's credential, for calls that the flow makes in its name.
    #[must_use]
    pub fn scopes<T: Into<String>>(mut self, scopes: impl IntoIterator<Item = T>) -> Self {
        self.scopes = scopes.into_iter().map(Into::into).collect();
        self
    }

    /// Sets how many sessions led to this one by their calls. Defaults to none.
    #[must_use]
    pub fn depth(mut self, depth: u32) -> Self {
        self.depth = depth;
        self
    }

    /// Returns from the start at once, with an idle session, and begins the flow in the background
    /// (INT-027, INT-062).
    #[must_use]
    pub fn in_background(mut self) -> Self {
        self.in_background = true;
        self
    }

    /// Sets the inactivity timeout (INT-022).
    #[must_use]
    pub fn inactivity(mut self, duration: Duration) -> Self {
        self.inactivity = Some(duration);
        self
    }

    /// Sets how long a result is retained at least, for callers that poll for it.
    #[must_use]
    pub fn retention(mut self, duration: Duration) -> Self {
        self.retention = Some(duration);
        self
    }

    /// Sets the inactivity timeout used if neither this start nor the flow sets one.
    #[must_use]
    pub fn default_inactivity(mut self, duration: Duration) -> Self {
        self.default_inactivity = Some(duration);
        self
    }
}

/// Request to answer the open question, or the one it names.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct AnswerRequest {
    /// The answer and its metadata.
    pub answer: Answer,
    /// Question it answers, from [`OpenQuestion::id`](crate::OpenQuestion::id). It may be a queued
    /// one. If it is not open at that attempt, the request fails with
    /// [`QuestionClosed`](crate::EngineError::QuestionClosed). Turn, attempt and seen turn are
    /// ignored then.
    pub question: Option<QuestionId>,
    /// Turn it answers, from [`OpenQuestion::turn`](crate::OpenQuestion). With it, a repeated
    /// answer counts once, and an answer to another question is rejected.
    pub turn: Option<u32>,
    /// Attempt at that turn, from [`OpenQuestion::attempt`](crate::OpenQuestion). With it, a
    /// repeated invalid answer counts once, too.
    pub attempt: Option<u32>,
    /// Newest turn its sender can know, if that is known. An answer that names no turn does not
    /// answer a later question (INT-041).
    pub seen: Option<SeenTurn>,
}

/// Newest turn of a session that a client can know when its message is received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct SeenTurn {
    /// Number of the turn. None if this process has sent it no turn: then it may know any from
    /// before, but no confirmation that was asked since.
    pub turn: Option<u32>,
    /// Set if no reply to an earlier answer can have been lost, so that repeating the last answer
    /// is not a retry.
    pub is_reliable: bool,
}

impl AnswerRequest {
    /// Sets the question this answers, open or queued.
    #[must_use]
    pub fn for_question(mut self, question: QuestionId) -> Self {
        self.question = Some(question);
        self
    }

    /// Sets the turn this answers.
    #[must_use]
    pub fn for_turn(mut self, turn: u32) -> Self {
        self.turn = Some(turn);
        self
    }

    /// Sets the attempt at the turn.
    #[must_use]
    pub fn at_attempt(mut self, attempt: u32) -> Self {
        self.attempt = Some(attempt);
        self
    }

    /// Sets the newest turn the sender can know.
    #[must_use]
    pub fn seen(mut self, seen: Option<SeenTurn>) -> Self {
        self.seen = seen;
        self
    }

    /// Sets the client's time of the answer.
    #[must_use]
    pub fn timestamp(mut self, timestamp: Timestamp) -> Self {
        self.answer.timestamp = Some(timestamp);
        self
    }

    /// Sets metadata that is stored with the answer.
    #[must_use]
    pub fn metadata(mut self, metadata: Map<String, Value>) -> Self {
        self.answer.metadata = metadata;
        self
    }
}

impl From<Value> for AnswerRequest {
    fn from(value: Value) -> Self {
        Self { answer: value.into(), ..Self::default() }
    }
}

/// Reply to an answer, with the status of the session after it.
#[derive(Clone, Debug, PartialEq)]
pub enum AnswerReply {
    /// The answer was accepted. If its question was queued, the flow gets it when the questions
    /// before it are answered.
    Accepted(View),
    /// The answer had been accepted before.
    Repeated(View),
    /// The answer is invalid; the question is still open (INT-040).
    Rejected {
        /// Violation by the answer.
        violation: InvalidAnswer,
        /// Number of attempts left.
        left: u32,
        /// Status of the session.
        view: View,
    },
    /// The answer is invalid and was the last attempt: the session has ended (C-07).
    Ended(View),
}

impl AnswerReply {
    /// Returns the status of the session.
    pub fn view(&self) -> &View {
        match self {
            Self::Accepted(view) | Self::Repeated(view) | Self::Ended(view) => view,
            Self::Rejected { view, .. } => view,
        }
    }
}
