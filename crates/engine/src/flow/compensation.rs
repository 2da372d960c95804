//! Compensations: work that undoes a step when its session ends without success.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::time::Duration;

use futures_util::FutureExt;
use mcp_flow_session::session::compensation_key;
use serde_json::Value;

use super::step::{Attempted, Settings, StepWork, run_keyed};
use super::{BoxError, Flow, FlowResult, FlowStep, Retry};
use crate::definition::FlowFuture;

impl<T, W> FlowStep<'_, T, W> {
    /// Sets work that undoes the step, if it has succeeded and its session ends without success: the
    /// flow fails or panics, or the session is cancelled, expires or exceeds a bound.
    ///
    /// Before such an end, compensations run in the reverse order of their steps, one after the
    /// other. They are steps, too: recorded as `undo KEY NUMBER`, interrupted by a crash and run again,
    /// with the timeout and the retries that the step has. One that fails for good does not keep
    /// others from running; the session names its step.
    ///
    /// The work must not use the flow, which is gone when it runs. A step that failed or was
    /// interrupted is not undone, though it may have had its effect: let it fail only if it had none.
    /// A flow that declines has ended with success.
    ///
    /// ```
    /// # use mcp_flow_engine::{Flow, FlowResult, Retry};
    /// # use std::io::Result;
    /// # async fn reserve(order: String) -> Result<()> { Ok(()) }
    /// # async fn release(order: String) -> Result<()> { Ok(()) }
    /// # async fn ship(flow: &Flow) -> FlowResult<()> { Ok(()) }
    /// async fn order(flow: Flow) -> FlowResult<()> {
    ///     let order = flow.session().to_string();
    ///     let reserved = order.clone();
    ///     flow.step("reserve", || reserve(order))
    ///         .compensate(move || release(reserved.clone()))
    ///         .await?;
    ///     // If this fails, the reservation is released.
    ///     ship(&flow).await
    /// }
    /// ```
    pub fn compensate<C, R, U, E>(mut self, mut undo: C) -> Self
    where
        C: FnMut() -> R + Send + 'static,
        R: Future<Output = Result<U, E>> + Send + 'static,
        E: Into<BoxError>,
    {
        self.settings.compensation = Some(Undo(Box::new(move || {
            let undone = undo();
            Box::pin(async move { undone.await.map(drop).map_err(Into::into) })
        })));
        self
    }
}

/// Work that undoes a step.
pub(crate) struct Undo(Box<dyn FnMut() -> Undoing + Send>);

type Undoing = Pin<Box<dyn Future<Output = Result<(), BoxError>> + Send>>;

impl StepWork for Undo {
    async fn attempt(&mut self, _: String) -> Attempted {
        // A flow that panics fails, and this is what runs then.
        let undone = AssertUnwindSafe(async { (self.0)().await }).catch_unwind().await;
        undone.unwrap_or_else(|_| Err("it panicked".into())).map(|()| Ok(Value::Null))
    }
}

/// Compensation of a step that has succeeded.
pub(crate) struct StepCompensation {
    pub(super) key: String,
    pub(super) number: u32,
    pub(super) undo: Undo,
    pub(super) retry: Option<Retry>,
    pub(super) timeout: Option<Duration>,
}

impl fmt::Debug for StepCompensation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "StepCompensation({} {})", self.key, self.number)
    }
}

/// Runs compensations, the last first, before their session ends.
pub(crate) fn compensate(flow: Flow, compensations: Vec<StepCompensation>) -> FlowFuture {
    Box::pin(async move {
        // An attempt without a timeout of its own may take as long as any operation.
        let longest = flow.execution.operation_limit();
        for StepCompensation { key, number, undo, retry, timeout } in
            compensations.into_iter().rev()
        {
            let timeout = timeout.or(Some(longest));
            let settings = Settings { retry, timeout, ..Settings::default() };
            // The journal has its outcome.
            let _: FlowResult<Value> =
                run_keyed(&flow, compensation_key(&key, number), settings, undo).await;
        }
        Ok(Value::Null)
    })
}
