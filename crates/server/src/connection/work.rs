//! Runs one call: on the spot if it can, as a task if it must wait, and never silently.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Poll, Waker};

use futures_util::FutureExt;
use mcp_flow_proto::RpcError;
use mcp_flow_proto::error::CALL_TIMED_OUT;

use super::Shared;
use super::calls::Ticket;
use crate::context::Context;
use crate::handler::{Outcome, Reply};

impl Shared {
    /// Runs a call that has its place, to its end or until it has to wait.
    pub(super) fn run(self: &Arc<Self>, context: &Context, call: impl FnOnce(&Context) -> Reply) {
        let place = Place::take(context);
        let outcome = match guard(|| call(context)) {
            Ok(Reply::Ready(outcome)) => outcome,
            Ok(Reply::Later(mut future)) => match guard(|| poll_once(future.as_mut())) {
                Ok(Poll::Ready(outcome)) => outcome,
                Ok(Poll::Pending) => {
                    return self.spawn(context.clone(), place, Work::Future(future));
                }
                Err(Panicked) => context.panicked(),
            },
            Ok(Reply::Listen(filter)) => {
                place.leave_quietly();
                return self.listen(context, filter);
            }
            Ok(Reply::Blocking(work)) => {
                return self.spawn(context.clone(), place, Work::Blocking(work));
            }
            Err(Panicked) => context.panicked(),
        };
        context.finish(&outcome);
        // The driver is running this very call, so nobody has to be woken for the free place.
        place.leave_quietly();
    }

    /// Lets a call go on as a task that its connection can stop.
    fn spawn(self: &Arc<Self>, context: Context, mut place: Place, work: Work) {
        place.count_bytes();
        let limit = self.limits.call_time;
        let ticket = self.state().calls.run(context.clone());
        let outcome = Err(RpcError::internal());
        let answer = Answer { shared: self.clone(), context: context.clone(), ticket, outcome };
        let stop = context.clone();
        // Not under the lock: a runtime that is shutting down drops the task on the spot, and
        // dropping it answers the call.
        let task = self.tasks.spawn(async move {
            match tokio::time::timeout(limit, work.finish(stop, place)).await {
                Ok(outcome) => answer.send(outcome),
                Err(_) => {
                    answer.context.cancel();
                    let limit = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
                    answer.send(Err(RpcError::new(CALL_TIMED_OUT).with("limitMs", limit)));
                }
            }
        });
        self.state().calls.set_task(context.id(), ticket, task.abort_handle());
    }

    /// Takes a place among the calls that may run at once.
    pub(crate) fn take_place(&self) {
        self.running.fetch_add(1, Ordering::AcqRel);
    }

    /// Frees a place, and tells the driver so.
    pub(crate) fn free_place(&self) {
        self.running.fetch_sub(1, Ordering::AcqRel);
        self.wake.notify_one();
    }
}

/// What a call still has to do when it becomes a task.
enum Work {
    Future(Pin<Box<dyn Future<Output = Outcome> + Send>>),
    Blocking(Box<dyn FnOnce() -> Outcome + Send>),
}

impl Work {
    /// Does it; a panic has an outcome too. The place is free when the work is really over,
    /// which for a blocking function may be long after its call was cancelled.
    async fn finish(self, context: Context, place: Place) -> Outcome {
        match self {
            Self::Future(future) => {
                let outcome = AssertUnwindSafe(future).catch_unwind().await;
                drop(place);
                outcome.unwrap_or_else(|_| context.panicked())
            }
            Self::Blocking(work) => {
                let call = context.clone();
                let done = tokio::task::spawn_blocking(move || {
                    let _place = place;
                    if call.is_cancelled() { Err(RpcError::internal()) } else { work() }
                });
                done.await.unwrap_or_else(|_| context.panicked())
            }
        }
    }
}

/// A running call's place among those that may run at once, from its start to its real end.
struct Place {
    context: Context,
    bytes: usize,
    /// Whether the driver has to be told that the place is free.
    quietly: bool,
}

impl Place {
    fn take(context: &Context) -> Self {
        context.take_place();
        Self { context: context.clone(), bytes: 0, quietly: false }
    }

    /// Counts the request's bytes for as long as the call runs as a task.
    fn count_bytes(&mut self) {
        self.bytes = self.context.size();
        self.context.shared().running_bytes.add(self.bytes);
    }

    fn leave_quietly(mut self) {
        self.quietly = true;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let shared = self.context.shared();
        shared.running_bytes.remove(self.bytes);
        if self.context.leave_place() {
            shared.running.fetch_sub(1, Ordering::AcqRel);
        }
        if !self.quietly {
            shared.wake.notify_one();
        }
    }
}

/// Sends a task's outcome when the task ends, however it ends.
struct Answer {
    shared: Arc<Shared>,
    context: Context,
    ticket: Ticket,
    outcome: Outcome,
}

impl Answer {
    fn send(mut self, outcome: Outcome) {
        self.outcome = outcome;
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        // Under one lock, so that the id is free for reuse exactly when its reply is queued, and
        // a connection that drains cannot end between the two.
        let mut state = self.shared.state();
        state.calls.close(self.context.id(), self.ticket);
        let is_first = self.context.send(&self.outcome);
        drop(state);
        if is_first {
            self.context.tell(&self.outcome);
        }
        self.shared.wake.notify_one();
    }
}

/// Runs code of a tool's author; a panic in it ends this call and nothing else.
fn guard<T>(call: impl FnOnce() -> T) -> Result<T, Panicked> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|_| Panicked)
}

/// A panic, of which nobody but the log learns more.
struct Panicked;

fn poll_once(future: Pin<&mut (dyn Future<Output = Outcome> + Send)>) -> Poll<Outcome> {
    future.poll(&mut std::task::Context::from_waker(Waker::noop()))
}
