//! Events of a session's journal.
//!
//! The journal is the source of truth: the session is the fold of its events. Events are
//! append-only and in the order they happened. Stores persist their JSON form.

mod ending;
mod step;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::prompt::{FlowProgress, Prompt};
use crate::replay::Divergence;
use crate::store::Epoch;
use crate::{InvalidAnswer, Owner, Timestamp};

pub use ending::{Ending, FaultName, FlowFault, Limit, SessionEnded};
pub use step::{StepFailure, StepOutcome};

/// One event of a session's journal.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum JournalEvent {
    /// The session was created.
    Started(SessionStarted),
    /// The flow began to run.
    Began {
        /// Time of the event.
        at: Timestamp,
    },
    /// The flow asked a question, and waits.
    Asked(QuestionAsked),
    /// The flow asked a question while another one is open. It becomes the open question when all
    /// questions before it are answered.
    Queued(QuestionAsked),
    /// The flow asked a question that a parameter of the start answers.
    Given {
        /// Key of the question.
        key: String,
        /// Value that answers it.
        value: Value,
        /// Time of the event.
        at: Timestamp,
    },
    /// The open question was answered. The next queued one becomes the open question.
    Answered(QuestionAnswered),
    /// A queued question was answered. The flow gets the answer in the question's turn.
    AnsweredAhead {
        /// Number of the question.
        question: u32,
        /// The answer.
        answered: QuestionAnswered,
    },
    /// The open question or a queued one got an invalid answer.
    Rejected {
        /// Number of the question, if it is a queued one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        question: Option<u32>,
        /// Violation by the answer.
        violation: InvalidAnswer,
        /// Digest of the answer, so that repeating it is not another attempt.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        answer: Option<String>,
        /// Time of the event.
        at: Timestamp,
    },
    /// The flow dropped a question before it got the answer: another branch of it was faster.
    Withdrawn {
        /// Number of the question.
        question: u32,
        /// Set if it was the open question and clients may have seen it: its turn was skipped.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        skipped: bool,
        /// Time of the event.
        at: Timestamp,
    },
    /// A node is about to begin a step of the flow. Written where several nodes share a store.
    StepBegun {
        /// Key of the step.
        key: String,
        /// Number of the step among those of its key, counted from 1.
        number: u32,
        /// Node that begins it.
        epoch: Epoch,
        /// Time of the event.
        at: Timestamp,
    },
    /// An attempt at a step has failed, and another one follows.
    StepFailed {
        /// Key of the step.
        key: String,
        /// Number of the step among those of its key, counted from 1.
        number: u32,
        /// Number of the attempt, counted from 1.
        attempt: u32,
        /// Its failure.
        failure: StepFailure,
        /// Time of the event.
        at: Timestamp,
    },
    /// A step of the flow has finished.
    StepDone {
        /// Key of the step.
        key: String,
        /// Number of the step among those of its key, counted from 1. Drawn values have none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        number: Option<u32>,
        /// Its outcome.
        outcome: StepOutcome,
        /// Set if it has no side effects, so that the session can be rewound to before it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_lookup: bool,
        /// Set if it has a compensation: the session does not end without success before that ran.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_compensable: bool,
        /// Time of the event.
        at: Timestamp,
    },
    /// The flow set an entry of the session's data.
    DataSet {
        /// Key of the entry.
        key: String,
        /// Value of the entry.
        value: Value,
        /// Time of the event.
        at: Timestamp,
    },
    /// The flow set a label, by which the session can be found.
    Labelled {
        /// Key of the label.
        key: String,
        /// Its value.
        value: String,
        /// Time of the event.
        at: Timestamp,
    },
    /// The session goes on from before a question, as if nothing had happened since.
    Rewound {
        /// Index of the event that asked the question. Those from there up to this one do not count.
        to: usize,
        /// Key of the question. No parameter answers it any more.
        key: String,
        /// Number of questions before this event, so that their numbers are not used again.
        questions: u32,
        /// Number of turns before this event, too.
        turns: u32,
        /// Number of timers set before this event, too.
        timers: u32,
        /// Time of the event.
        at: Timestamp,
    },
    /// The session was added to this store from its exported history.
    Imported {
        /// Time of the event.
        at: Timestamp,
    },
    /// The flow set a timer. Timers are numbered from 0.
    TimerSet {
        /// Name of the timer, by which a replay tells timers of concurrent branches apart.
        key: String,
        /// Time at which it fires.
        until: Timestamp,
        /// Time of the event.
        at: Timestamp,
    },
    /// A timer has fired.
    TimerFired {
        /// Number of the timer.
        timer: u32,
        /// Time of the event.
        at: Timestamp,
    },
    /// The flow dropped a timer before it got to know that it fired.
    TimerDropped {
        /// Number of the timer.
        timer: u32,
        /// Time of the event.
        at: Timestamp,
    },
    /// The flow waits for a signal. Waits are numbered from 0.
    SignalAwaited {
        /// Name of the signal.
        key: String,
        /// Time of the event.
        at: Timestamp,
    },
    /// A signal arrived, and is kept until the flow takes it. Signals are numbered from 0.
    Signalled {
        /// Name of the signal.
        key: String,
        /// Value that came with it.
        value: Value,
        /// Number of the link by which it was sent, if it was.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        link: Option<u32>,
        /// Time of the event.
        at: Timestamp,
    },
    /// The flow took a signal that it waited for.
    SignalTaken {
        /// Number of the wait.
        wait: u32,
        /// Number of the signal.
        signal: u32,
        /// Time of the event.
        at: Timestamp,
    },
    /// The flow does not wait for a signal any more: another branch of it was faster.
    SignalWaitDropped {
        /// Number of the wait.
        wait: u32,
        /// Time of the event.
        at: Timestamp,
    },
    /// The flow made a link. Links are numbered from 0.
    LinkMade {
        /// Name of the signal, or key of the question.
        key: String,
        /// URL of the server, with which its URL begins.
        base: String,
        /// Random end of its URL.
        token: String,
        /// Set if it answers a question, and does not send a signal.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_question: bool,
        /// Set if it needs a login.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        needs_login: bool,
        /// Time of the event.
        at: Timestamp,
    },
    /// A link was revoked.
    LinkRevoked {
        /// Number of the link.
        link: u32,
        /// Time of the event.
        at: Timestamp,
    },
    /// The session was set aside: its flow asks for something else than the journal has.
    Stuck {
        /// The difference.
        divergence: Divergence,
        /// Time of the event.
        at: Timestamp,
    },
    /// The session goes on: its flow fits the journal again.
    Unstuck {
        /// Time of the event.
        at: Timestamp,
    },
    /// The session will end like this, once its compensations have run.
    EndBegun {
        /// Ending of the session.
        ending: Ending,
        /// Time of the event.
        at: Timestamp,
    },
    /// The session has ended. This event is all that is retained of it (C-11).
    Ended(SessionEnded),
}

impl JournalEvent {
    /// Returns the time of the event.
    pub fn at(&self) -> Timestamp {
        match self {
            Self::Started(started) => started.at,
            Self::Asked(asked) | Self::Queued(asked) => asked.at,
            Self::Answered(answered) | Self::AnsweredAhead { answered, .. } => answered.at,
            Self::Ended(ended) => ended.at,
            Self::Began { at }
            | Self::Given { at, .. }
            | Self::Rejected { at, .. }
            | Self::Withdrawn { at, .. }
            | Self::StepBegun { at, .. }
            | Self::StepFailed { at, .. }
            | Self::StepDone { at, .. }
            | Self::DataSet { at, .. }
            | Self::TimerSet { at, .. }
            | Self::TimerFired { at, .. }
            | Self::TimerDropped { at, .. }
            | Self::SignalAwaited { at, .. }
            | Self::Signalled { at, .. }
            | Self::SignalTaken { at, .. }
            | Self::SignalWaitDropped { at, .. }
            | Self::LinkMade { at, .. }
            | Self::LinkRevoked { at, .. }
            | Self::Stuck { at, .. }
            | Self::Labelled { at, .. }
            | Self::Rewound { at, .. }
            | Self::Imported { at }
            | Self::EndBegun { at, .. }
            | Self::Unstuck { at } => *at,
        }
    }

    /// Returns the number of the first format that has this event. Stores write it with the events,
    /// so that older programs leave them alone.
    pub const fn format(&self) -> u8 {
        match self {
            Self::SignalAwaited { .. }
            | Self::Signalled { .. }
            | Self::SignalTaken { .. }
            | Self::SignalWaitDropped { .. }
            | Self::LinkMade { .. }
            | Self::LinkRevoked { .. }
            | Self::Asked(QuestionAsked { link: Some(_), .. })
            | Self::Queued(QuestionAsked { link: Some(_), .. })
            | Self::EndBegun { .. }
            | Self::StepDone { is_compensable: true, .. } => 4,
            Self::StepFailed { .. }
            | Self::Stuck { .. }
            | Self::Unstuck { .. }
            | Self::Labelled { .. }
            | Self::Rewound { .. }
            | Self::Imported { .. } => 3,
            Self::TimerSet { .. }
            | Self::TimerFired { .. }
            | Self::TimerDropped { .. }
            | Self::Withdrawn { skipped: true, .. } => 2,
            Self::StepBegun { .. } => 1,
            _ => 0,
        }
    }

    /// Newest format that this program reads.
    pub const FORMAT: u8 = 4;
}

/// Creation of a session.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct SessionStarted {
    /// Name of its flow.
    pub flow: String,
    /// Owner of the session.
    pub owner: Owner,
    /// Parameters of the start; a value also answers the question of the same key.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub params: Map<String, Value>,
    /// Context of the start, beside the parameters.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub context: Map<String, Value>,
    /// Inactivity timeout in milliseconds, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inactivity: Option<u64>,
    /// Set if neither the client nor the flow chose the inactivity timeout.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub inactivity_is_default: bool,
    /// Latest time at which it ends, if its duration is limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends: Option<Timestamp>,
    /// Time in milliseconds for which its result is retained at least, if its caller polls for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention: Option<u64>,
    /// Span that started it, as `traceparent`, if it was traced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// Scopes of the credential that started it, for calls in the name of its owner.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
    /// Number of sessions whose calls led to this one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub depth: u32,
    /// Time of the event.
    pub at: Timestamp,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// A question that was asked.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct QuestionAsked {
    /// Key of the question.
    pub key: String,
    /// The question, shared by journal, session and views.
    #[serde(with = "shared")]
    pub prompt: Arc<Prompt>,
    /// Progress of the flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<FlowProgress>,
    /// Number of the link that can answer it, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<u32>,
    /// Violation by the value given for it at the start, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub violation: Option<InvalidAnswer>,
    /// Time of the event.
    pub at: Timestamp,
}

/// An answer that was accepted.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct QuestionAnswered {
    /// The answer, or the default for an empty one.
    pub value: Value,
    /// Client's time of the answer (INT-037).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<Timestamp>,
    /// Client's metadata (INT-038).
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
    /// Time of arrival.
    pub at: Timestamp,
}

/// Serializes an `Arc` like its content.
mod shared {
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<T: Serialize, S: Serializer>(
        value: &Arc<T>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        value.as_ref().serialize(serializer)
    }

    pub(super) fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Arc<T>, D::Error> {
        T::deserialize(deserializer).map(Arc::new)
    }
}
