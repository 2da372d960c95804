//! One session in memory: its flow, and what it takes to run it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use mcp_flow_session::event::{Fault, FaultName};
use mcp_flow_session::{Owner, Session, SessionId};
use serde_json::Value;
use tokio::sync::Notify;

use crate::definition::{Definition, FlowFuture};
use crate::error::EngineError;
use crate::flow::{Flow, FlowError, Reason};
use crate::shared::Shared;
use crate::view::View;

/// One session in memory.
///
/// Whoever holds `turn` may change it; everything that reads, decides and appends happens under
/// it. The flow is polled under it too, always with the same waker, so it does not matter who
/// polls: whenever the flow can go on, `signal` says so.
pub(crate) struct Slot {
    pub(crate) id: SessionId,
    pub(crate) owner: Owner,
    pub(crate) shared: Arc<Shared>,
    pub(crate) turn: Arc<tokio::sync::Mutex<()>>,
    pub(crate) signal: Arc<Signal>,
    /// Whether a task waits for the signal. Changed under `turn`.
    pub(crate) driven: AtomicBool,
    /// The store knows better. Changed under `turn`; who finds it set reads the session again.
    pub(crate) dead: AtomicBool,
    /// A turn has begun and is not over. Changed under `turn`.
    pub(crate) unsettled: AtomicBool,
    /// Whether an answer was taken since it came into memory. Changed under `turn`.
    pub(crate) answered: AtomicBool,
    /// When it was last used, for lingering, in milliseconds since the engine started.
    pub(crate) used: AtomicU64,
    pub(crate) definition: Option<Arc<Definition>>,
    future: Mutex<Option<FlowFuture>>,
    waker: Waker,
}

/// Says that a flow can go on.
#[derive(Default)]
pub(crate) struct Signal {
    notify: Notify,
    /// Whether it was said since the flow was last polled.
    said: AtomicBool,
}

impl Signal {
    pub(crate) fn say(&self) {
        self.said.store(true, Ordering::Release);
        self.notify.notify_one();
    }

    pub(crate) async fn heard(&self) {
        self.notify.notified().await;
    }
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.say();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.say();
    }
}

impl Slot {
    pub(crate) fn new(shared: Shared, definition: Option<Arc<Definition>>) -> Self {
        let signal = Arc::<Signal>::default();
        let owner = shared.lock().session.started.owner.clone();
        Self {
            id: shared.id,
            owner,
            shared: Arc::new(shared),
            turn: Arc::default(),
            waker: Waker::from(Arc::clone(&signal)),
            signal,
            driven: AtomicBool::new(false),
            dead: AtomicBool::new(false),
            unsettled: AtomicBool::new(false),
            answered: AtomicBool::new(false),
            used: AtomicU64::new(0),
            definition,
            future: Mutex::new(None),
        }
    }

    /// Makes the flow ready to run, from the top, unless it is already.
    pub(crate) fn prepare(&self) -> Result<(), EngineError> {
        let mut future = self.future.lock().unwrap_or_else(PoisonError::into_inner);
        if future.is_some() || self.is_over() {
            return Ok(());
        }
        let Some(definition) = &self.definition else {
            return Err(EngineError::UnknownFlow(self.flow_name()));
        };
        let params = self.shared.lock().session.started.params.clone();
        let flow = Flow::new(Arc::clone(&self.shared));
        let made = catch_unwind(AssertUnwindSafe(|| definition.run(flow, &params)));
        match made {
            Ok(Ok(made)) => *future = Some(made),
            Ok(Err(bad)) => {
                return Err(EngineError::InvalidParams {
                    key: bad.key,
                    violation: mcp_flow_session::Violation::new(bad.reason),
                });
            }
            Err(_) => self.shared.fail(panicked(&self.flow_name())),
        }
        Ok(())
    }

    /// Lets the flow run as far as it goes without waiting.
    pub(crate) fn poll(&self) {
        let mut future = self.future.lock().unwrap_or_else(PoisonError::into_inner);
        // One part of a flow may let another go on; a flow that never rests gets a break.
        for _ in 0..MOST_ROUNDS {
            let Some(running) = future.as_mut().filter(|_| !self.is_over()) else { break };
            self.signal.said.store(false, Ordering::Release);
            let mut context = Context::from_waker(&self.waker);
            match catch_unwind(AssertUnwindSafe(|| running.as_mut().poll(&mut context))) {
                Ok(Poll::Pending) if self.signal.said.load(Ordering::Acquire) => {}
                Ok(Poll::Pending) => {
                    self.shared.settle();
                    break;
                }
                Ok(Poll::Ready(result)) => self.conclude(result),
                Err(_) => self.shared.fail(panicked(&self.flow_name())),
            }
        }
        if self.is_over() {
            drop_quietly(future.take());
        }
    }

    fn conclude(&self, result: Result<Value, FlowError>) {
        match result {
            Ok(data) => self.shared.finish(true, data, None),
            Err(FlowError(Reason::Declined(summary))) => {
                self.shared.finish(false, Value::Null, Some(summary));
            }
            Err(FlowError(Reason::Failed(message))) => {
                self.shared.fail(Fault::new(FaultName::Failed, message));
            }
            Err(FlowError(Reason::Fault(fault))) => self.shared.fail(*fault),
        }
        // A flow that gives up its open question by ending leaves a session that is not over.
        if !self.is_over() {
            let message = "the flow ended while its question was open";
            self.shared.fail(Fault::new(FaultName::Failed, message));
        }
    }

    pub(crate) fn session(&self) -> Session {
        self.shared.lock().session.clone()
    }

    pub(crate) fn view(&self) -> View {
        let inner = self.shared.lock();
        View::of(self.id, &inner.session, inner.progress.as_ref())
    }

    pub(crate) fn is_over(&self) -> bool {
        self.shared.lock().session.ended.is_some()
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Acquire)
    }

    pub(crate) fn is_driven(&self) -> bool {
        self.driven.load(Ordering::Acquire)
    }

    fn flow_name(&self) -> String {
        self.shared.lock().session.started.flow.clone()
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let future = self.future.get_mut().unwrap_or_else(PoisonError::into_inner);
        drop_quietly(future.take());
    }
}

/// What a flow leaves behind may panic too, and must not take anyone with it.
fn drop_quietly(future: Option<FlowFuture>) {
    let _ = catch_unwind(AssertUnwindSafe(|| drop(future)));
}

fn panicked(flow: &str) -> Fault {
    tracing::error!(flow, "a flow panicked");
    Fault::new(FaultName::Panicked, format!("the flow `{flow}` panicked"))
}

const MOST_ROUNDS: usize = 32;
