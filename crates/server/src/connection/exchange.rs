//! One frame and its replies, apart from the rest of the connection.
//!
//! On a pipe all messages leave through one queue. Over HTTP the replies to a POST belong into its
//! response, so each exchange has a reply queue of its own.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use mcp_flow_proto::RpcError;
use mcp_flow_proto::model::TraceContext;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::batch::BatchReply;
use super::codec::{self, DecodedFrame};
use super::outbound::{Hint, Outbound};
use super::{Connection, ConnectionInner, Segment, dispatch};
use crate::identity::Principal;

/// The replies to one frame, and the notifications sent before they are complete.
///
/// Dropping it discards untaken output, but stops no call.
#[derive(Debug)]
pub struct Exchange {
    connection: Arc<ConnectionInner>,
    queue: Arc<ReplyQueue>,
}

impl Connection {
    /// Dispatches a frame whose replies leave by the returned exchange instead of
    /// [`output`](Connection::output). Something else must keep driving the connection meanwhile.
    ///
    /// Its calls are made for this principal, whose credential may differ from the one the
    /// connection was opened with. Fails if the frame was signed for another connection. `arrival`
    /// is that of its first bytes.
    pub fn exchange(
        &self,
        frame: DecodedFrame<'_>,
        principal: &Principal,
        arrival: FrameArrival,
    ) -> Result<Exchange, RpcError> {
        codec::join(&self.inner, &frame)?;
        let queue = Arc::new(ReplyQueue::new(&self.inner.output.outbound));
        let received = Some(self.send_position().arrived_at(arrival));
        let principal = Some(principal.clone());
        let route = Route { queue: Some(queue.clone()), principal, received, ..Route::default() };
        dispatch::receive(&self.inner, frame, route);
        Ok(Exchange { connection: self.inner.clone(), queue })
    }
}

impl Exchange {
    /// Takes a segment that is ready to be sent, without waiting.
    pub fn take_output(&self) -> Option<Segment> {
        let segment = self.queue.outbound.take();
        if segment.is_some() {
            // A call may wait until less is unsent.
            self.connection.output.wake();
        }
        segment
    }

    /// Returns whether everything is answered; there may still be output to take.
    pub fn is_done(&self) -> bool {
        self.queue.done.load(Ordering::Acquire)
    }

    /// Returns whether everything is answered and taken.
    pub fn is_over(&self) -> bool {
        // In this order: what is sent before the end is in the queue by then.
        self.is_done() && self.queue.outbound.is_empty()
    }

    /// Waits for output; `None` once all is answered and taken. To be awaited by one task only.
    pub async fn output(&self) -> Option<Segment> {
        loop {
            // First: what is sent before the end is in the queue by then.
            let done = self.is_done();
            if let Some(segment) = self.take_output() {
                return Some(segment);
            }
            if done || self.connection.state().lifecycle.ended().is_some() {
                return None;
            }
            self.queue.wake.notified().await;
        }
    }

    /// Completes when a handler asks to close the stream of this exchange for now. To be awaited
    /// by one task only.
    pub async fn close_requested(&self) {
        self.queue.close_requested.notified().await;
    }

    /// Takes the guards of [`Context::hold_until_flushed`](crate::Context::hold_until_flushed). A
    /// transport that knows when the replies have been flushed drops them then; otherwise the
    /// exchange drops them with itself.
    pub fn take_flush_guards(&self) -> Vec<FlushGuard> {
        std::mem::take(&mut *self.queue.flush_guards.lock())
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.queue.abandoned.store(true, Ordering::Release);
        drop(self.take_flush_guards());
    }
}

/// A value that is dropped when a reply has been flushed.
pub type FlushGuard = Box<dyn Any + Send>;

/// The output queue of one exchange.
#[derive(Debug)]
pub(super) struct ReplyQueue {
    outbound: Outbound,
    wake: Notify,
    /// Fires when the stream should be closed; the client will reconnect for the rest.
    close_requested: Notify,
    done: AtomicBool,
    /// Set once nothing is taken any more.
    abandoned: AtomicBool,
    /// Dropped when everything has been flushed.
    flush_guards: Mutex<Vec<FlushGuard>>,
}

impl ReplyQueue {
    fn new(main: &Outbound) -> Self {
        Self {
            outbound: Outbound::sharing(main),
            wake: Notify::new(),
            close_requested: Notify::new(),
            done: AtomicBool::new(false),
            abandoned: AtomicBool::new(false),
            flush_guards: Mutex::default(),
        }
    }

    pub(super) fn push(
        &self,
        hint: impl Into<Hint>,
        allowed: impl FnOnce() -> bool,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        let wanted = || allowed() && !self.abandoned.load(Ordering::Acquire);
        self.outbound.push(hint, wanted, write);
        self.wake.notify_one();
    }

    /// The number of segments taken from this queue alone.
    pub(super) fn taken(&self) -> u64 {
        self.outbound.taken_here()
    }

    /// Records that nothing more is sent.
    pub(super) fn close(&self) {
        self.done.store(true, Ordering::Release);
        self.wake.notify_one();
    }
}

/// The way of a request's reply, and of the notifications sent while it runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Route {
    /// The reply queue of its exchange; `None` for the connection's own queue.
    pub(super) queue: Option<Arc<ReplyQueue>>,
    /// The batch its reply is part of.
    pub(super) batch: Option<Arc<BatchReply>>,
    /// The principal, if its transport authenticates every frame.
    principal: Option<Principal>,
    /// The send position when the frame was received, if it is not that of the present.
    received: Option<SendPosition>,
    /// The trace context that came beside the frame.
    trace: Option<Arc<TraceContext>>,
}

/// A position in the output of a connection: the number of segments its transport had taken to send.
///
/// A client can know of a message only if the transport took a segment after the message was
/// queued, and before the client's own message was received. On another connection, only if its own
/// message arrived after the other was queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendPosition {
    connection: u64,
    taken: u64,
    arrival: FrameArrival,
}

/// The time at which a frame began to arrive, in the order of all connections of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FrameArrival(u64);

/// Messages queued at a known position so far, by all connections of the process.
static QUEUED: AtomicU64 = AtomicU64::new(0);

impl FrameArrival {
    /// The arrival of a frame whose first bytes were just read.
    pub fn now() -> Self {
        Self(QUEUED.load(Ordering::SeqCst))
    }

    /// The last arrival before a message that is queued now.
    fn before_queueing() -> Self {
        Self(QUEUED.fetch_add(1, Ordering::SeqCst))
    }
}

impl SendPosition {
    /// The position of a frame that arrives now, with the number of segments taken.
    pub(super) fn now(connection: u64, taken: u64) -> Self {
        Self { connection, taken, arrival: FrameArrival::now() }
    }

    /// The position of a message that is queued now.
    pub(super) fn of_queued(self) -> Self {
        Self { arrival: FrameArrival::before_queueing(), ..self }
    }

    /// The position of a frame that began to arrive earlier.
    pub(super) fn arrived_at(self, arrival: FrameArrival) -> Self {
        Self { arrival: arrival.min(self.arrival), ..self }
    }

    /// Returns whether both are positions of the same connection.
    pub fn is_of_same_connection(self, other: Self) -> bool {
        self.connection == other.connection
    }

    /// Returns whether a message queued at another position was still unsent at this one.
    pub fn is_before_sending(self, queued: Self) -> bool {
        self.arrival <= queued.arrival
            || self.is_of_same_connection(queued) && self.taken <= queued.taken
    }
}

impl Route {
    /// The route of messages outside any exchange.
    pub(super) const COMMON: Self =
        Self { queue: None, batch: None, principal: None, received: None, trace: None };

    /// The principal of messages on this route, if it differs from the connection's.
    pub(crate) fn principal(&self) -> Option<&Principal> {
        self.principal.as_ref()
    }

    /// The route of a request that was received at this position and is served later.
    pub(super) fn received_at(self, position: SendPosition) -> Self {
        Self { received: self.received.or(Some(position)), ..self }
    }

    /// The send position when the request was received, if it was parked.
    pub(crate) fn received(&self) -> Option<SendPosition> {
        self.received
    }

    /// The route of a request with a trace context beside it.
    pub(super) fn traced(self, trace: Option<TraceContext>) -> Self {
        Self { trace: trace.map(Arc::new), ..self }
    }

    /// The trace context of requests whose `_meta` has none.
    pub(super) fn trace(&self) -> Option<&TraceContext> {
        self.trace.as_deref()
    }

    /// Asks the transport to close the stream of the exchange for now, if it has one.
    pub(crate) fn request_close(&self) {
        if let Some(queue) = &self.queue {
            queue.close_requested.notify_one();
        }
    }

    /// The route of an element of a batch.
    pub(super) fn within(&self, batch: &Arc<BatchReply>) -> Self {
        Self { batch: Some(batch.clone()), ..self.clone() }
    }

    /// The route of a whole batch.
    pub(super) fn without_batch(&self) -> Self {
        Self { batch: None, ..self.clone() }
    }

    /// Holds a guard until what is sent next on this route has been flushed. Returns it where that
    /// is as soon as it is sent.
    pub(super) fn hold_until_flushed(&self, guard: FlushGuard) -> Option<FlushGuard> {
        match (&self.batch, &self.queue) {
            (Some(batch), _) => batch.hold_until_flushed(guard),
            (None, Some(queue)) => queue.flush_guards.lock().push(guard),
            (None, None) => return Some(guard),
        }
        None
    }
}
