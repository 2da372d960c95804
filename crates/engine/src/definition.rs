//! A flow as the engine knows it.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use mcp_flow_session::event::Ending;
use mcp_flow_session::{Prompt, Question, is_empty};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::error::EngineError;
use crate::flow::{Flow, FlowError, FlowResult};

/// A flow by name: the function that runs it, and what else is to be known.
pub struct Definition {
    name: String,
    description: String,
    early: bool,
    patient: bool,
    waits: Option<Duration>,
    operation: Option<Duration>,
    remembered: Option<Duration>,
    keeps_data: bool,
    prompts: Option<u32>,
    /// By their keys.
    questions: BTreeMap<String, Prompt>,
    run: Box<Run>,
}

/// A flow at work.
pub(crate) type FlowFuture = Pin<Box<dyn Future<Output = Result<Value, FlowError>> + Send>>;

type Run = dyn Fn(Flow, &Map<String, Value>) -> Result<FlowFuture, BadParams> + Send + Sync;

impl Definition {
    /// A flow that runs this function.
    ///
    /// The function runs again from the top whenever its session is taken up: what has effects
    /// belongs into [`Flow::step`].
    pub fn new<P, T, F, R>(name: impl Into<String>, function: F) -> Self
    where
        P: DeserializeOwned + Send + 'static,
        T: Serialize,
        F: Fn(Flow, P) -> R + Send + Sync + 'static,
        R: Future<Output = FlowResult<T>> + Send + 'static,
    {
        let run = move |flow: Flow, params: &Map<String, Value>| {
            let params =
                serde_path_to_error::deserialize(params).map_err(|error| BadParams::new(&error))?;
            let future = function(flow, params);
            let future: FlowFuture = Box::pin(async move {
                let result = future.await?;
                serde_json::to_value(result).map_err(FlowError::from)
            });
            Ok(future)
        };
        Self {
            name: name.into(),
            description: String::new(),
            early: false,
            patient: false,
            waits: None,
            operation: None,
            remembered: None,
            keeps_data: false,
            prompts: None,
            questions: BTreeMap::new(),
            run: Box::new(run),
        }
    }

    /// Says what the flow is for.
    #[must_use]
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.description = text.into();
        self
    }

    /// Lets the user finish the flow with what was gathered so far (C-08).
    #[must_use]
    pub fn early_completion(mut self) -> Self {
        self.early = true;
        self
    }

    /// How long one operation of this flow may take, instead of what the engine allows.
    #[must_use]
    pub fn operation_limit(mut self, limit: Duration) -> Self {
        self.operation = Some(limit);
        self
    }

    /// Lets sessions of this flow wait for an answer, and take, as long as they like; for work
    /// that goes on for weeks (C-11). A start can still say how long it will wait.
    #[must_use]
    pub fn patient(mut self) -> Self {
        self.patient = true;
        self
    }

    /// Time that a session of this flow waits for an answer unless its start says otherwise, in place
    /// of what the engine allows. A longer wait than a session may take altogether is not cut: how
    /// many questions there may be bounds it then.
    #[must_use]
    pub fn waits(mut self, duration: Duration) -> Self {
        self.waits = Some(duration);
        self
    }

    /// How long the result of this flow is remembered, instead of what the engine says.
    #[must_use]
    pub fn remembered(mut self, duration: Duration) -> Self {
        self.remembered = Some(duration);
        self
    }

    /// Keeps what was gathered for as long as a result would be, however a session ends: what was
    /// done is not lost with a cancelled one (C-11).
    #[must_use]
    pub fn kept_for(mut self, duration: Duration) -> Self {
        (self.remembered, self.keeps_data) = (Some(duration), true);
        self
    }

    /// How many questions a session of this flow may ask, instead of what the engine says.
    #[must_use]
    pub fn most_prompts(mut self, prompts: u32) -> Self {
        self.prompts = Some(prompts);
        self
    }

    /// Tells of a question beforehand: what a start gives for it must keep to its rules, however late
    /// it would be asked (INT-020). The flow may still ask for less than is told here.
    #[must_use]
    pub fn question(mut self, key: impl Into<String>, question: &impl Question) -> Self {
        let prompt = question.prompt();
        // One that cannot be asked ends the flow when it is, and says nothing of values before.
        if prompt.sound().is_ok() {
            self.questions.insert(key.into(), prompt.clone());
        }
        self
    }

    /// The name it is started by.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it is for.
    pub fn describe(&self) -> &str {
        &self.description
    }

    /// Whether it may be finished early.
    pub fn is_early(&self) -> bool {
        self.early
    }

    /// The question declared for a key by [`question`](Self::question).
    pub fn declared(&self, key: &str) -> Option<&Prompt> {
        self.questions.get(key)
    }

    pub(crate) fn is_patient(&self) -> bool {
        self.patient
    }

    pub(crate) fn wait(&self) -> Option<Duration> {
        self.waits
    }

    pub(crate) fn prompts(&self) -> Option<u32> {
        self.prompts
    }

    pub(crate) fn operation(&self) -> Option<Duration> {
        self.operation
    }

    /// Judges what is given for the questions that are known beforehand. What is left empty may have a
    /// default that is not.
    pub(crate) fn check_given(&self, params: &Map<String, Value>) -> Result<(), EngineError> {
        for (key, prompt) in &self.questions {
            if let Some(value) = params.get(key).filter(|value| !is_empty(value))
                && let Err(violation) = prompt.check(value)
            {
                return Err(EngineError::InvalidParams { key: key.clone(), violation });
            }
        }
        Ok(())
    }

    /// How long the end of a session that ended this way is remembered.
    pub(crate) fn remembers(&self, ending: &Ending) -> Option<Duration> {
        let lasts = self.keeps_data || matches!(ending, Ending::Completed { .. });
        self.remembered.filter(|_| lasts)
    }

    /// Whether what was gathered outlives a session that came to no result.
    pub(crate) fn keeps_data(&self) -> bool {
        self.keeps_data
    }

    pub(crate) fn run(
        &self,
        flow: Flow,
        params: &Map<String, Value>,
    ) -> Result<FlowFuture, BadParams> {
        (self.run)(flow, params)
    }
}

impl fmt::Debug for Definition {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Definition").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Parameters the flow's type cannot hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("parameter `{key}`: {reason}")]
pub struct BadParams {
    /// Which parameter; empty if all of them together.
    pub key: String,
    /// What is wrong with it.
    pub reason: String,
}

impl BadParams {
    fn new(error: &serde_path_to_error::Error<serde_json::Error>) -> Self {
        let key = error.path().to_string();
        let key = if key == "." { String::new() } else { key };
        Self { key, reason: error.inner().to_string() }
    }
}
