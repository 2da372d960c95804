//! What a flow is given: the power to ask.

mod error;

use std::future::poll_fn;
use std::sync::Arc;

use mcp_flow_session::event::{Fault, FaultName, Outcome};
use mcp_flow_session::prompt::Progress;
use mcp_flow_session::{Date, Owner, Question, SessionId, Timestamp};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::shared::Shared;

pub(crate) use error::Reason;
pub use error::{FlowError, FlowResult};

/// A flow's hold on its session.
///
/// The function that gets it runs again from the top whenever the session is taken up: after a
/// crash, on another machine, or because it waited for long. Questions and steps that were over
/// then give at once what they gave before, so the function comes to where it was. Hence two
/// rules: what has effects belongs into a step, and what lies between questions and steps must
/// not depend on anything but their results, the parameters, and [`now`](Flow::now) and
/// [`random`](Flow::random).
///
/// Steps and questions may run side by side, as with `join!`; one question is open at a time.
#[derive(Clone)]
pub struct Flow {
    shared: Arc<Shared>,
    /// What the keys of a flow within a flow begin with.
    scope: String,
}

impl Flow {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, scope: String::new() }
    }

    /// Asks, and waits for the answer, for as long as it takes.
    ///
    /// A value under `key` in the parameters of the start answers it, if the rules allow it.
    pub async fn ask<Q: Question>(&self, key: &str, question: Q) -> FlowResult<Q::Answer> {
        let key = self.key(key)?;
        let value = poll_fn(|context| self.shared.poll_ask(&key, question.prompt(), context)).await;
        question.read(value).ok_or_else(|| {
            FlowError::new(format!("the answer to `{key}` does not fit the type of its question"))
        })
    }

    /// Does something that has effects, once as far as anyone can tell.
    ///
    /// All that led to it is durable before it begins, and its result before anyone hears of what
    /// follows. If it is interrupted it runs again, so it happens at least once; see
    /// [`step_with_key`](Flow::step_with_key). An error counts as a result: it is kept, and comes
    /// back when the flow runs again.
    pub async fn step<T, E, F, R>(&self, key: &str, work: F) -> FlowResult<T>
    where
        T: Serialize + DeserializeOwned,
        E: std::fmt::Display,
        F: FnOnce() -> R,
        R: Future<Output = Result<T, E>>,
    {
        self.step_with_key(key, |_| work()).await
    }

    /// As [`step`](Flow::step), for work that can tell a repetition by its key.
    ///
    /// The key is the same whenever this step runs again, and no other step of any session has it.
    pub async fn step_with_key<T, E, F, R>(&self, key: &str, work: F) -> FlowResult<T>
    where
        T: Serialize + DeserializeOwned,
        E: std::fmt::Display,
        F: FnOnce(String) -> R,
        R: Future<Output = Result<T, E>>,
    {
        let key = self.key(key)?;
        let number = match self.shared.recorded(&key) {
            Ok(outcome) => return read(&key, outcome),
            Err(number) => number,
        };
        poll_fn(|context| self.shared.poll_flushed(context)).await;
        self.perform(&key, || work(format!("{}/{key}/{number}", self.shared.id))).await
    }

    /// As [`step`](Flow::step), for work that may block the thread it runs on.
    pub async fn blocking_step<T, E, F>(&self, key: &str, work: F) -> FlowResult<T>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        E: std::fmt::Display + Send + 'static,
        F: FnOnce() -> Result<T, E> + Send + 'static,
    {
        self.step(key, || async {
            match tokio::task::spawn_blocking(work).await {
                Ok(result) => result.map_err(|error| error.to_string()),
                Err(panic) => match panic.try_into_panic() {
                    Ok(panic) => std::panic::resume_unwind(panic),
                    Err(stopped) => Err(stopped.to_string()),
                },
            }
        })
        .await
    }

    /// Finds something out, with no effect on anything.
    ///
    /// Its result is kept like that of a step, but it may run before what led to it is durable,
    /// and so more often than anyone hears of. That saves writing to the journal twice in a turn.
    pub async fn lookup<T, E, F, R>(&self, key: &str, work: F) -> FlowResult<T>
    where
        T: Serialize + DeserializeOwned,
        E: std::fmt::Display,
        F: FnOnce() -> R,
        R: Future<Output = Result<T, E>>,
    {
        let key = self.key(key)?;
        match self.shared.recorded(&key) {
            Ok(outcome) => read(&key, outcome),
            Err(_) => self.perform(&key, work).await,
        }
    }

    /// Runs another flow within this one. Its keys begin with `key` and a dot, also those by which
    /// parameters answer its questions.
    pub async fn call<P, T, F, R>(&self, key: &str, function: F, params: P) -> FlowResult<T>
    where
        F: FnOnce(Flow, P) -> R,
        R: Future<Output = FlowResult<T>>,
    {
        let scope = format!("{}.", self.key(key)?);
        function(Self { shared: Arc::clone(&self.shared), scope }, params).await
    }

    /// The time by the calendar, the same whenever this runs again.
    pub fn now(&self) -> Timestamp {
        let drawn = self.draw(NOW, || self.shared.now().as_millis().into());
        Timestamp::from_millis(drawn.as_u64().unwrap_or_default())
    }

    /// The day by the calendar in UTC, the same whenever this runs again.
    pub fn today(&self) -> Date {
        self.now().day()
    }

    /// A number nobody can guess, the same whenever this runs again.
    pub fn random(&self) -> u64 {
        let draw = || getrandom::u64().map_or(Value::Null, Value::from);
        let drawn = self.draw(RANDOM, draw);
        // Systems that have no randomness do not get as far as a session, which needs an id.
        drawn.as_u64().unwrap_or_default()
    }

    /// Tells how far the flow has come. Shown beside the next question, and to who listens.
    pub fn progress(&self, current: f64, total: f64, message: impl Into<Option<String>>) {
        self.shared.set_progress(Progress { current, total, message: message.into() });
    }

    /// Notes something for those who look at the session (INT-060).
    pub fn set(&self, key: &str, value: impl Serialize) -> FlowResult<()> {
        let key = self.key(key)?;
        self.shared.set(&key, serde_json::to_value(value)?);
        Ok(())
    }

    /// Says in a sentence what came of it all.
    pub fn summary(&self, text: impl Into<String>) {
        self.shared.set_summary(text.into());
    }

    /// Ends the flow without having done what it was started for (INT-050).
    pub fn decline<T>(&self, summary: impl Into<String>) -> FlowResult<T> {
        Err(FlowError::declined(summary))
    }

    /// What the flow was told at the start beside its parameters (INT-021).
    pub fn context(&self) -> Map<String, Value> {
        self.shared.lock().session.started.context.clone()
    }

    /// Whom the session belongs to.
    pub fn owner(&self) -> Owner {
        self.shared.lock().session.started.owner.clone()
    }

    /// Which session this is.
    pub fn session(&self) -> SessionId {
        self.shared.id
    }

    /// Runs a step that is not on record, and records how it ended.
    async fn perform<T, E, F, R>(&self, key: &str, work: F) -> FlowResult<T>
    where
        T: Serialize + DeserializeOwned,
        E: std::fmt::Display,
        F: FnOnce() -> R,
        R: Future<Output = Result<T, E>>,
    {
        let outcome = {
            let _at_work = AtWork::new(&self.shared, key);
            match work().await {
                Ok(value) => Outcome::Ok(serde_json::to_value(value)?),
                Err(error) => Outcome::Failed(error.to_string()),
            }
        };
        if !self.shared.record(key, outcome.clone()) {
            // The session holds too much and is over; its future is about to be dropped.
            std::future::pending::<()>().await;
        }
        // What is given now must be what is given when it is read back.
        read(key, outcome)
    }

    /// Something that is drawn once and then kept.
    fn draw(&self, key: &str, draw: impl FnOnce() -> Value) -> Value {
        let key = format!("{}{key}", self.scope);
        match self.shared.recorded(&key) {
            Ok(Outcome::Ok(value)) => value,
            Ok(Outcome::Failed(_)) => Value::Null,
            Err(_) => {
                let value = draw();
                self.shared.record(&key, Outcome::Ok(value.clone()));
                value
            }
        }
    }

    /// The whole key of a question or step.
    fn key(&self, key: &str) -> FlowResult<String> {
        let plain = !key.is_empty()
            && !key.starts_with('~')
            && self.scope.len() + key.len() <= LONGEST_KEY
            && !key.chars().any(char::is_control);
        if plain {
            return Ok(format!("{}{key}", self.scope));
        }
        let fault = Fault::new(
            FaultName::BadPrompt,
            "a key has 1 to 200 bytes, no control characters, and does not begin with `~`",
        );
        Err(FlowError::fault(fault))
    }
}

impl std::fmt::Debug for Flow {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Flow").field("session", &self.shared.id).finish_non_exhaustive()
    }
}

/// While it lives, a step is at work.
struct AtWork<'a> {
    shared: &'a Shared,
    key: &'a str,
}

impl<'a> AtWork<'a> {
    fn new(shared: &'a Shared, key: &'a str) -> Self {
        shared.step_begins(key);
        Self { shared, key }
    }
}

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        self.shared.step_ends(self.key);
    }
}

fn read<T: DeserializeOwned>(key: &str, outcome: Outcome) -> FlowResult<T> {
    match outcome {
        Outcome::Ok(value) => serde_json::from_value(value).map_err(|error| {
            FlowError::new(format!("what step `{key}` gave cannot be read back: {error}"))
        }),
        Outcome::Failed(message) => Err(FlowError::new(format!("step `{key}` failed: {message}"))),
    }
}

const NOW: &str = "~now";
const RANDOM: &str = "~random";
const LONGEST_KEY: usize = 200;
