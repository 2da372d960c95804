//! One round of a request: earlier answers, and new questions.

use std::collections::{BTreeMap, HashMap};
use std::task::Waker;

use mcp_flow_proto::error::MISSING_CLIENT_CAPABILITY;
use mcp_flow_proto::model::{InputParams, InputRequest};
use mcp_flow_proto::{RpcError, method};
use serde_json::{Map, Value};

use super::fingerprint::Fingerprint;
use super::state::{Answer, Asked, State};
use crate::context::Context;

/// The state of a call in one round.
#[derive(Debug, Default)]
pub(crate) struct Round {
    /// The state left by the last round.
    before: State,
    /// The client's answers to the questions of the last round, by key.
    responses: Map<String, Value>,
    /// Unanswered questions, by key.
    needed: BTreeMap<String, InputRequest>,
    /// The handler's own state for the next round.
    carried: Option<Value>,
    /// Set when the handler itself ends the round.
    pub(super) is_over: bool,
    /// Uses of each key in this run.
    uses: HashMap<String, usize>,
    /// Woken when input is needed.
    pub(super) waker: Option<Waker>,
    /// Set if the handler cannot be left pending.
    pub(crate) never_waits: bool,
    /// Capabilities the client would have to declare.
    missing: Map<String, Value>,
}

/// The outcome of asking a question.
#[derive(Debug, PartialEq)]
pub(crate) enum AskOutcome {
    /// The answer is available.
    Answered(Value),
    /// The client will be asked, under this key.
    Asked(String),
    /// As `Asked`, but the function has to return first.
    Suspended,
    /// The client declined to answer.
    Refused,
    /// The answer under this key belongs to another question.
    Changed(String),
}

impl Round {
    /// Resumes from the sealed state of the last round.
    ///
    /// Only questions recorded in the sealed state can be answered; other answers are ignored, so
    /// that nobody consents to a question before it is asked (C-62).
    pub(super) fn resume(
        context: &Context,
        input: InputParams<'_>,
        request: impl FnOnce() -> Fingerprint,
    ) -> Result<Self, RpcError> {
        let before = match input.state {
            Some(text) => State::open(context, &text, request())?,
            None => State::default(),
        };
        let mut responses = input.responses;
        if !context.server().accepts_unsolicited_answers() {
            responses.retain(|key, _| before.asked.contains_key(key));
        }
        Ok(Self { before, responses, ..Self::default() })
    }

    /// Returns the answer to a question, or asks it.
    ///
    /// A key used again in one run becomes another key, so that a question can be repeated.
    pub(crate) fn ask(&mut self, key: &str, request: InputRequest) -> AskOutcome {
        let uses = self.uses.entry(key.to_owned()).or_default();
        *uses += 1;
        let key = if *uses == 1 { key.to_owned() } else { format!("{key}-{uses}") };
        let question = Fingerprint::of_question(&request);
        let is_other =
            |earlier: Option<Fingerprint>| earlier.is_some_and(|print| print != question);
        if let Some(answer) = self.before.answers.get(&key) {
            return match is_other(answer.question) {
                true => AskOutcome::Changed(key),
                false => AskOutcome::Answered(answer.value.clone()),
            };
        }
        let asked = self.before.asked.get(&key);
        if let Some(value) = self.responses.remove(&key) {
            if is_other(asked.map(|asked| asked.question)) {
                return AskOutcome::Changed(key);
            }
            let answer = Answer { question: Some(question), value: value.clone() };
            self.before.answers.insert(key, answer);
            return AskOutcome::Answered(value);
        }
        if asked.is_some_and(|asked| asked.silence_refuses) {
            return AskOutcome::Refused;
        }
        self.need(key.clone(), request);
        if self.never_waits { AskOutcome::Suspended } else { AskOutcome::Asked(key) }
    }

    /// Records that input is needed.
    pub(super) fn need(&mut self, key: String, request: InputRequest) {
        self.needed.insert(key, request);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Withdraws a question nobody waits for.
    pub(crate) fn withdraw(&mut self, key: &str) {
        self.needed.remove(key);
    }

    pub(super) fn carry(&mut self, value: Option<Value>) {
        self.carried = value;
    }

    /// The state the handler left in the last round.
    pub(super) fn carried(&self) -> Option<&Value> {
        self.before.carried.as_ref()
    }

    pub(super) fn response(&self, key: &str) -> Option<&Value> {
        self.responses.get(key)
    }

    /// Records a missing client capability and sub-capability.
    pub(crate) fn record_missing(&mut self, capability: &str, part: Option<&str>) {
        let parts = self.missing.entry(capability).or_insert_with(|| Map::new().into());
        if let (Some(parts), Some(part)) = (parts.as_object_mut(), part) {
            parts.insert(part.to_owned(), Map::new().into());
        }
    }

    /// Error -32021, if the call asked for an undeclared capability.
    pub(crate) fn missing_capability(&self) -> Option<RpcError> {
        if self.missing.is_empty() {
            return None;
        }
        let names: Vec<_> = self.missing.keys().map(String::as_str).collect();
        let message = format!("The server needs the client to declare {}", names.join(" and "));
        let error = RpcError::new(MISSING_CLIENT_CAPABILITY).message(message);
        Some(error.with("requiredCapabilities", Value::Object(self.missing.clone())))
    }

    /// Returns whether the client is to be asked something.
    pub(super) fn needs_input(&self) -> bool {
        !self.needed.is_empty() || self.is_over
    }

    /// Ends the round: returns the questions and the state to seal.
    pub(super) fn end(&mut self, request: Fingerprint) -> (BTreeMap<String, InputRequest>, State) {
        let needed = std::mem::take(&mut self.needed);
        let asked = needed.iter().map(|(key, request)| {
            // A form can be declined explicitly; sampling can only be left unanswered.
            let silence_refuses = request.method == method::SAMPLING_CREATE_MESSAGE;
            let question = Fingerprint::of_question(request);
            (key.clone(), Asked { question, silence_refuses })
        });
        let state = State {
            request: Some(request),
            asked: asked.collect(),
            answers: std::mem::take(&mut self.before.answers),
            carried: self.carried.take(),
        };
        (needed, state)
    }
}
