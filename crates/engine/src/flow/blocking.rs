//! Steps that may block their thread.

use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::step::{Attempted, StepFn, StepWork};
use super::{BoxError, FlowStep, Retry};

/// Work of [`Flow::blocking_step`](super::Flow::blocking_step), which runs once.
#[derive(Debug)]
pub struct Blocking<F>(pub(super) Option<F>);

/// Work of [`Flow::blocking_step`](super::Flow::blocking_step) that may run several times.
#[derive(Debug)]
pub struct RepeatedBlocking<F>(Arc<F>);

impl<'a, T: DeserializeOwned + 'a, F> FlowStep<'a, T, Blocking<F>> {
    /// Runs the work again when it fails. Each failure is recorded, and so is the time of the next
    /// attempt: the flow sleeps until then, as in [`Flow::sleep`](super::Flow::sleep).
    pub fn retry<E>(self, retry: Retry) -> FlowStep<'a, T, RepeatedBlocking<F>>
    where
        T: Serialize + Send + 'static,
        E: Into<BoxError> + Send + 'static,
        F: Fn() -> Result<T, E> + Send + Sync + 'static,
    {
        self.repeated(retry, |Blocking(work)| Some(RepeatedBlocking(Arc::new(work?))))
    }
}

impl<T, E, F> StepWork for Blocking<F>
where
    T: Serialize + Send + 'static,
    E: Into<BoxError> + Send + 'static,
    F: StepFn<Work = Result<T, E>> + Send + 'static,
{
    async fn attempt(&mut self, _: String) -> Attempted {
        match self.0.take() {
            Some(work) => run_blocking(|| work.call()).await,
            None => std::future::pending().await,
        }
    }
}

impl<T, E, F> StepWork for RepeatedBlocking<F>
where
    T: Serialize + Send + 'static,
    E: Into<BoxError> + Send + 'static,
    F: Fn() -> Result<T, E> + Send + Sync + 'static,
{
    async fn attempt(&mut self, _: String) -> Attempted {
        let work = Arc::clone(&self.0);
        run_blocking(move || work()).await
    }
}

async fn run_blocking<T, E>(work: impl FnOnce() -> Result<T, E> + Send + 'static) -> Attempted
where
    T: Serialize + Send + 'static,
    E: Into<BoxError> + Send + 'static,
{
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result.map_err(Into::into).map(serde_json::to_value),
        Err(panic) => match panic.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(stopped) => Err(stopped.into()),
        },
    }
}
