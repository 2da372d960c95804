//! Handle of a flow to its session: questions, steps, progress.

mod ask;
mod blocking;
mod branches;
mod compensation;
mod error;
mod label;
mod link;
mod retry;
mod signal;
mod step;
mod timer;
mod version;

use std::sync::Arc;

use mcp_flow_session::event::{FaultName, FlowFault, StepOutcome};
use mcp_flow_session::prompt::FlowProgress;
use mcp_flow_session::{Date, Owner, Question, SessionId, Timestamp};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::execution::Execution;

pub use ask::{FlowAsk, LinkedAsk};
pub use blocking::{Blocking, RepeatedBlocking};
pub(crate) use compensation::{StepCompensation, compensate};
pub(crate) use error::Reason;
pub use error::{FlowError, FlowResult};
pub use retry::Retry;
pub use step::{
    BoxError, FlowStep, Once, OnceWithKey, Repeated, RepeatedWithKey, StepError, StepFn,
    StepFnWithKey,
};
pub use timer::FlowTimeout;

/// Handle of a flow to its session.
///
/// The function that gets it runs again from the top whenever the session is resumed: after a
/// crash, on another machine, or after a long wait. Questions and steps that have a recorded result
/// return it at once, so the function gets back to where it was. Hence two rules: side effects
/// belong in a step, and the code between questions and steps must be deterministic. It may depend
/// only on their results, the parameters, [`now`](Flow::now) and [`random`](Flow::random).
///
/// Steps, timers and questions may run concurrently, as with `join!`. Clients of the tasks extension
/// see all questions that wait; for others one is open at a time, and the rest follow in the order
/// they were asked. Either way the flow gets the answers in that order. A branch that loses a race, as
/// with `select` or [`timeout`](Flow::timeout), drops its question: clients cannot answer it any more.
#[derive(Clone)]
pub struct Flow {
    execution: Arc<Execution>,
    /// Prefix of the keys of a nested flow.
    scope: String,
}

impl Flow {
    pub(crate) fn new(execution: Arc<Execution>) -> Self {
        Self { execution, scope: String::new() }
    }

    /// Asks a question and waits for its answer.
    ///
    /// A valid value under `key` in the parameters of the start answers it at once. The returned
    /// [`FlowAsk`] can also be answered [by a link](FlowAsk::by_link).
    pub fn ask<Q: Question>(&self, key: &str, question: Q) -> FlowAsk<'_, Q> {
        FlowAsk::new(self, key, question)
    }

    /// Runs work with side effects and records its result.
    ///
    /// Everything before it is durable when the work begins, and its result is durable before the
    /// client hears of anything that follows. Work that is interrupted runs again, so it runs at
    /// least once; see [`step_with_key`](Flow::step_with_key) to make it idempotent. An error is a
    /// result, too: it is recorded, and returned when the flow is replayed.
    ///
    /// The returned [`FlowStep`] can have a [timeout](FlowStep::timeout) and [retries](FlowStep::retry).
    pub fn step<'a, T, E, F, R>(&'a self, key: &str, work: F) -> FlowStep<'a, T, Once<F>>
    where
        T: Serialize + DeserializeOwned + 'a,
        E: Into<BoxError>,
        F: StepFn<Work = R> + Send + 'a,
        R: Future<Output = Result<T, E>> + Send,
    {
        FlowStep::new(self, key, Once(Some(work)))
    }

    /// Runs a [`step`](Flow::step) that gets an idempotency key.
    ///
    /// The key is the same whenever this step runs again, and unique among all steps and sessions.
    pub fn step_with_key<'a, T, E, F, R>(
        &'a self,
        key: &str,
        work: F,
    ) -> FlowStep<'a, T, OnceWithKey<F>>
    where
        T: Serialize + DeserializeOwned + 'a,
        E: Into<BoxError>,
        F: StepFnWithKey<Work = R> + Send + 'a,
        R: Future<Output = Result<T, E>> + Send,
    {
        FlowStep::new(self, key, OnceWithKey(Some(work)))
    }

    /// Runs a [`step`](Flow::step) that may block its thread. A timeout does not interrupt it: it ends
    /// by itself, and its result is ignored.
    pub fn blocking_step<'a, T, E, F>(&'a self, key: &str, work: F) -> FlowStep<'a, T, Blocking<F>>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        E: Into<BoxError> + Send + 'static,
        F: StepFn<Work = Result<T, E>> + Send + 'static,
    {
        FlowStep::new(self, key, Blocking(Some(work)))
    }

    /// Runs work without side effects, such as a query, and records its result.
    ///
    /// Unlike a step, it does not wait for everything before it to be durable, which saves a write
    /// per turn. It may therefore run more often than the journal shows.
    pub fn lookup<'a, T, E, F, R>(&'a self, key: &str, work: F) -> FlowStep<'a, T, Once<F>>
    where
        T: Serialize + DeserializeOwned + 'a,
        E: Into<BoxError>,
        F: StepFn<Work = R> + Send + 'a,
        R: Future<Output = Result<T, E>> + Send,
    {
        FlowStep::new(self, key, Once(Some(work))).lookup()
    }

    /// Runs another flow within this one. Its keys get the prefix `key` and a dot, also in the
    /// parameters of the start.
    pub async fn call<P, T, F, R>(&self, key: &str, function: F, params: P) -> FlowResult<T>
    where
        F: FnOnce(Flow, P) -> R,
        R: Future<Output = FlowResult<T>>,
    {
        let scope = format!("{}.", self.key(key)?);
        function(Self { execution: Arc::clone(&self.execution), scope }, params).await
    }

    /// Returns the wall-clock time, recorded for replay.
    pub fn now(&self) -> Timestamp {
        let drawn = self.draw(NOW, || self.execution.now().as_millis().into());
        Timestamp::from_millis(drawn.as_u64().unwrap_or_default())
    }

    /// Returns today's date in UTC, recorded for replay.
    pub fn today(&self) -> Date {
        self.now().day()
    }

    /// Returns an unpredictable number, recorded for replay.
    pub fn random(&self) -> u64 {
        let draw = || getrandom::u64().map_or(Value::Null, Value::from);
        let drawn = self.draw(RANDOM, draw);
        // Without randomness there is no session id, so no flow gets here.
        drawn.as_u64().unwrap_or_default()
    }

    /// Reports progress: shown with the next question, and published to subscribers.
    pub fn progress(&self, current: f64, total: f64, message: impl Into<Option<String>>) {
        self.execution.set_progress(FlowProgress { current, total, message: message.into() });
    }

    /// Sets an entry of the session's data, which `interaction.getState` shows (INT-060).
    pub fn set(&self, key: &str, value: impl Serialize) -> FlowResult<()> {
        let key = self.key(key)?;
        self.execution.set_data(&key, serde_json::to_value(value)?);
        Ok(())
    }

    /// Sets the summary of the result, one sentence.
    pub fn summary(&self, text: impl Into<String>) {
        self.execution.set_summary(text.into());
    }

    /// Completes the flow without success (INT-050).
    pub fn decline<T>(&self, summary: impl Into<String>) -> FlowResult<T> {
        Err(FlowError::declined(summary))
    }

    /// Returns the context given at the start (INT-021).
    pub fn context(&self) -> Map<String, Value> {
        self.execution.lock().session.started.context.clone()
    }

    /// Returns the owner of the session.
    pub fn owner(&self) -> Owner {
        self.execution.lock().session.started.owner.clone()
    }

    /// Returns the scopes of the credential that started the session.
    pub fn scopes(&self) -> Vec<String> {
        self.execution.lock().session.started.scopes.clone()
    }

    /// Returns the number of sessions whose calls led to this one.
    pub fn depth(&self) -> u32 {
        self.execution.lock().session.started.depth
    }

    /// Returns the id of the session.
    pub fn session(&self) -> SessionId {
        self.execution.id
    }

    /// Draws a value once, and records it.
    fn draw(&self, key: &str, draw: impl FnOnce() -> Value) -> Value {
        let key = format!("{}{key}", self.scope);
        match self.execution.recorded_draw(&key) {
            Some(StepOutcome::Ok(value)) => value,
            Some(StepOutcome::Failed(_)) => Value::Null,
            None => {
                let value = draw();
                self.execution.record_drawn(&key, StepOutcome::Ok(value.clone()));
                value
            }
        }
    }

    /// Returns the full key of a question or step, with the prefix of a nested flow.
    fn key(&self, key: &str) -> FlowResult<String> {
        let plain = !key.is_empty()
            && !key.starts_with('~')
            && self.scope.len() + key.len() <= KEY_LIMIT
            && !key.chars().any(char::is_control);
        if plain {
            return Ok(format!("{}{key}", self.scope));
        }
        let fault = FlowFault::new(
            FaultName::BadPrompt,
            "a key must have 1 to 200 bytes, no control characters, and not begin with `~`",
        );
        Err(FlowError::fault(fault))
    }
}

impl std::fmt::Debug for Flow {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Flow").field("session", &self.execution.id).finish_non_exhaustive()
    }
}

const NOW: &str = "~now";
const RANDOM: &str = "~random";
const KEY_LIMIT: usize = 200;
