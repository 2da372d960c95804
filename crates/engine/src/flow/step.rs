//! Steps of a flow: work with recorded outcomes, timeouts and retries.

use std::error::Error;
use std::fmt;
use std::future::{pending, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use mcp_flow_session::Timestamp;
use mcp_flow_session::event::{StepFailure, StepOutcome};
use mcp_flow_session::replay::StepRecord;
use mcp_flow_session::session::LATEST_TIMER;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::compensation::{StepCompensation, Undo};
use super::{Flow, FlowError, FlowResult, FlowTimeout, Retry};
use crate::execution::Execution;
use crate::trace;

/// Error that a step can return: anything that converts to it, such as any
/// [`Error`](std::error::Error), [`FlowError`] and texts.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// A step of a flow. It runs when it is awaited.
///
/// ```
/// # use mcp_flow_engine::{Flow, FlowResult, Retry};
/// # use std::time::Duration;
/// # async fn charge() -> std::io::Result<String> { Ok(String::new()) }
/// # async fn order(flow: Flow) -> FlowResult<String> {
/// flow.step("charge", || charge())
///     .timeout(Duration::from_secs(10))
///     .retry(Retry::exponential(5))
///     .await
/// # }
/// ```
#[must_use = "a step runs when it is awaited"]
pub struct FlowStep<'a, T, W> {
    flow: &'a Flow,
    key: String,
    pub(super) settings: Settings,
    work: Option<W>,
    /// Known when the step is made, so that a future of this type has no bounds: the compiler could
    /// not prove them for closures that borrow, in flows that are sent between threads.
    start: Start<'a, T, W>,
    running: Option<Running<'a, T>>,
}

type Running<'a, T> = Pin<Box<dyn Future<Output = FlowResult<T>> + Send + 'a>>;

type Start<'a, T, W> = fn(&'a Flow, String, Settings, W) -> Running<'a, T>;

#[derive(Default)]
pub(super) struct Settings {
    /// Set if the work has no effects, so that it need not wait for the journal.
    pub(super) is_lookup: bool,
    pub(super) timeout: Option<Duration>,
    pub(super) retry: Option<Retry>,
    pub(super) compensation: Option<Undo>,
}

impl<'a, T, W> FlowStep<'a, T, W> {
    pub(super) fn new(flow: &'a Flow, key: &str, work: W) -> Self
    where
        W: StepWork + 'a,
        T: DeserializeOwned + 'a,
    {
        let (key, settings) = (key.to_owned(), Settings::default());
        Self { flow, key, settings, work: Some(work), start: start::<T, W>, running: None }
    }

    pub(super) fn lookup(mut self) -> Self {
        self.settings.is_lookup = true;
        self
    }

    /// Makes this a step whose work may run several times.
    pub(super) fn repeated<V>(
        self,
        retry: Retry,
        repeat: impl FnOnce(W) -> Option<V>,
    ) -> FlowStep<'a, T, V>
    where
        V: StepWork + 'a,
        T: DeserializeOwned + 'a,
    {
        let Self { flow, key, settings, work, .. } = self;
        let settings = Settings { retry: Some(retry), ..settings };
        let work = work.and_then(repeat);
        FlowStep { flow, key, settings, work, start: start::<T, V>, running: None }
    }

    /// Limits the duration of each attempt. One that takes longer is interrupted and has failed; it
    /// may have had its effect.
    pub fn timeout(mut self, duration: Duration) -> Self {
        self.settings.timeout = Some(duration);
        self
    }
}

impl<'a, T: DeserializeOwned + 'a, F> FlowStep<'a, T, Once<F>> {
    /// Runs the work again when it fails. Each failure is recorded, and so is the time of the next
    /// attempt: the flow sleeps until then, as in [`Flow::sleep`].
    pub fn retry<E, R>(self, retry: Retry) -> FlowStep<'a, T, Repeated<F>>
    where
        T: Serialize,
        E: Into<BoxError>,
        F: FnMut() -> R + Send + 'a,
        R: Future<Output = Result<T, E>> + Send,
    {
        self.repeated(retry, |Once(work)| work.map(Repeated))
    }
}

impl<'a, T: DeserializeOwned + 'a, F> FlowStep<'a, T, OnceWithKey<F>> {
    /// Runs the work again when it fails, with the same idempotency key. Each failure is recorded,
    /// and so is the time of the next attempt: the flow sleeps until then, as in [`Flow::sleep`].
    pub fn retry<E, R>(self, retry: Retry) -> FlowStep<'a, T, RepeatedWithKey<F>>
    where
        T: Serialize,
        E: Into<BoxError>,
        F: FnMut(String) -> R + Send + 'a,
        R: Future<Output = Result<T, E>> + Send,
    {
        self.repeated(retry, |OnceWithKey(work)| work.map(RepeatedWithKey))
    }
}

impl<T, W> Unpin for FlowStep<'_, T, W> {}

impl<T, W> Future for FlowStep<'_, T, W> {
    type Output = FlowResult<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let step = &mut *self;
        if let Some(work) = step.work.take() {
            let (key, settings) =
                (std::mem::take(&mut step.key), std::mem::take(&mut step.settings));
            step.running = Some((step.start)(step.flow, key, settings, work));
        }
        match &mut step.running {
            Some(running) => running.as_mut().poll(context),
            None => Poll::Pending,
        }
    }
}

impl<T, W> fmt::Debug for FlowStep<'_, T, W> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("FlowStep").field("key", &self.key).finish_non_exhaustive()
    }
}

fn start<'a, T, W>(flow: &'a Flow, key: String, settings: Settings, work: W) -> Running<'a, T>
where
    W: StepWork + 'a,
    T: DeserializeOwned + 'a,
{
    Box::pin(run(flow, key, settings, work))
}

/// Function that a step runs: any `FnOnce() -> R`.
///
/// Not that bound itself: with it the compiler takes every closure for one that runs once, and
/// [`retry`](FlowStep::retry) needs one that runs several times.
pub trait StepFn {
    /// Future of the work.
    type Work;

    /// Calls the function.
    fn call(self) -> Self::Work;
}

impl<F: FnOnce() -> R, R> StepFn for F {
    type Work = R;

    fn call(self) -> R {
        self()
    }
}

/// Function with an idempotency key that a step runs: any `FnOnce(String) -> R`.
pub trait StepFnWithKey {
    /// Future of the work.
    type Work;

    /// Calls the function.
    fn call(self, key: String) -> Self::Work;
}

impl<F: FnOnce(String) -> R, R> StepFnWithKey for F {
    type Work = R;

    fn call(self, key: String) -> R {
        self(key)
    }
}

/// Work of a step.
pub(super) trait StepWork: Send {
    /// Runs the work with an idempotency key.
    fn attempt(&mut self, key: String) -> impl Future<Output = Attempted> + Send;
}

/// Encoded result of an attempt, or its error.
pub(super) type Attempted = Result<serde_json::Result<Value>, BoxError>;

/// Work that runs once, of [`Flow::step`].
#[derive(Debug)]
pub struct Once<F>(pub(super) Option<F>);

/// Work that runs once, of [`Flow::step_with_key`].
#[derive(Debug)]
pub struct OnceWithKey<F>(pub(super) Option<F>);

/// Work of [`Flow::step`] that may run several times.
#[derive(Debug)]
pub struct Repeated<F>(F);

/// Work of [`Flow::step_with_key`] that may run several times.
#[derive(Debug)]
pub struct RepeatedWithKey<F>(F);

impl<T, E, F, R> StepWork for Once<F>
where
    T: Serialize,
    F: StepFn<Work = R> + Send,
    R: Future<Output = Result<T, E>> + Send,
    E: Into<BoxError>,
{
    async fn attempt(&mut self, _: String) -> Attempted {
        match self.0.take() {
            Some(work) => work.call().await.map_err(Into::into).map(serde_json::to_value),
            None => pending().await,
        }
    }
}

impl<T, E, F, R> StepWork for OnceWithKey<F>
where
    T: Serialize,
    F: StepFnWithKey<Work = R> + Send,
    R: Future<Output = Result<T, E>> + Send,
    E: Into<BoxError>,
{
    async fn attempt(&mut self, key: String) -> Attempted {
        match self.0.take() {
            Some(work) => work.call(key).await.map_err(Into::into).map(serde_json::to_value),
            None => pending().await,
        }
    }
}

impl<T, E, F, R> StepWork for Repeated<F>
where
    T: Serialize,
    F: FnMut() -> R + Send,
    R: Future<Output = Result<T, E>> + Send,
    E: Into<BoxError>,
{
    async fn attempt(&mut self, _: String) -> Attempted {
        self.0().await.map_err(Into::into).map(serde_json::to_value)
    }
}

impl<T, E, F, R> StepWork for RepeatedWithKey<F>
where
    T: Serialize,
    F: FnMut(String) -> R + Send,
    R: Future<Output = Result<T, E>> + Send,
    E: Into<BoxError>,
{
    async fn attempt(&mut self, key: String) -> Attempted {
        self.0(key).await.map_err(Into::into).map(serde_json::to_value)
    }
}

/// Error of a step, as [`Retry::unless`] sees it.
#[derive(Debug)]
pub struct StepError(BoxError);

impl StepError {
    /// Returns the error as this type, if it is one.
    pub fn downcast_ref<E: Error + 'static>(&self) -> Option<&E> {
        self.0.downcast_ref()
    }

    /// Returns the error and its causes.
    pub fn chain(&self) -> impl Iterator<Item = &(dyn Error + 'static)> {
        let first: &(dyn Error + 'static) = self.0.as_ref();
        std::iter::successors(Some(first), |&error| error.source())
    }

    fn failure(&self) -> StepFailure {
        let mut messages = self.chain().map(ToString::to_string);
        let message = messages.next().unwrap_or_default();
        StepFailure { message, causes: messages.take(MOST_CAUSES).collect() }
    }
}

impl fmt::Display for StepError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

async fn run<T: DeserializeOwned>(
    flow: &Flow,
    key: String,
    settings: Settings,
    work: impl StepWork,
) -> FlowResult<T> {
    run_keyed(flow, flow.key(&key)?, settings, work).await
}

/// Runs a step by its full key.
pub(super) async fn run_keyed<T: DeserializeOwned>(
    flow: &Flow,
    key: String,
    settings: Settings,
    mut work: impl StepWork,
) -> FlowResult<T> {
    let execution = &*flow.execution;
    let step = PlacedStep::new(execution, key);
    let (mut failures, mut is_live) = (0, true);
    let outcome = loop {
        match step.turn().await {
            Some(StepRecord::Done(outcome)) => break outcome,
            Some(StepRecord::Failed) => {
                failures += 1;
                step.wait(flow, failures, FALLBACK_WAIT).await;
                continue;
            }
            None => {}
        }
        if !settings.is_lookup {
            execution.begin_step(&step.key, step.number);
            poll_fn(|context| execution.poll_flushed(context)).await;
        }
        let idempotency_key = format!("{}/{}/{}", execution.id, step.key, step.number);
        let attempt = step.attempt(settings.timeout, work.attempt(idempotency_key)).await;
        let outcome = match attempt {
            Ok(value) => StepOutcome::Ok(value?),
            Err(error) => {
                failures += 1;
                let wait = settings.retry.as_ref().and_then(|retry| retry.wait(failures, &error));
                if let Some(wait) = wait {
                    step.turn_of_outcome().await;
                    execution.record_failure(&step.key, step.number, failures, error.failure());
                    step.wait(flow, failures, wait).await;
                    continue;
                }
                StepOutcome::Failed(error.failure())
            }
        };
        step.turn_of_outcome().await;
        let (is_lookup, is_compensable) = (settings.is_lookup, settings.compensation.is_some());
        let recorded = outcome.clone();
        is_live =
            execution.record_step(&step.key, step.number, recorded, is_lookup, is_compensable);
        break outcome;
    };
    if let (StepOutcome::Ok(_), Some(undo)) = (&outcome, settings.compensation) {
        let (key, number) = (step.key.clone(), step.number);
        let Settings { retry, timeout, .. } = settings;
        execution.add_compensation(StepCompensation { key, number, undo, retry, timeout });
    }
    if !is_live {
        // The session ends because it is too large; this future is about to be dropped.
        pending::<()>().await;
    }
    // Read back, so that the first run returns exactly what a replay returns.
    read(&step.key, outcome)
}

/// A step with its number. It waits for its turn in the order of the journal.
struct PlacedStep<'a> {
    execution: &'a Execution,
    key: String,
    number: u32,
    /// Poll of the flow in which the step was awaited first.
    since: u64,
}

impl<'a> PlacedStep<'a> {
    fn new(execution: &'a Execution, key: String) -> Self {
        let (number, since) = (execution.count_step(&key), execution.pass());
        Self { execution, key, number, since }
    }

    /// Waits for the step's turn, and returns its record, if it has one.
    async fn turn(&self) -> Option<StepRecord> {
        self.poll_turn(false).await
    }

    /// Waits until the outcome of the step, which has run, may be recorded.
    async fn turn_of_outcome(&self) {
        self.poll_turn(true).await;
    }

    async fn poll_turn(&self, is_done: bool) -> Option<StepRecord> {
        let (key, number, since) = (&self.key, self.number, self.since);
        poll_fn(|context| self.execution.poll_step(key, number, since, is_done, context)).await
    }

    /// Runs the work once.
    async fn attempt(
        &self,
        timeout: Option<Duration>,
        work: impl Future<Output = Attempted>,
    ) -> Result<serde_json::Result<Value>, StepError> {
        let _running = RunningStep::new(self.execution, &self.key, timeout);
        let mut span = trace::start_step(self.execution, &self.key);
        if let Some(error) = self.execution.injected_failure(&self.key) {
            return Err(StepError(error.into()));
        }
        let work = span.scope(work);
        let done = match timeout {
            Some(after) => match tokio::time::timeout(after, work).await {
                Ok(done) => done,
                Err(_) => Err(FlowTimeout { after }.into()),
            },
            None => work.await,
        };
        if let Err(error) = &done {
            span.fail("step_failed", || error.to_string());
        }
        done.map_err(StepError)
    }

    /// Waits before the next attempt, asleep.
    async fn wait(&self, flow: &Flow, failures: u32, wait: Duration) {
        let key = format!("retry {} {}.{failures}", self.key, self.number);
        flow.timer(key, |now: Timestamp| now.after(wait).min(LATEST_TIMER)).await;
    }
}

impl Drop for PlacedStep<'_> {
    fn drop(&mut self) {
        self.execution.drop_step(&self.key);
    }
}

/// Marks a step as running until dropped.
struct RunningStep<'a> {
    execution: &'a Execution,
    key: &'a str,
}

impl<'a> RunningStep<'a> {
    fn new(execution: &'a Execution, key: &'a str, limit: Option<Duration>) -> Self {
        execution.step_begins(key, limit);
        Self { execution, key }
    }
}

impl Drop for RunningStep<'_> {
    fn drop(&mut self) {
        self.execution.step_ends(self.key);
    }
}

fn read<T: DeserializeOwned>(key: &str, outcome: StepOutcome) -> FlowResult<T> {
    match outcome {
        StepOutcome::Ok(value) => serde_json::from_value(value).map_err(|error| {
            FlowError::new(format!("the recorded result of step `{key}` cannot be read: {error}"))
        }),
        StepOutcome::Failed(StepFailure { message, causes }) => {
            Err(FlowError::caused(format!("step `{key}` failed: {message}"), causes))
        }
    }
}

/// Causes of an error that are recorded.
const MOST_CAUSES: usize = 16;

/// Time to wait after a recorded failure whose timer is not recorded.
const FALLBACK_WAIT: Duration = Duration::from_secs(1);
