//! Timers: durable sleeps and timeouts.

use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Poll};
use std::time::Duration;

use mcp_flow_session::Timestamp;
use mcp_flow_session::session::LATEST_TIMER;

use super::{Flow, FlowError, FlowResult};
use crate::execution::Execution;

impl Flow {
    /// Sleeps for a duration, which survives restarts.
    ///
    /// A sleeping flow takes neither a task nor memory. Whichever process is running when the time
    /// has come resumes it. Time is measured by the wall clock, so setting that moves the wake-up
    /// along. Time asleep does not count towards the limit on the duration of the session. Fails if
    /// the flow would wake up after the year 9999.
    pub async fn sleep(&self, duration: Duration) -> FlowResult<()> {
        let key = format!("{}sleep {} ms", self.scope, duration.as_millis());
        if duration > LONGEST_SLEEP {
            return Err(too_late(format!("sleep for {} days", duration.as_secs() / DAY)));
        }
        self.timer(key, |now| now.after(duration).min(LATEST_TIMER)).await;
        Ok(())
    }

    /// Sleeps until a time, like [`sleep`](Flow::sleep). Returns at once if that is in the past.
    pub async fn sleep_until(&self, time: Timestamp) -> FlowResult<()> {
        if time > LATEST_TIMER {
            return Err(too_late(format!("sleep until {} ms", time.as_millis())));
        }
        let key = format!("{}sleep until {}", self.scope, time.to_iso8601());
        self.timer(key, |_| time).await;
        Ok(())
    }

    /// Runs a part of the flow with a timeout, which survives restarts: questions, steps, or several
    /// of them in an `async` block.
    ///
    /// When the time is over, the part is dropped: its question is withdrawn, and its step is
    /// interrupted.
    ///
    /// ```
    /// # use mcp_flow_engine::{Flow, FlowResult};
    /// # use mcp_flow_session::question::confirm;
    /// # use std::time::Duration;
    /// # async fn approve(flow: Flow) -> FlowResult<bool> {
    /// const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    /// match flow.timeout(3 * DAY, flow.ask("approved", confirm("Approve?"))).await {
    ///     Ok(approved) => approved,
    ///     Err(_) => flow.decline("nobody approved it in three days"),
    /// }
    /// # }
    /// ```
    pub async fn timeout<F: Future>(
        &self,
        duration: Duration,
        future: F,
    ) -> Result<F::Output, FlowTimeout> {
        let key = format!("{}timeout {} ms", self.scope, duration.as_millis());
        let mut timer = Timer { execution: &self.execution, key, number: None, done: false };
        let mut future = pin!(future);
        poll_fn(|context| {
            // Polled first, so that a result and the end of the time always go the same way.
            if let Poll::Ready(output) = future.as_mut().poll(context) {
                return Poll::Ready(Ok(output));
            }
            let fires = |now: Timestamp| now.after(duration).min(LATEST_TIMER);
            timer.poll(fires, context).map(|()| Err(FlowTimeout { after: duration }))
        })
        .await
    }

    /// Sets a timer and waits until it fires.
    pub(super) async fn timer(&self, key: String, until: impl Fn(Timestamp) -> Timestamp) {
        let mut timer = Timer { execution: &self.execution, key, number: None, done: false };
        poll_fn(|context| timer.poll(&until, context)).await;
    }
}

/// A part of a flow took longer than its [timeout](Flow::timeout).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it took longer than {} s", after.as_secs_f64())]
pub struct FlowTimeout {
    /// The timeout.
    pub after: Duration,
}

/// A timer that the flow waits for. Dropped from the session if the flow drops it.
struct Timer<'a> {
    execution: &'a Execution,
    key: String,
    number: Option<u32>,
    done: bool,
}

impl Timer<'_> {
    fn poll(
        &mut self,
        until: impl FnOnce(Timestamp) -> Timestamp,
        context: &mut Context<'_>,
    ) -> Poll<()> {
        let polled = self.execution.poll_timer(&self.key, &mut self.number, until, context);
        self.done = polled.is_ready();
        polled
    }
}

impl Drop for Timer<'_> {
    fn drop(&mut self) {
        if !self.done {
            self.execution.drop_timer(&self.key, self.number);
        }
    }
}

fn too_late(what: String) -> FlowError {
    FlowError::new(format!("a flow cannot {what}: it would wake up after the year 9999"))
}

const DAY: u64 = 24 * 60 * 60;

/// About 7,900 years, until the year 9999.
const LONGEST_SLEEP: Duration = Duration::from_secs(7_900 * 365 * DAY);
