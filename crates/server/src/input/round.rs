//! One round of a request: what was answered before, and what is asked now.

use std::collections::{BTreeMap, HashMap};
use std::task::Waker;

use mcp_flow_proto::error::MISSING_CLIENT_CAPABILITY;
use mcp_flow_proto::model::{InputParams, InputRequest};
use mcp_flow_proto::{RpcError, method};
use serde_json::{Map, Value};

use super::fingerprint::Fingerprint;
use super::state::{Answer, Asked, State};
use crate::context::Context;

/// What a call knows of earlier rounds, and what it asks in this one.
#[derive(Debug, Default)]
pub(crate) struct Round {
    /// As the last round left it.
    before: State,
    /// The client's answers to what it was asked in the last round, by key.
    responses: Map<String, Value>,
    /// What is still to be found out, by key.
    needed: BTreeMap<String, InputRequest>,
    /// What the handler wants to find again.
    carried: Option<Value>,
    /// Whether the handler itself has said that this round is over.
    pub(super) is_over: bool,
    /// How often each key was asked for.
    uses: HashMap<String, usize>,
    /// Who is to be woken when something is needed.
    pub(super) waker: Option<Waker>,
    /// Whether whoever asks cannot be left waiting.
    pub(crate) never_waits: bool,
    /// What the client would have to be able to do.
    missing: Map<String, Value>,
}

/// What becomes of a question.
#[derive(Debug, PartialEq)]
pub(crate) enum Fate {
    /// It was answered.
    Answered(Value),
    /// The client will be asked, under this key.
    Asked(String),
    /// As above, and whoever asks has to return.
    AskedInVain,
    /// The client would not answer.
    Refused,
    /// What was answered under this key was another question.
    Changed(String),
}

impl Round {
    /// Goes on where the last round ended.
    ///
    /// Only what the sealed state says was asked can be answered: whatever else the client brings is
    /// ignored, so that nobody agrees to a question before it was put (C-62).
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
        if !context.server().takes_unasked_answers() {
            responses.retain(|key, _| before.asked.contains_key(key));
        }
        Ok(Self { before, responses, ..Self::default() })
    }

    /// Looks for the answer to a question, and asks it if there is none.
    ///
    /// A key that is used again in one run is another key, so that a question can be repeated.
    pub(crate) fn ask(&mut self, key: &str, request: InputRequest) -> Fate {
        let uses = self.uses.entry(key.to_owned()).or_default();
        *uses += 1;
        let key = if *uses == 1 { key.to_owned() } else { format!("{key}-{uses}") };
        let question = Fingerprint::of_question(&request);
        let is_other =
            |earlier: Option<Fingerprint>| earlier.is_some_and(|print| print != question);
        if let Some(answer) = self.before.answers.get(&key) {
            return match is_other(answer.question) {
                true => Fate::Changed(key),
                false => Fate::Answered(answer.value.clone()),
            };
        }
        let asked = self.before.asked.get(&key);
        if let Some(value) = self.responses.remove(&key) {
            if is_other(asked.map(|asked| asked.question)) {
                return Fate::Changed(key);
            }
            let answer = Answer { question: Some(question), value: value.clone() };
            self.before.answers.insert(key, answer);
            return Fate::Answered(value);
        }
        if asked.is_some_and(|asked| asked.silence_refuses) {
            return Fate::Refused;
        }
        self.need(key.clone(), request);
        if self.never_waits { Fate::AskedInVain } else { Fate::Asked(key) }
    }

    /// Notes that something is needed.
    pub(super) fn need(&mut self, key: String, request: InputRequest) {
        self.needed.insert(key, request);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Nobody waits for this any more.
    pub(crate) fn withdraw(&mut self, key: &str) {
        self.needed.remove(key);
    }

    pub(super) fn carry(&mut self, value: Option<Value>) {
        self.carried = value;
    }

    /// What the handler left there for itself in the last round.
    pub(super) fn carried(&self) -> Option<&Value> {
        self.before.carried.as_ref()
    }

    pub(super) fn response(&self, key: &str) -> Option<&Value> {
        self.responses.get(key)
    }

    /// Notes what the client would have to be able to do, and a part of it.
    pub(crate) fn lacks(&mut self, capability: &str, part: Option<&str>) {
        let parts = self.missing.entry(capability).or_insert_with(|| Map::new().into());
        if let (Some(parts), Some(part)) = (parts.as_object_mut(), part) {
            parts.insert(part.to_owned(), Map::new().into());
        }
    }

    /// -32021, if the call has asked for something its client did not declare.
    pub(crate) fn missing_capability(&self) -> Option<RpcError> {
        if self.missing.is_empty() {
            return None;
        }
        let names: Vec<_> = self.missing.keys().map(String::as_str).collect();
        let message = format!("The server needs the client to declare {}", names.join(" and "));
        let error = RpcError::new(MISSING_CLIENT_CAPABILITY).message(message);
        Some(error.with("requiredCapabilities", Value::Object(self.missing.clone())))
    }

    /// Whether the client is to be asked something.
    pub(super) fn needs_input(&self) -> bool {
        !self.needed.is_empty() || self.is_over
    }

    /// Ends the round: what the client is asked, and what it carries.
    pub(super) fn end(&mut self, request: Fingerprint) -> (BTreeMap<String, InputRequest>, State) {
        let needed = std::mem::take(&mut self.needed);
        let asked = needed.iter().map(|(key, request)| {
            // Whoever is asked by a form can say no; whoever's model is asked can only say nothing.
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
