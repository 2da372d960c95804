//! One call, from dispatch to completion.
//!
//! A [`Call`] owns what it takes to complete a request: its route, its permit, the claim on its
//! single reply, and the observation that is reported afterwards. Its handler sees it as a
//! [`Context`](crate::Context).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use mcp_flow_proto::error::CANCELLED;
use mcp_flow_proto::model::{RequestMeta, TraceContext};
use mcp_flow_proto::{RequestId, Revision, RpcError};
use parking_lot::Mutex;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::permit::CallPermit;
use super::progress::Progress;
use super::{ConnectionInner, FlushGuard, Route};
use crate::context::HandlerState;
use crate::handler::{Outcome, Payload};
use crate::identity::{Peer, Principal};
use crate::observe::Observation;

/// A request that is being served.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) connection: Arc<ConnectionInner>,
    pub(crate) id: RequestId,
    pub(crate) route: Route,
    pub(crate) peer: Option<Arc<Peer>>,
    pub(crate) progress: Progress,
    /// State that only the handler uses.
    pub(crate) handler: HandlerState,
    /// The length of the request, in bytes.
    pub(super) size: usize,
    pub(super) permit: CallPermit,
    /// Set by whoever claims the reply. A call is answered once, whatever comes first.
    answered: AtomicBool,
    cancellation: OnceLock<CancellationToken>,
    /// Reported once the call is complete, if an observer wants it.
    pub(crate) observation: Option<Box<Observation>>,
    /// Dropped when the reply has been flushed.
    flush_guard: Mutex<Option<FlushGuard>>,
    /// Set if part of the result is delivered by the side channel.
    uses_side_channel: AtomicBool,
}

impl Call {
    #[expect(clippy::too_many_arguments, reason = "the parts of a request, named by their types")]
    pub(super) fn new(
        connection: Arc<ConnectionInner>,
        id: RequestId,
        route: Route,
        peer: Option<Arc<Peer>>,
        meta: Option<Box<RequestMeta>>,
        trace: Option<Arc<TraceContext>>,
        size: usize,
        observation: Option<Box<Observation>>,
    ) -> Arc<Self> {
        let RequestMeta { progress_token, log_level, others, .. } =
            meta.map(|meta| *meta).unwrap_or_default();
        Arc::new(Self {
            connection,
            id,
            route,
            peer,
            progress: Progress::new(progress_token),
            handler: HandlerState::new(log_level, trace, others),
            size,
            permit: CallPermit::default(),
            answered: AtomicBool::new(false),
            cancellation: OnceLock::new(),
            observation,
            flush_guard: Mutex::default(),
            uses_side_channel: AtomicBool::new(false),
        })
    }

    /// The revision the request is written in.
    pub(crate) fn revision(&self) -> Revision {
        self.peer.as_ref().map_or(Revision::BASE, |peer| peer.revision)
    }

    /// The principal the call is made for.
    pub(crate) fn principal(&self) -> &Principal {
        self.connection.principal_of(&self.route)
    }

    /// Encodes a result for the connection the call came in on.
    pub(crate) fn encode<T: Serialize + ?Sized>(&self, result: &T) -> Outcome {
        let encoding = self.connection.output.encoding();
        encoding.encode(result).map(|bytes| Payload::new(bytes, encoding)).map_err(|error| {
            tracing::error!(%error, "encoding a result failed");
            RpcError::internal()
        })
    }

    /// Sends the reply and reports the call, unless it has been answered or abandoned before.
    pub(crate) fn complete(&self, outcome: &Outcome) {
        if self.send_reply(outcome) {
            self.report(outcome);
        }
    }

    /// Sends the reply without reporting the call. Returns whether it was the first.
    pub(super) fn send_reply(&self, outcome: &Outcome) -> bool {
        // On a route of its own the guard is handed over to the transport, which knows when the
        // reply has been flushed.
        let guard = self.flush_guard.lock().take();
        let guard = guard.and_then(|guard| self.route.hold_until_flushed(guard));
        if outcome.is_ok() {
            self.confirm_progress();
        }
        let output = &self.connection.output;
        let is_first =
            output.reply(&self.route, &self.id, self.revision(), outcome, || self.claim_reply());
        drop(guard);
        if is_first {
            self.notify_side_channel(outcome.is_ok());
        }
        is_first
    }

    /// Reports the outcome to observers and hooks. They may take their time, so no lock may be held.
    pub(super) fn report(&self, outcome: &Outcome) {
        self.observe(outcome);
        if let Err(error) = outcome {
            self.connection.emit_error(error);
        }
    }

    /// Claims the reply without sending one, so that the call is never answered.
    pub(crate) fn abandon(&self) {
        if self.claim_reply() {
            self.connection.output.skip(&self.route);
            self.notify_side_channel(false);
            // It may have had effects all the same.
            self.observe(&Err(RpcError::new(CANCELLED)));
        }
    }

    fn observe(&self, outcome: &Outcome) {
        if let Some(observation) = &self.observation {
            let ConnectionInner { server, info, .. } = &*self.connection;
            let (peer, outcome) = (self.peer.as_deref(), outcome.as_ref());
            let upstream = self.handler.upstream();
            let observers = server.observers();
            observation.report(
                observers,
                info,
                self.principal(),
                peer,
                &self.id,
                upstream,
                outcome,
            );
        }
    }

    fn claim_reply(&self) -> bool {
        !self.answered.swap(true, Ordering::AcqRel)
    }

    /// Returns whether the call has been answered or abandoned.
    pub(crate) fn is_answered(&self) -> bool {
        self.answered.load(Ordering::Acquire)
    }

    /// Sends a notification about the call, unless it has been answered, `wanted` objects, or the
    /// client does not keep up.
    pub(crate) fn notify(
        &self,
        method: &str,
        params: &impl Serialize,
        wanted: impl FnOnce() -> bool,
    ) {
        let output = &self.connection.output;
        if output.is_congested() {
            return;
        }
        let allowed = || !self.is_answered() && wanted();
        if let Err(error) = output.notify_if(&self.route, method, params, allowed) {
            tracing::error!(%error, method, "encoding a notification failed");
        }
    }

    /// Holds a value until the reply has been flushed.
    pub(crate) fn hold_until_flushed(&self, guard: FlushGuard) {
        *self.flush_guard.lock() = Some(guard);
    }

    /// Records that part of the result is delivered by the side channel.
    pub(crate) fn use_side_channel(&self) {
        self.uses_side_channel.store(true, Ordering::Release);
    }

    /// Tells the side channel that the reply is queued, or never will be.
    fn notify_side_channel(&self, is_result: bool) {
        if self.uses_side_channel.load(Ordering::Acquire)
            && let Some(side_channel) = &self.connection.info.side_channel
        {
            side_channel.replied(&self.id, is_result);
        }
    }

    pub(crate) fn cancellation(&self) -> &CancellationToken {
        self.cancellation.get_or_init(CancellationToken::new)
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancellation.get().is_some_and(CancellationToken::is_cancelled)
    }

    pub(super) fn cancel(&self) {
        self.cancellation().cancel();
    }
}
