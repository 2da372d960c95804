//! State that the engine shares with a running flow: the session, the journal being replayed, and
//! the events that are not durable yet.

mod closing;
mod link;
mod question;
mod signal;
mod state;
pub(crate) mod step;
mod timer;
mod version;

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use hashbrown::HashMap;
use mcp_flow_session::event::{Ending, FlowFault, JournalEvent};
use mcp_flow_session::prompt::FlowProgress;
use mcp_flow_session::{
    Command, CommandError, Divergence, Epoch, InvalidAnswer, Replay, Session, SessionId, Timestamp,
};
use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::builder::StepHook;
use crate::clock::Clock;
use crate::definition::Definition;
use crate::flow::StepCompensation;
use crate::limits::SessionLimits;
use crate::links::LinkBase;
use crate::membership::HeldLease;
use crate::notice::Hub;
use signal::Fits;

/// Execution of a session's flow in memory. The slot and the [`Flow`](crate::Flow) handle own it
/// together, so that the handle does not keep the slot alive.
pub(crate) struct Execution {
    pub(crate) id: SessionId,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) limits: Arc<SessionLimits>,
    pub(crate) hub: Arc<Hub>,
    /// Lease under which the session was loaded, if several nodes share the store.
    pub(crate) lease: Option<HeldLease>,
    /// Cancelled when no more steps may begin.
    draining: CancellationToken,
    step_hook: Option<StepHook>,
    link_base: Arc<LinkBase>,
    /// Set if the replay is only checked: steps without a recorded outcome do not begin.
    is_check: bool,
    state: Mutex<ExecutionState>,
}

/// Parts of the engine that an execution uses.
pub(crate) struct ExecutionContext {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) limits: Arc<SessionLimits>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) definition: Option<Arc<Definition>>,
    pub(crate) lease: Option<HeldLease>,
    pub(crate) draining: CancellationToken,
    pub(crate) step_hook: Option<StepHook>,
    pub(crate) link_base: Arc<LinkBase>,
    pub(crate) is_check: bool,
}

pub(crate) struct ExecutionState {
    /// The session with everything in `pending` applied.
    pub(crate) session: Session,
    replay: Replay,
    /// Events that were decided and are not durable yet.
    pending: Vec<JournalEvent>,
    /// Number of events in the store.
    durable: usize,
    /// Set while a step waits for `pending` to be durable before it begins.
    flush: bool,
    /// Questions, timers, signals and steps that the flow asks for while the journal has something else next:
    /// a divergence, unless another branch of the flow replays that.
    out_of_turn: Vec<OutOfTurn>,
    /// Set when the flow has replayed an entry of the journal since it was last polled.
    replayed: bool,
    /// Number of times that the flow was polled.
    pass: u64,
    /// Set when the flow got an answer, a timer, a signal or the outcome of a step since it was polled.
    has_delivered: bool,
    /// Questions, timers and signals that the flow asked for since it was polled.
    asked_now: Vec<(Operation, u32)>,
    /// Set while the flow is polled. A question dropped then was dropped by the flow.
    polled: bool,
    /// Number of the open question that clients may have seen.
    shown: Option<u32>,
    /// Keys of the steps in progress, with the timeouts they set.
    running_steps: Vec<(String, Option<Duration>)>,
    /// Number of steps of each key in this run.
    occurrences: HashMap<String, u32>,
    /// Versions of changes in this run.
    versions: HashMap<String, u32>,
    /// Types of the signals that the flow waits for, by the number of the wait.
    awaited: HashMap<u32, Fits>,
    /// Compensations of the steps in this run.
    compensations: Vec<StepCompensation>,
    wakers: Vec<Waker>,
    /// Difference between the flow and its journal. Nothing that the flow did is recorded then.
    diverged: Option<Divergence>,
    pub(crate) progress: Option<FlowProgress>,
    summary: Option<String>,
    id: SessionId,
    /// Definition of the flow, if this program has it.
    definition: Option<Arc<Definition>>,
}

/// Something that the flow asks for out of turn.
struct OutOfTurn {
    kind: Operation,
    /// Key and description.
    wanted: (String, String),
}

/// Kind of something that a flow waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Question,
    Timer,
    Signal,
    Step,
}

/// Outcome of an answer.
pub(crate) enum AnswerOutcome {
    /// The flow goes on.
    Accepted,
    /// The flow gets it when the questions before it are answered.
    AcceptedAhead,
    Rejected(InvalidAnswer),
    /// It was the last attempt, or exceeded a bound: the session has ended.
    Ended,
}

/// Events to append.
pub(crate) struct Batch {
    pub(crate) events: Vec<JournalEvent>,
    pub(crate) length: usize,
    pub(crate) replace: bool,
}

impl Execution {
    pub(crate) fn new(
        id: SessionId,
        events: &[JournalEvent],
        session: Session,
        context: ExecutionContext,
    ) -> Self {
        let ExecutionContext {
            clock,
            limits,
            hub,
            definition,
            lease,
            draining,
            step_hook,
            link_base,
            is_check,
        } = context;
        let state = ExecutionState {
            replay: Replay::new(events),
            pending: Vec::new(),
            durable: events.len(),
            flush: false,
            out_of_turn: Vec::new(),
            replayed: false,
            pass: 0,
            has_delivered: false,
            asked_now: Vec::new(),
            polled: false,
            shown: session.open.as_ref().map(|_| session.number),
            running_steps: Vec::new(),
            occurrences: HashMap::new(),
            versions: HashMap::new(),
            awaited: HashMap::new(),
            compensations: Vec::new(),
            wakers: Vec::new(),
            diverged: None,
            progress: session.open.as_ref().and_then(|open| open.progress.clone()),
            summary: None,
            id,
            definition,
            session,
        };
        let state = Mutex::new(state);
        Self { id, clock, limits, hub, lease, draining, step_hook, link_base, is_check, state }
    }

    /// Creates the execution of a new session, whose start is not durable yet.
    pub(crate) fn create(id: SessionId, session: Session, context: ExecutionContext) -> Self {
        let started = JournalEvent::Started(session.started.clone());
        let execution = Self::new(id, &[], session, context);
        execution.lock().pending.push(started);
        execution
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, ExecutionState> {
        self.state.lock()
    }

    /// Decides a command and applies the event it causes.
    pub(crate) fn command(&self, command: Command) -> Result<(), CommandError> {
        let now = self.clock.now();
        let mut state = self.lock();
        let event = state.session.decide(command, now, &self.limits.bounds)?;
        state.push(event);
        Ok(())
    }

    /// Ends the session with a fault, unless it has ended.
    pub(crate) fn fail(&self, fault: FlowFault) {
        let _ = self.command(Command::End(Ending::Failed(fault)));
    }

    pub(crate) fn set_progress(&self, progress: FlowProgress) {
        let mut state = self.lock();
        let is_replaying = state.replay.is_behind();
        state.progress = Some(progress.clone());
        let owner = state.session.started.owner.clone();
        drop(state);
        // It was published when the flow ran for the first time.
        if !is_replaying {
            self.hub.publish_progress(self.id, &owner, &progress);
        }
    }

    pub(crate) fn set_summary(&self, summary: String) {
        self.lock().summary = Some(summary);
    }

    pub(crate) fn now(&self) -> Timestamp {
        let state = self.lock();
        self.clock.now().max(state.session.touched)
    }

    /// Marks the beginning or the end of a poll of the flow.
    pub(crate) fn set_polled(&self, polled: bool) {
        let mut state = self.lock();
        state.polled = polled;
        if polled {
            state.pass += 1;
            state.has_delivered = false;
            state.asked_now.clear();
        }
    }

    /// Returns whether the flow has replayed an entry of the journal since the last call.
    pub(crate) fn take_replayed(&self) -> bool {
        std::mem::take(&mut self.lock().replayed)
    }

    /// Checks a flow that waits against its journal. Returns whether to poll it again; ends the
    /// session if the flow cannot go on.
    pub(crate) fn check_waiting(&self) -> bool {
        let mut state = self.lock();
        if state.replay.skip_withdrawn() {
            state.replayed();
            return true;
        }
        // A question that was answered is not polled now: the flow waits for a step first.
        if state.has_out_of_turn(Operation::Step) && state.replay.pass_deliveries() {
            state.wake();
            return true;
        }
        if !state.running_steps.is_empty() || state.flush || state.replay.has_answer() {
            return false;
        }
        let timer = state.out_of_turn.iter().find(|waiting| waiting.kind == Operation::Timer);
        if let Some(key) = timer.map(|timer| timer.wanted.0.clone())
            && state.replay.rename_timer(&key)
        {
            state.replayed();
            return true;
        }
        let mut waiting = std::mem::take(&mut state.out_of_turn).into_iter();
        let Some(OutOfTurn { wanted, .. }) = waiting.next() else { return false };
        state.diverge(Some(&wanted));
        false
    }

    /// Returns whether the flow may end now: it has replayed all of its journal. If it has not, it
    /// diverges.
    pub(crate) fn may_end(&self) -> bool {
        let mut state = self.lock();
        while state.replay.skip_withdrawn() {}
        let is_over = state.replay.is_over();
        if !is_over {
            state.diverge(None);
        }
        is_over
    }

    /// Returns the difference between the flow and its journal, if there is one.
    pub(crate) fn divergence(&self) -> Option<Divergence> {
        self.lock().diverged.clone()
    }

    /// Returns whether the flow has replayed what was recorded before it was loaded.
    pub(crate) fn is_caught_up(&self) -> bool {
        !self.lock().replay.is_behind()
    }

    /// Returns the index of the next event to replay.
    pub(crate) fn next_index(&self) -> Option<usize> {
        self.lock().replay.next_index()
    }

    /// Goes on with a session that was set aside, since its flow has replayed the journal.
    pub(crate) fn unstick(&self) {
        if self.is_caught_up() {
            let _ = self.command(Command::Unstick);
        }
    }

    /// Completes the session with the result of the flow.
    pub(crate) fn finish(&self, success: bool, data: Value, summary: Option<String>) {
        let now = self.clock.now();
        let mut state = self.lock();
        let summary = summary.or_else(|| state.summary.take());
        let ending = Ending::Completed { success, data, summary };
        if let Ok(event) = state.session.decide(Command::End(ending), now, &self.limits.bounds) {
            state.push(event);
        }
    }

    /// Returns whether there are events that were not taken for an append yet.
    pub(crate) fn has_pending(&self) -> bool {
        !self.lock().pending.is_empty()
    }

    /// Takes the pending events for an append.
    pub(crate) fn take_batch(&self) -> Batch {
        let mut state = self.lock();
        let mut events = std::mem::take(&mut state.pending);
        let length = state.durable;
        // The end replaces everything before it, durable or not (C-11).
        let replace = matches!(events.last(), Some(JournalEvent::Ended(_)));
        if replace {
            events.drain(..events.len() - 1);
        }
        Batch { events, length, replace }
    }

    /// Marks a batch as durable. Returns whether a step was waiting for that.
    pub(crate) fn mark_committed(&self, count: usize, replace: bool) -> bool {
        let mut state = self.lock();
        state.durable = if replace { count } else { state.durable + count };
        state.shown = state.session.open.as_ref().map(|_| state.session.number);
        let flush = std::mem::take(&mut state.flush);
        if flush {
            state.wake();
        }
        flush
    }

    /// Returns whether the flow has work other than waiting for an answer.
    pub(crate) fn has_work(&self) -> bool {
        let state = self.lock();
        let session = &state.session;
        let is_waiting = session.open.is_some() || session.is_asleep();
        session.ended.is_none() && (!is_waiting || !state.running_steps.is_empty())
    }

    /// Returns whether the flow works on something, or is about to.
    pub(crate) fn is_working(&self) -> bool {
        self.has_work() || self.lock().flush
    }

    /// Returns the epoch of this node.
    pub(crate) fn epoch(&self) -> Epoch {
        self.lease.as_ref().map_or(Epoch::NONE, |lease| lease.epoch)
    }

    /// Returns the node that has to hold the session until the next append, if one has to.
    pub(crate) fn holder(&self) -> Option<Epoch> {
        let is_needed = self.is_working();
        self.lease.as_ref().filter(|_| is_needed).map(|lease| lease.epoch)
    }

    /// Returns the number of events in the store, and whether the last of them is the end.
    pub(crate) fn durable(&self) -> (usize, bool) {
        let state = self.lock();
        (state.durable, state.session.ended.is_some() && state.pending.is_empty())
    }

    /// Returns whether a step is in progress.
    pub(crate) fn is_in_step(&self) -> bool {
        !self.lock().running_steps.is_empty()
    }

    /// Returns the error with which a step has to fail in place of its work.
    pub(crate) fn injected_failure(&self, key: &str) -> Option<String> {
        self.step_hook.as_ref()?(key).err()
    }

    /// Returns the key of a step in progress.
    pub(crate) fn operation(&self) -> Option<String> {
        self.lock().running_steps.first().map(|(key, _)| key.clone())
    }

    /// Returns the longest timeout of a step in progress.
    pub(crate) fn longest_timeout(&self) -> Duration {
        let state = self.lock();
        state.running_steps.iter().filter_map(|(_, limit)| *limit).max().unwrap_or_default()
    }
}
