//! One session in memory: the future of its flow, and the lock for its turns.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use mcp_flow_session::event::{FaultName, FlowFault};
use mcp_flow_session::{Owner, Session, SessionId, State};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Notify;

use crate::definition::{Definition, FlowFuture};
use crate::error::EngineError;
use crate::execution::Execution;
use crate::flow::{Flow, FlowError, Reason, compensate};
use crate::view::View;

/// One session in memory.
///
/// Only the holder of `turn` changes it: reading, deciding, polling the flow and appending all
/// happen under that lock. The flow is always polled with the same waker, so any holder of the turn
/// can poll it: `signal` fires whenever the flow can make progress.
pub(crate) struct Slot {
    pub(crate) id: SessionId,
    pub(crate) owner: Owner,
    pub(crate) execution: Arc<Execution>,
    pub(crate) turn: Arc<tokio::sync::Mutex<()>>,
    pub(crate) signal: Arc<Signal>,
    /// Set while a task drives the flow. Changed under `turn`.
    pub(crate) driven: AtomicBool,
    /// Set when the store may have newer events: the session has to be loaded again. Changed under
    /// `turn`.
    pub(crate) stale: AtomicBool,
    /// Set while a turn has begun and is not committed. Changed under `turn`.
    pub(crate) uncommitted: AtomicBool,
    /// Set once an answer was accepted since the session was loaded. Changed under `turn`.
    pub(crate) answered: AtomicBool,
    /// Time of last use, in milliseconds since the engine was created.
    pub(crate) last_used: AtomicU64,
    pub(crate) definition: Option<Arc<Definition>>,
    future: Mutex<Option<FlowFuture>>,
    waker: Waker,
}

/// Wakes the task that drives a flow.
#[derive(Default)]
pub(crate) struct Signal {
    notify: Notify,
    /// Set when the flow was woken since it was last polled.
    woken: AtomicBool,
}

impl Signal {
    pub(crate) fn fire(&self) {
        self.woken.store(true, Ordering::Release);
        self.notify.notify_one();
    }

    pub(crate) async fn fired(&self) {
        self.notify.notified().await;
    }
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.fire();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.fire();
    }
}

impl Slot {
    pub(crate) fn new(execution: Execution, definition: Option<Arc<Definition>>) -> Self {
        let signal = Arc::<Signal>::default();
        let owner = execution.lock().session.started.owner.clone();
        Self {
            id: execution.id,
            owner,
            execution: Arc::new(execution),
            turn: Arc::default(),
            waker: Waker::from(Arc::clone(&signal)),
            signal,
            driven: AtomicBool::new(false),
            stale: AtomicBool::new(false),
            uncommitted: AtomicBool::new(false),
            answered: AtomicBool::new(false),
            last_used: AtomicU64::new(0),
            definition,
            future: Mutex::new(None),
        }
    }

    /// Creates the future of the flow, unless there is one or the session has ended. It replays the
    /// journal when it is polled. Returns whether it was created.
    pub(crate) fn prepare(&self) -> Result<bool, EngineError> {
        let mut future = self.future.lock();
        if future.is_some() || self.has_ended() {
            return Ok(false);
        }
        let Some(definition) = &self.definition else {
            return Err(EngineError::UnknownFlow(self.flow_name()));
        };
        let params = self.execution.lock().session.started.params.clone();
        let flow = Flow::new(Arc::clone(&self.execution));
        let created = catch_unwind(AssertUnwindSafe(|| definition.run(flow, &params)));
        match created {
            Ok(Ok(created)) => *future = Some(created),
            Ok(Err(bad)) => {
                return Err(EngineError::InvalidParams {
                    key: bad.key,
                    violation: mcp_flow_session::InvalidAnswer::new(bad.reason),
                });
            }
            Err(_) => self.execution.fail(panicked(&self.flow_name())),
        }
        Ok(true)
    }

    /// Polls the flow until it waits, ends or panics.
    pub(crate) fn poll(&self) {
        let mut future = self.future.lock();
        // Branches of a flow may wake each other; one that never stops waking itself gets a break.
        let mut polls = 0;
        while polls < POLL_LIMIT {
            let is_live = !self.has_ended() && self.execution.divergence().is_none();
            if is_live && self.execution.is_at_closing() {
                self.begin_closing(&mut future);
            }
            let Some(running) = future.as_mut().filter(|_| is_live) else { break };
            self.signal.woken.store(false, Ordering::Release);
            let mut context = Context::from_waker(&self.waker);
            self.execution.set_polled(true);
            let polled = catch_unwind(AssertUnwindSafe(|| running.as_mut().poll(&mut context)));
            self.execution.set_polled(false);
            // A journal ends; a flow may wake itself for ever.
            polls += usize::from(!self.execution.take_replayed());
            match polled {
                // The session ends, whatever else the flow did.
                _ if self.execution.is_at_closing() => {}
                Ok(Poll::Pending) if self.signal.woken.load(Ordering::Acquire) => {}
                Ok(Poll::Pending) => {
                    if !self.execution.check_waiting() && !self.begin_closing(&mut future) {
                        break;
                    }
                }
                Ok(Poll::Ready(result)) => self.conclude(result),
                Err(_) if !self.execution.may_end() => {}
                Err(_) => self.execution.fail(panicked(&self.flow_name())),
            }
        }
        if self.has_ended() {
            drop_flow(future.take());
        }
    }

    /// Replaces the flow by its compensations, if it can go no further than to where its session
    /// begins to close. Returns whether it did.
    fn begin_closing(&self, future: &mut Option<FlowFuture>) -> bool {
        if future.is_none() {
            return false;
        }
        let Some(compensations) = self.execution.begin_closing() else { return false };
        drop_flow(future.take());
        let flow = Flow::new(Arc::clone(&self.execution));
        *future = Some(compensate(flow, compensations));
        true
    }

    fn conclude(&self, result: Result<Value, FlowError>) {
        if !self.execution.may_end() || self.execution.close() {
            return;
        }
        match result {
            Ok(data) => self.execution.finish(true, data, None),
            Err(FlowError(Reason::Declined(summary))) => {
                self.execution.finish(false, Value::Null, Some(summary));
            }
            Err(FlowError(Reason::Failed { message, causes })) => {
                let fault = FlowFault::new(FaultName::Failed, message);
                self.execution.fail(FlowFault { causes, ..fault });
            }
            Err(FlowError(Reason::Fault(fault))) => self.execution.fail(*fault),
        }
        // A flow can drop its open question and return, which does not end the session.
        if !self.has_ended() {
            let message = "the flow ended while its question was open";
            self.execution.fail(FlowFault::new(FaultName::Failed, message));
        }
    }

    pub(crate) fn session(&self) -> Session {
        self.execution.lock().session.clone()
    }

    pub(crate) fn view(&self) -> View {
        let state = self.execution.lock();
        let mut view = View::of(self.id, &state.session, state.progress.as_ref());
        drop(state);
        // A step may be running beside the timers.
        view.asleep &= !self.execution.is_working();
        view
    }

    pub(crate) fn session_state(&self) -> State {
        self.execution.lock().session.state
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.execution.lock().session.ended.is_some()
    }

    pub(crate) fn is_stale(&self) -> bool {
        self.stale.load(Ordering::Acquire)
    }

    pub(crate) fn is_driven(&self) -> bool {
        self.driven.load(Ordering::Acquire)
    }

    fn flow_name(&self) -> String {
        self.execution.lock().session.started.flow.clone()
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        drop_flow(self.future.get_mut().take());
    }
}

/// Drops the future of a flow. Destructors of a flow may panic; the caller must not.
fn drop_flow(future: Option<FlowFuture>) {
    let _ = catch_unwind(AssertUnwindSafe(|| drop(future)));
}

fn panicked(flow: &str) -> FlowFault {
    tracing::error!(flow, "a flow panicked");
    FlowFault::new(FaultName::Panicked, format!("the flow `{flow}` panicked"))
}

/// Polls in a row at most, other than those of a replay.
const POLL_LIMIT: usize = 32;
