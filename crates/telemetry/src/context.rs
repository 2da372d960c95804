//! The trace context of the code that runs now.

use std::cell::RefCell;
use std::future::poll_fn;
use std::marker::PhantomData;
use std::pin::pin;
use std::sync::Arc;

use mcp_flow_proto::model::{TraceContext, TraceParent};

use crate::{identifier, sink};

/// Returns the context of the code that runs now, for requests to others.
pub fn current() -> Option<Arc<TraceContext>> {
    CURRENT.with_borrow(Clone::clone)
}

/// Makes a context current on this thread until the guard is dropped. Without one, nothing changes.
pub fn enter(context: Option<Arc<TraceContext>>) -> Entered {
    let previous =
        context.map(|context| CURRENT.with_borrow_mut(|current| current.replace(context)));
    Entered { previous, _not_send: PhantomData }
}

/// Guard of the current context: restores the previous one when dropped.
#[must_use = "the context is current until this is dropped"]
#[derive(Debug)]
pub struct Entered {
    previous: Option<Option<Arc<TraceContext>>>,
    /// The context belongs to the thread that entered it.
    _not_send: PhantomData<*const ()>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        if let Some(previous) = self.previous.take() {
            CURRENT.with_borrow_mut(|current| *current = previous);
        }
    }
}

/// Runs a future with a context, whichever thread polls it.
pub async fn scope<F: Future>(context: Option<Arc<TraceContext>>, future: F) -> F::Output {
    let mut future = pin!(future);
    match context {
        None => future.await,
        Some(context) => {
            poll_fn(|task| {
                let _entered = enter(Some(context.clone()));
                future.as_mut().poll(task)
            })
            .await
        }
    }
}

/// Prepares a future for another task: it runs with the context that is current now.
pub fn inherit<F: Future>(future: F) -> impl Future<Output = F::Output> {
    scope(current(), future)
}

/// Returns the context of a call that was received with another: the same trace, and a span of its
/// own. Without telemetry it is the one that was received.
pub fn begin_call(received: Option<&TraceContext>) -> Option<Arc<TraceContext>> {
    let Some(sink) = sink::installed() else { return received.cloned().map(Arc::new) };
    let parent = received.and_then(|received| received.parent);
    let trace = parent.map_or_else(identifier::trace_id, |parent| parent.trace_id());
    let is_sampled = sink.samples(parent.as_ref(), trace);
    Some(Arc::new(TraceContext {
        parent: TraceParent::new(trace, identifier::span_id(), is_sampled),
        state: received.and_then(|received| received.state.clone()),
        baggage: received.and_then(|received| received.baggage.clone()),
    }))
}

thread_local! {
    static CURRENT: RefCell<Option<Arc<TraceContext>>> = const { RefCell::new(None) };
}

#[cfg(test)]
mod tests {
    use std::future::ready;
    use std::sync::Arc;
    use std::task::{Context, Poll, Waker};

    use mcp_flow_proto::model::TraceContext;

    use super::{begin_call, current, enter, inherit, scope};

    fn context(baggage: &str) -> Option<Arc<TraceContext>> {
        Some(Arc::new(TraceContext { baggage: Some(baggage.into()), ..TraceContext::default() }))
    }

    fn run<F: Future>(future: F) -> F::Output {
        match std::pin::pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(output) => output,
            Poll::Pending => panic!("it does not wait"),
        }
    }

    #[test]
    fn contexts_nest_and_end_with_their_guards() {
        let outer = enter(context("a=1"));
        {
            let _inner = enter(context("b=2"));
            assert_eq!(current(), context("b=2"));
            let _unchanged = enter(None);
            assert_eq!(current(), context("b=2"));
        }
        assert_eq!(current(), context("a=1"));
        drop(outer);
        assert_eq!(current(), None);
    }

    #[test]
    fn a_task_keeps_the_context_it_was_started_with() {
        let started = {
            let _entered = enter(context("a=1"));
            inherit(async { current() })
        };
        assert_eq!(current(), None);
        assert_eq!(run(started), context("a=1"));
        assert_eq!(run(scope(context("b=2"), async { current() })), context("b=2"));
        run(scope(None, ready(())));
        assert_eq!(current(), None);
    }

    #[test]
    fn a_received_context_is_passed_on_without_telemetry() {
        let received = context("a=1");
        assert_eq!(begin_call(received.as_deref()), received);
        assert_eq!(begin_call(None), None);
    }
}
