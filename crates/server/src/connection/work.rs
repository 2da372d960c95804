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
use super::calls::{Running, Ticket};
use crate::context::Context;
use crate::handler::{Outcome, Reply};

impl Shared {
    /// Runs a call that has its place, to its end or until it has to wait.
    pub(super) fn run(self: &Arc<Self>, context: &Context, call: impl FnOnce(&Context) -> Reply) {
        self.take_place();
        let outcome = match guard(|| call(context)) {
            Ok(Reply::Ready(outcome)) => outcome,
            Ok(Reply::Later(mut future)) => match guard(|| poll_once(future.as_mut())) {
                Ok(Poll::Ready(outcome)) => outcome,
                Ok(Poll::Pending) => return self.spawn(context.clone(), Work::Future(future)),
                Err(error) => Err(error),
            },
            Ok(Reply::Blocking(work)) => {
                return self.spawn(context.clone(), Work::Blocking(work));
            }
            Err(error) => Err(error),
        };
        context.finish(&outcome);
        // The driver is running this very call, so nobody has to be woken for the free place.
        self.running.fetch_sub(1, Ordering::AcqRel);
    }

    /// Lets a call go on as a task that its connection can stop.
    fn spawn(self: &Arc<Self>, context: Context, work: Work) {
        let place = Place(self.clone());
        let limit = self.server.limits().call_time;
        self.state().calls.run(context.id().clone(), |ticket| {
            let answer = Answer {
                shared: self.clone(),
                context: context.clone(),
                ticket,
                outcome: Err(RpcError::internal()),
            };
            let stop = context.clone();
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
            Running { context, abort: task.abort_handle() }
        });
    }

    pub(crate) fn take_place(&self) {
        self.running.fetch_add(1, Ordering::AcqRel);
    }

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
    /// Does it, turning a panic into an error. The place is free when the work is really over,
    /// which for a blocking function may be long after its call was cancelled.
    async fn finish(self, context: Context, place: Place) -> Outcome {
        match self {
            Self::Future(future) => {
                let outcome = AssertUnwindSafe(future).catch_unwind().await;
                drop(place);
                outcome.unwrap_or_else(|_| Err(RpcError::internal()))
            }
            Self::Blocking(work) => {
                let done = tokio::task::spawn_blocking(move || {
                    let _place = place;
                    if context.is_cancelled() { Err(RpcError::internal()) } else { work() }
                });
                done.await.unwrap_or_else(|_| Err(RpcError::internal()))
            }
        }
    }
}

/// A running call's place among those that may run at once.
struct Place(Arc<Shared>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.free_place();
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
        self.context.finish(&self.outcome);
        drop(state);
        self.shared.wake.notify_one();
    }
}

/// Runs code of a tool's author; a panic in it ends this call and nothing else.
fn guard<T>(call: impl FnOnce() -> T) -> Result<T, RpcError> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|_| RpcError::internal())
}

fn poll_once(future: Pin<&mut (dyn Future<Output = Outcome> + Send)>) -> Poll<Outcome> {
    future.poll(&mut std::task::Context::from_waker(Waker::noop()))
}
