//! Runs a call's handler: on the spot if it can, as a task if it must wait.
//!
//! A panic in a handler ends its call and nothing else.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Poll, Waker};

use futures_util::FutureExt;
use mcp_flow_proto::RpcError;
use mcp_flow_proto::error::CALL_TIMED_OUT;
use mcp_flow_proto::model::TraceContext;
use mcp_flow_proto::text::prefix_bytes;
use mcp_flow_telemetry::{Span, SpanKind, enter, scope};

use super::call::Call;
use super::calls::Ticket;
use super::permit::Permit;
use super::subscriptions;
use crate::context::Context;
use crate::handler::{Outcome, Reply};

/// Runs a call to its end, or until it has to wait.
pub(super) fn run(call: Arc<Call>, method: &str, handler: impl FnOnce(&Context) -> Reply) {
    let permit = Permit::acquire(&call);
    let mut span = HandlerSpan::start(&call, method);
    let entered = enter(span.within.clone());
    let context = Context::new(call);
    let outcome = match catch(|| handler(&context)) {
        Ok(Reply::Ready(outcome)) => outcome,
        Ok(Reply::Later(mut future)) => match catch(|| poll_once(future.as_mut())) {
            Ok(Poll::Ready(outcome)) => outcome,
            Ok(Poll::Pending) => return spawn(context, permit, span, Work::Future(future)),
            Err(Panicked) => context.panicked(),
        },
        Ok(Reply::Listen(filter)) => {
            permit.release_quietly();
            return subscriptions::listen(context.call(), filter);
        }
        Ok(Reply::Blocking(work)) => return spawn(context, permit, span, Work::Blocking(work)),
        Err(Panicked) => context.panicked(),
    };
    span.end(&outcome);
    drop(entered);
    context.call().complete(&outcome);
    // The driver runs this very call, so it need not be woken for the permit.
    permit.release_quietly();
}

/// Continues a call as a task that its connection can stop.
fn spawn(context: Context, mut permit: Permit, mut span: HandlerSpan, work: Work) {
    permit.count_bytes();
    let call = context.call().clone();
    let limit = call.connection.limits.call_time;
    let ticket = call.connection.state().calls.run(call.clone());
    let outcome = Err(RpcError::internal());
    let reply = ReplyOnDrop { call: call.clone(), ticket, outcome };
    // Not under the lock: a runtime that is shutting down drops the task on the spot, and dropping
    // it completes the call.
    let task = call.connection.tasks.spawn(async move {
        let within = span.within.clone();
        let work = scope(within.clone(), work.finish(context, permit, within));
        match tokio::time::timeout(limit, work).await {
            Ok(outcome) => {
                span.end(&outcome);
                reply.send(outcome);
            }
            Err(_) => {
                reply.call.cancel();
                let limit = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
                reply.send(Err(RpcError::new(CALL_TIMED_OUT).with("limitMs", limit)));
            }
        }
    });
    call.connection.state().calls.set_task(&call.id, ticket, task.abort_handle());
}

/// The remaining work of a call that becomes a task.
enum Work {
    Future(Pin<Box<dyn Future<Output = Outcome> + Send>>),
    Blocking(Box<dyn FnOnce() -> Outcome + Send>),
}

impl Work {
    /// Completes the work; a panic becomes an outcome. The permit is released when the work is
    /// really over.
    async fn finish(
        self,
        context: Context,
        permit: Permit,
        within: Option<Arc<TraceContext>>,
    ) -> Outcome {
        match self {
            Self::Future(future) => {
                let outcome = AssertUnwindSafe(future).catch_unwind().await;
                drop(permit);
                outcome.unwrap_or_else(|_| context.panicked())
            }
            Self::Blocking(work) => {
                let call = context.call().clone();
                let done = tokio::task::spawn_blocking(move || {
                    let _permit = permit;
                    let _entered = enter(within);
                    if call.is_cancelled() { Err(RpcError::internal()) } else { work() }
                });
                done.await.unwrap_or_else(|_| context.panicked())
            }
        }
    }
}

/// The span of a handler: the time it works, without decoding, queues and writing.
struct HandlerSpan {
    span: Span,
    /// Context in which the handler runs: that of its span or, if there is none, of its call.
    within: Option<Arc<TraceContext>>,
}

impl HandlerSpan {
    fn start(call: &Call, method: &str) -> Self {
        let trace = call.handler.trace();
        let name = || format!("handler {}", prefix_bytes(method, MAX_NAME_LENGTH)).into();
        let span = Span::child_of(trace, SpanKind::Internal, name);
        let within = span.context().or_else(|| trace.cloned());
        Self { span, within }
    }

    /// Ends the span with the outcome of the handler. Dropped before that, it was cancelled.
    fn end(&mut self, outcome: &Outcome) {
        if let Err(error) = outcome {
            self.span.fail(error.name(), || error.text().to_owned());
        }
    }
}

/// Longest method in the name of a span, in bytes.
const MAX_NAME_LENGTH: usize = 64;

/// Sends a task's outcome when the task ends, however it ends.
struct ReplyOnDrop {
    call: Arc<Call>,
    ticket: Ticket,
    outcome: Outcome,
}

impl ReplyOnDrop {
    fn send(mut self, outcome: Outcome) {
        self.outcome = outcome;
    }
}

impl Drop for ReplyOnDrop {
    fn drop(&mut self) {
        let connection = &self.call.connection;
        // Under one lock, so that the id is free for reuse exactly when its reply is queued, and
        // a connection that drains cannot close between the two.
        let mut state = connection.state();
        state.calls.close(&self.call.id, self.ticket);
        let is_first = self.call.send_reply(&self.outcome);
        drop(state);
        if is_first {
            self.call.report(&self.outcome);
        }
        connection.output.wake();
    }
}

fn catch<T>(run: impl FnOnce() -> T) -> Result<T, Panicked> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|_| Panicked)
}

/// A panic, whose details go to the log only.
struct Panicked;

fn poll_once(future: Pin<&mut (dyn Future<Output = Outcome> + Send)>) -> Poll<Outcome> {
    future.poll(&mut std::task::Context::from_waker(Waker::noop()))
}
