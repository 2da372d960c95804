//! Definition of a flow: its function and its settings.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use mcp_flow_session::event::Ending;
use mcp_flow_session::{JournalEvent, Prompt, Question, is_empty};
use parking_lot::RwLock;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::error::EngineError;
use crate::flow::{Flow, FlowError, FlowResult};

/// Definition of a flow: its name, the function that runs it, and its settings.
pub struct Definition {
    name: String,
    description: String,
    early_completion: bool,
    no_timeout: bool,
    waits: Option<Duration>,
    operation: Option<Duration>,
    retention: Option<Duration>,
    keeps_data: bool,
    prompts: Option<u32>,
    /// Declared questions by key.
    questions: BTreeMap<String, Prompt>,
    run: Box<Run>,
}

/// Future of a running flow.
pub(crate) type FlowFuture = Pin<Box<dyn Future<Output = Result<Value, FlowError>> + Send>>;

type Run = dyn Fn(Flow, &Map<String, Value>) -> Result<FlowFuture, BadParams> + Send + Sync;

impl Definition {
    /// Defines a flow by its function.
    ///
    /// The function runs again from the top whenever its session is resumed: side effects belong in
    /// [`Flow::step`].
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
            early_completion: false,
            no_timeout: false,
            waits: None,
            operation: None,
            retention: None,
            keeps_data: false,
            prompts: None,
            questions: BTreeMap::new(),
            run: Box::new(run),
        }
    }

    /// Sets the description.
    #[must_use]
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.description = text.into();
        self
    }

    /// Lets the client complete a session early, with the data gathered so far (C-08).
    #[must_use]
    pub fn early_completion(mut self) -> Self {
        self.early_completion = true;
        self
    }

    /// Sets the timeout of one operation. Defaults to
    /// [`SessionLimits::operation`](crate::SessionLimits).
    #[must_use]
    pub fn operation_limit(mut self, limit: Duration) -> Self {
        self.operation = Some(limit);
        self
    }

    /// Removes the inactivity timeout and the limit on the duration of sessions, for work that
    /// takes weeks (C-11). A start can still set an inactivity timeout.
    #[must_use]
    pub fn no_timeout(mut self) -> Self {
        self.no_timeout = true;
        self
    }

    /// Sets the inactivity timeout of sessions whose start sets none. If it is longer than
    /// [`SessionLimits::duration`](crate::SessionLimits), sessions have no limit on their duration
    /// and are bounded by their number of questions.
    #[must_use]
    pub fn waits(mut self, duration: Duration) -> Self {
        self.waits = Some(duration);
        self
    }

    /// Sets how long a result is retained. Defaults to
    /// [`Bounds::retention`](mcp_flow_session::session::Bounds).
    #[must_use]
    pub fn retention(mut self, duration: Duration) -> Self {
        self.retention = Some(duration);
        self
    }

    /// Sets how long a session is retained after any ending, together with the data gathered so
    /// far: work that was done is not lost with a cancelled session (C-11).
    #[must_use]
    pub fn retention_with_data(mut self, duration: Duration) -> Self {
        (self.retention, self.keeps_data) = (Some(duration), true);
        self
    }

    /// Sets the most questions a session may ask. Defaults to
    /// [`Bounds::prompts`](mcp_flow_session::session::Bounds).
    #[must_use]
    pub fn max_prompts(mut self, prompts: u32) -> Self {
        self.prompts = Some(prompts);
        self
    }

    /// Declares a question: a value given for it at the start is validated then, however late the
    /// question comes up (INT-020). The flow may ask with stricter rules than declared.
    #[must_use]
    pub fn question(mut self, key: impl Into<String>, question: &impl Question) -> Self {
        let prompt = question.prompt();
        // An invalid prompt ends the flow when it is asked; it cannot validate anything before.
        if prompt.validate().is_ok() {
            self.questions.insert(key.into(), prompt.clone());
        }
        self
    }

    /// Returns the name sessions are started by.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the description.
    pub fn describe(&self) -> &str {
        &self.description
    }

    /// Returns whether a client may complete a session early.
    pub fn allows_early_completion(&self) -> bool {
        self.early_completion
    }

    /// Returns the question declared for a key by [`question`](Self::question).
    pub fn declared(&self, key: &str) -> Option<&Prompt> {
        self.questions.get(key)
    }

    pub(crate) fn has_no_timeout(&self) -> bool {
        self.no_timeout
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

    /// Validates the values given for declared questions. Empty ones are left to the question,
    /// which may have a default.
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

    /// Retention of a session with this ending, if the flow sets one.
    pub(crate) fn retention_of(&self, ending: &Ending) -> Option<Duration> {
        let applies = self.keeps_data || matches!(ending, Ending::Completed { .. });
        self.retention.filter(|_| applies)
    }

    /// Returns whether the data of a session without a result is retained.
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

/// Definitions by name, which may change while the engine runs.
#[derive(Default)]
pub(crate) struct Definitions {
    flows: RwLock<BTreeMap<String, Arc<Definition>>>,
    recorded: Option<Box<DefineRecorded>>,
}

type DefineRecorded = dyn Fn(&str, &[JournalEvent]) -> Option<Definition> + Send + Sync;

impl Definitions {
    pub(crate) fn all(&self) -> Vec<Arc<Definition>> {
        self.flows.read().values().cloned().collect()
    }

    pub(crate) fn get(&self, name: &str) -> Option<Arc<Definition>> {
        self.flows.read().get(name).cloned()
    }

    pub(crate) fn insert(&self, definition: Definition) {
        self.flows.write().insert(definition.name().to_owned(), Arc::new(definition));
    }

    pub(crate) fn remove(&self, name: &str) -> bool {
        self.flows.write().remove(name).is_some()
    }

    pub(crate) fn define_recorded(
        &mut self,
        define: impl Fn(&str, &[JournalEvent]) -> Option<Definition> + Send + Sync + 'static,
    ) {
        self.recorded = Some(Box::new(define));
    }

    /// Finds the flow of a session, by its name or by its journal.
    pub(crate) fn find(&self, name: &str, events: &[JournalEvent]) -> Option<Arc<Definition>> {
        let recorded = || self.recorded.as_ref()?(name, events).map(Arc::new);
        self.get(name).or_else(recorded)
    }
}

impl fmt::Debug for Definitions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.flows.read().keys()).finish()
    }
}

/// Parameters that do not deserialize to the flow's type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("parameter `{key}`: {reason}")]
pub struct BadParams {
    /// Name of the parameter; empty for the parameters as a whole.
    pub key: String,
    /// Reason it does not deserialize.
    pub reason: String,
}

impl BadParams {
    fn new(error: &serde_path_to_error::Error<serde_json::Error>) -> Self {
        let key = error.path().to_string();
        let key = if key == "." { String::new() } else { key };
        Self { key, reason: error.inner().to_string() }
    }
}
