//! One frame and everything it leads to, apart from the rest of its connection.
//!
//! On a pipe all messages leave by one way out. Over HTTP the replies to a POST belong into its own
//! response, so each has a lane of its own.

use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mcp_flow_proto::Incoming;
use tokio::sync::Notify;

use super::batch::BatchReply;
use super::outbound::{Hint, Outbound};
use super::{Connection, Segment, Shared};
use crate::identity::Principal;
use crate::signing::OpenedFrame;

/// The replies to one frame, and what is sent about them before they are complete.
///
/// Dropping it loses what is not taken out yet, but stops nothing.
#[derive(Debug)]
pub struct Exchange {
    shared: Arc<Shared>,
    lane: Arc<Lane>,
}

impl Connection {
    /// Takes up what a frame holds; the replies do not leave by [`output`](Connection::output) but
    /// by the exchange returned. Something else must keep driving the connection meanwhile.
    ///
    /// Its calls are made for this principal, whose credential may be another than the one the
    /// connection was opened with.
    pub fn exchange(
        &self,
        incoming: Incoming<'_>,
        opened: &OpenedFrame<'_>,
        principal: &Principal,
    ) -> Exchange {
        let lane = Arc::new(Lane::new(&self.shared.outbound));
        let principal = Some(principal.clone());
        let route = Route { lane: Some(lane.clone()), principal, ..Route::default() };
        self.shared.receive_decoded(incoming, opened.message(), route);
        Exchange { shared: self.shared.clone(), lane }
    }
}

impl Exchange {
    /// Takes what is ready to be sent, without waiting.
    pub fn take_output(&self) -> Option<Segment> {
        let segment = self.lane.outbound.take();
        if segment.is_some() {
            // A call may wait for room in what is to be sent.
            self.shared.wake.notify_one();
        }
        segment
    }

    /// Whether everything is answered; there may still be output to take.
    pub fn is_done(&self) -> bool {
        self.lane.done.load(Ordering::Acquire)
    }

    /// Whether everything is answered and taken.
    pub fn is_over(&self) -> bool {
        // Asked in this order: what is sent before the end is in the queue by then.
        self.is_done() && self.lane.outbound.is_empty()
    }

    /// Waits for output; `None` once all is answered and taken. To be awaited by one task only.
    pub async fn output(&self) -> Option<Segment> {
        loop {
            // Asked first: what is sent before the end is in the queue by then.
            let done = self.is_done();
            if let Some(segment) = self.take_output() {
                return Some(segment);
            }
            if done || self.shared.state().lifecycle.ended().is_some() {
                return None;
            }
            self.lane.wake.notified().await;
        }
    }

    /// Completes when a handler asks that what carries the exchange be closed for now. To be
    /// awaited by one task only.
    pub async fn close_requested(&self) {
        self.lane.closing.notified().await;
    }

    /// What [`Context::hold_until_flushed`](crate::Context::hold_until_flushed) left here. A
    /// transport that knows when the replies have really left drops it then; by itself the exchange
    /// drops it at its own end.
    pub fn take_flush_guards(&self) -> Vec<FlushGuard> {
        std::mem::take(&mut *self.lane.kept())
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.lane.abandoned.store(true, Ordering::Release);
        drop(self.take_flush_guards());
    }
}

/// Something that is dropped when a reply has left.
pub type FlushGuard = Box<dyn Any + Send>;

/// A way out of a connection for the messages of one exchange.
#[derive(Debug)]
pub(crate) struct Lane {
    outbound: Outbound,
    wake: Notify,
    /// What carries the exchange should be closed; the client will come back for the rest.
    closing: Notify,
    done: AtomicBool,
    /// Nobody will take anything out any more.
    abandoned: AtomicBool,
    /// What is dropped when everything has left.
    kept: Mutex<Vec<FlushGuard>>,
}

impl Lane {
    fn new(main: &Outbound) -> Self {
        Self {
            outbound: Outbound::beside(main),
            wake: Notify::new(),
            closing: Notify::new(),
            done: AtomicBool::new(false),
            abandoned: AtomicBool::new(false),
            kept: Mutex::default(),
        }
    }

    fn kept(&self) -> MutexGuard<'_, Vec<FlushGuard>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where the reply to a request goes, and what is sent while it runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Route {
    /// The lane of its exchange; the way all else goes if there is none.
    lane: Option<Arc<Lane>>,
    /// The batch its reply is part of.
    pub(super) batch: Option<Arc<BatchReply>>,
    /// Whom it is for, if its transport says so with every frame.
    principal: Option<Principal>,
    /// Moment the request was received, if it could not be served at once.
    received: Option<Moment>,
}

/// A moment in the life of a connection, by how much its transport had taken to send.
///
/// A client can know of a message only if the transport took something after the message was
/// queued, and before the client's own message was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    connection: u64,
    taken: u64,
}

impl Moment {
    /// Returns whether both are moments of the same connection.
    pub fn is_of_same_connection(self, other: Self) -> bool {
        self.connection == other.connection
    }

    /// Returns whether what was queued at another moment of the same connection was still waiting to be
    /// sent at this one.
    pub fn is_before_leaving(self, queued: Self) -> bool {
        self.is_of_same_connection(queued) && self.taken <= queued.taken
    }
}

impl Route {
    /// Whom what goes this way is for, unless that is whoever the connection is for.
    pub(crate) fn principal(&self) -> Option<&Principal> {
        self.principal.as_ref()
    }

    /// The same way, of a request that was received now and is served later.
    pub(super) fn received_at(self, moment: Moment) -> Self {
        Self { received: Some(moment), ..self }
    }

    /// Moment the request was received, if it had to wait for its turn.
    pub(crate) fn received(&self) -> Option<Moment> {
        self.received
    }

    /// Asks for what carries the exchange to be closed for now, where something does.
    pub(crate) fn request_close(&self) {
        if let Some(lane) = &self.lane {
            lane.closing.notify_one();
        }
    }

    /// The same way, for a part of a batch.
    pub(super) fn within(&self, batch: &Arc<BatchReply>) -> Self {
        Self { batch: Some(batch.clone()), ..self.clone() }
    }

    /// The way a whole batch goes.
    pub(super) fn without_batch(&self) -> Self {
        Self { batch: None, ..self.clone() }
    }

    /// Keeps something until what is sent next by this route has left; gives it back where that is
    /// as soon as it is sent.
    pub(crate) fn keep(&self, kept: FlushGuard) -> Option<FlushGuard> {
        match (&self.batch, &self.lane) {
            (Some(batch), _) => batch.keep(kept),
            (None, Some(lane)) => lane.kept().push(kept),
            (None, None) => return Some(kept),
        }
        None
    }
}

impl Shared {
    /// The present moment.
    pub(crate) fn moment(&self) -> Moment {
        Moment { connection: self.info.number, taken: self.outbound.taken() }
    }

    /// Sends a message by a route, if `allowed` says so under the lock that orders messages.
    pub(crate) fn send(
        &self,
        route: &Route,
        hint: impl Into<Hint>,
        allowed: impl FnOnce() -> bool,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        let write = |out: &mut Vec<u8>| {
            let before = out.len();
            write(out);
            self.log_message("sent", &out[before..]);
        };
        match &route.lane {
            None => {
                if self.outbound.push(hint, allowed, write) {
                    self.wake.notify_one();
                }
            }
            Some(lane) => {
                let wanted = || allowed() && !lane.abandoned.load(Ordering::Acquire);
                lane.outbound.push(hint, wanted, write);
                lane.wake.notify_one();
            }
        }
    }

    /// Notes that nothing more comes by a route.
    pub(super) fn close_route(&self, route: &Route) {
        if let Some(lane) = &route.lane {
            lane.done.store(true, Ordering::Release);
            lane.wake.notify_one();
        }
    }
}
