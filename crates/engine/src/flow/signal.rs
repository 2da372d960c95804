//! Signals: events from outside that a flow waits for.

use std::future::poll_fn;
use std::task::{Context, Poll};

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Flow, FlowError, FlowResult};
use crate::execution::Execution;

impl Flow {
    /// Waits for a signal of this name, and returns the value that came with it.
    ///
    /// A signal is sent by the owner of the session: with `mcp-flow sessions signal`, the method
    /// `interaction.signal` or [`Engine::signal`](crate::Engine::signal). One that arrives early is
    /// kept until the flow waits for it, up to 100 of them. A signal whose value is not a `T` is
    /// rejected; one that arrived before anybody waited stays where it is.
    ///
    /// A flow that waits takes neither a task nor memory, and the time does not count towards the
    /// limit on the duration of the session. To wait for a limited time, use
    /// [`timeout`](Flow::timeout).
    ///
    /// ```
    /// # use mcp_flow_engine::{Flow, FlowResult};
    /// #[derive(serde::Deserialize)]
    /// struct Payment {
    ///     amount: u64,
    /// }
    ///
    /// async fn order(flow: Flow) -> FlowResult<u64> {
    ///     let payment: Payment = flow.wait_for("paid").await?;
    ///     Ok(payment.amount)
    /// }
    /// ```
    pub async fn wait_for<T: DeserializeOwned + 'static>(&self, name: &str) -> FlowResult<T> {
        let key = self.key(name)?;
        let mut waiting =
            Waiting { execution: &self.execution, key: &key, number: None, done: false };
        let value = poll_fn(|context| waiting.poll(fits::<T>, context)).await;
        T::deserialize(value).map_err(|error| {
            FlowError::new(format!("the signal `{key}` does not fit the type it has now: {error}"))
        })
    }
}

/// A signal that the flow waits for. The wait is dropped from the session if the flow drops it.
struct Waiting<'a> {
    execution: &'a Execution,
    key: &'a str,
    number: Option<u32>,
    done: bool,
}

impl Waiting<'_> {
    fn poll(
        &mut self,
        fits: fn(&Value) -> Result<(), String>,
        context: &mut Context<'_>,
    ) -> Poll<Value> {
        let polled = self.execution.poll_signal(self.key, &mut self.number, fits, context);
        self.done = polled.is_ready();
        polled
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if !self.done {
            self.execution.drop_signal_wait(self.key, self.number);
        }
    }
}

fn fits<T: DeserializeOwned>(value: &Value) -> Result<(), String> {
    T::deserialize(value).map(drop).map_err(|error| error.to_string())
}
