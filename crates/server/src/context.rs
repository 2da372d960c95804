//! What a handler knows about its call and can do while it runs.

mod beside;
mod input;
mod reply;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use mcp_flow_proto::error::CANCELLED;
use mcp_flow_proto::model::{LogLevel, LogMessage, ProgressParams, RequestMeta, TraceContext};
use mcp_flow_proto::{Raw, RequestId, Revision, RpcError, method, write};
use serde::Serialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

pub use crate::connection::client::{Client, ClientError};

use crate::bulk::SideChannel;
use crate::connection::{FlushGuard, Moment, Route, Shared};
use crate::handler::{Outcome, Reply};
use crate::identity::{Peer, Principal};
use crate::input::Round;
use crate::limits::Limits;
use crate::observe::Observation;
use crate::permissions::PermissionKind;
use crate::server::Server;
use crate::tool::Tool;

/// One call, as its handler sees it. Cheap to clone and to move into tasks.
#[derive(Clone, Debug)]
pub struct Context {
    call: Arc<Call>,
}

#[derive(Debug)]
struct Call {
    shared: Arc<Shared>,
    id: RequestId,
    route: Route,
    peer: Option<Arc<Peer>>,
    progress_token: Option<RequestId>,
    log_level: Option<LogLevel>,
    trace: Option<Box<TraceContext>>,
    answered: AtomicBool,
    /// The last progress sent, as bits of an `f64`.
    progress: AtomicU64,
    cancellation: OnceLock<CancellationToken>,
    tool: OnceLock<Arc<Tool>>,
    /// Whether the tool is called as a method of its own.
    direct: AtomicBool,
    /// The length of the request, in bytes.
    size: usize,
    /// What is told of it once it is answered, if somebody watches.
    observation: Option<Box<Observation>>,
    place: Mutex<PlaceState>,
    /// Whether the request may be answered by asking for input.
    may_ask: AtomicBool,
    round: OnceLock<Box<Mutex<Round>>>,
    /// What is dropped when the reply has left.
    kept: Mutex<Option<FlushGuard>>,
    /// The last progress that went out by a way it may be lost on, as a whole message.
    unconfirmed: Mutex<Option<Vec<u8>>>,
    /// Whether something of the result travels beside it.
    uses_side_channel: AtomicBool,
    /// The error that a failure of the call is answered with.
    refusal: OnceLock<RpcError>,
}

/// Whether a call holds a place, and how many of its requests to the client lend it to others.
#[derive(Debug, Default)]
struct PlaceState {
    held: bool,
    lent: usize,
}

impl Context {
    pub(crate) fn new(
        shared: Arc<Shared>,
        id: RequestId,
        route: Route,
        peer: Option<Arc<Peer>>,
        meta: Option<Box<RequestMeta>>,
        size: usize,
        observation: Option<Box<Observation>>,
    ) -> Self {
        let (progress_token, log_level, trace) = meta.map_or((None, None, None), |meta| {
            (meta.progress_token, meta.log_level, meta.trace.map(Box::new))
        });
        Self {
            call: Arc::new(Call {
                shared,
                id,
                route,
                peer,
                progress_token,
                log_level,
                trace,
                answered: AtomicBool::new(false),
                progress: AtomicU64::new(f64::NEG_INFINITY.to_bits()),
                cancellation: OnceLock::new(),
                tool: OnceLock::new(),
                direct: AtomicBool::new(false),
                size,
                observation,
                place: Mutex::default(),
                may_ask: AtomicBool::new(false),
                round: OnceLock::new(),
                kept: Mutex::default(),
                unconfirmed: Mutex::default(),
                uses_side_channel: AtomicBool::new(false),
                refusal: OnceLock::new(),
            }),
        }
    }

    /// The trace the call belongs to, for what it asks of others: requests to the client carry it
    /// already.
    pub fn trace(&self) -> Option<&TraceContext> {
        self.call.trace.as_deref()
    }

    /// The id of the request.
    pub fn id(&self) -> &RequestId {
        &self.call.id
    }

    /// Returns the moment the request was received. To be asked before the handler first waits: a request that is
    /// served at once is received when its handler is called.
    pub fn received(&self) -> Moment {
        self.call.route.received().unwrap_or_else(|| self.call.shared.moment())
    }

    /// Returns whether messages arrive in the order they were sent in, none of them lost while the
    /// connection lasts.
    pub fn keeps_order(&self) -> bool {
        self.call.shared.info.in_order
    }

    /// The revision the request is written in.
    pub fn revision(&self) -> Revision {
        self.peer().map_or(Revision::BASE, |peer| peer.revision)
    }

    /// What the client says of itself; `None` only before `initialize`.
    pub fn peer(&self) -> Option<&Peer> {
        self.call.peer.as_deref()
    }

    /// Whom the call is made for.
    pub fn principal(&self) -> &Principal {
        self.call.shared.principal_of(&self.call.route)
    }

    /// Whether the caller may use something, by the rules of the server. What it may not use is not
    /// there as far as it knows.
    pub fn may(&self, kind: PermissionKind, name: &str) -> bool {
        self.server().may(self.principal(), kind, name)
    }

    /// Whether the caller may use everything of a kind, so that names need not be looked at.
    pub fn may_all(&self, kind: PermissionKind) -> bool {
        let permissions = self.server().permissions();
        permissions.is_none_or(|rules| rules.of(self.principal()).may_all(kind))
    }

    pub(crate) fn may_call(&self, tool: &Tool) -> bool {
        self.may(tool.kind(), &tool.definition().name)
    }

    /// The bounds of the connection the call came in on.
    pub fn limits(&self) -> &Limits {
        &self.call.shared.limits
    }

    /// The server that runs the call.
    pub fn server(&self) -> &Server {
        &self.call.shared.server
    }

    /// The tool that is called, if the call is one of a tool.
    pub fn tool(&self) -> Option<&Tool> {
        self.call.tool.get().map(|tool| &**tool)
    }

    /// A value the transport or the application put there, the transport's first.
    pub fn extension<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        let shared = &self.call.shared;
        shared.info.extensions.get().or_else(|| shared.server.extensions().get())
    }

    /// What carries results that are too large for a message, if the transport has such a way.
    pub(crate) fn side_channel(&self) -> Option<&Arc<dyn SideChannel>> {
        self.call.shared.info.side_channel.as_ref()
    }

    /// The connection the call came in on, without keeping it alive.
    pub(crate) fn connection(&self) -> Weak<Shared> {
        Arc::downgrade(&self.call.shared)
    }

    /// Fires when the call is to stop. A waiting future is dropped by itself; this is for
    /// blocking functions and for work handed to others.
    pub fn cancellation(&self) -> &CancellationToken {
        self.call.cancellation.get_or_init(CancellationToken::new)
    }

    /// Whether the call is to stop.
    pub fn is_cancelled(&self) -> bool {
        self.call.cancellation.get().is_some_and(CancellationToken::is_cancelled)
    }

    /// Whether the caller wants to hear of progress.
    pub fn wants_progress(&self) -> bool {
        self.call.progress_token.is_some()
    }

    /// Tells the caller how far the call has come, if it asked to be told (C-45).
    ///
    /// Values that do not rise are dropped, and so is what comes after the reply or faster than
    /// the caller reads.
    pub fn progress(&self, progress: f64, total: Option<f64>, message: Option<&str>) {
        let Some(progress_token) = &self.call.progress_token else { return };
        let message = message.filter(|_| self.revision().features().progress_message);
        let params = ProgressParams { progress_token, progress, total, message };
        let rises = || {
            let last = f64::from_bits(self.call.progress.load(Ordering::Relaxed));
            let rises = progress > last;
            if rises {
                self.call.progress.store(progress.to_bits(), Ordering::Relaxed);
            }
            rises
        };
        // The last value is to arrive, and one at its total is the last.
        let is_last = total.is_some_and(|total| progress >= total);
        if is_last || !self.progress_by_datagram(&params, rises) {
            let rises = || rises() && self.forget_unconfirmed();
            self.notify(method::PROGRESS, &params, rises);
        }
    }

    /// Sends the caller a log message, if it is severe enough for what the caller asked for.
    pub fn log(&self, level: LogLevel, logger: Option<&str>, data: impl Into<Value>) {
        let wanted = if self.revision().is_stateless() {
            self.call.log_level
        } else {
            Some(self.call.shared.log_level())
        };
        if wanted.is_some_and(|wanted| level >= wanted) {
            let data = data.into();
            let message = LogMessage { level, logger, data: &data };
            // What may be wrong must not be lost.
            if level >= LogLevel::Warning || !self.log_by_datagram(&message) {
                self.notify(method::MESSAGE, &message, || true);
            }
        }
    }

    /// Closes the stream the caller reads this call's messages from, while the call runs on. The
    /// caller comes back a little later and reads what it has missed, so that a long call need not
    /// hold a connection all the time.
    ///
    /// Only Streamable HTTP at 2025-11-25 has such streams; elsewhere nothing happens.
    pub fn close_stream(&self) {
        self.call.route.request_close();
    }

    /// Speaks to the client while the call runs.
    pub fn client(&self) -> Client {
        Client::new(self.call.shared.clone(), Some(self.clone()))
    }

    /// Keeps something until the reply has left for the client, and drops it then. What the server
    /// sends of its own accord after that comes after the reply. One thing at a time.
    pub fn hold_until_flushed(&self, kept: impl Send + 'static) {
        *self.kept() = Some(Box::new(kept));
    }

    /// Calls a tool on behalf of this request.
    pub(crate) fn call_tool(&self, tool: Arc<Tool>, arguments: Raw<'_>) -> Reply {
        self.call.tool.get_or_init(|| tool).call(self, arguments)
    }

    /// Calls a tool that was asked for as a method of its own.
    pub(crate) fn call_tool_directly(&self, tool: Arc<Tool>, arguments: Raw<'_>) -> Reply {
        self.call.direct.store(true, Ordering::Relaxed);
        self.call_tool(tool, arguments)
    }

    /// Whether a tool is called as a method of its own, so that its output is the result (C-18).
    pub fn is_direct(&self) -> bool {
        self.call.direct.load(Ordering::Relaxed)
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.call.shared
    }

    /// Sends the reply, unless the call has been answered or abandoned before.
    pub(crate) fn finish(&self, outcome: &Outcome) {
        if self.send(outcome) {
            self.tell(outcome);
        }
    }

    /// Tells those who watch what a call was answered with. They may take their time, so this is not
    /// for under a lock.
    pub(crate) fn tell(&self, outcome: &Outcome) {
        let Call { shared, id, observation, .. } = &*self.call;
        if let Some(observation) = observation {
            let (observers, outcome) = (shared.server.observers(), outcome.as_ref());
            observation.report(observers, &shared.info, self.principal(), self.peer(), id, outcome);
        }
        if let Err(error) = outcome {
            shared.raise_error(error);
        }
    }

    /// As [`finish`](Self::finish), telling nobody. Returns whether the reply was the first.
    pub(crate) fn send(&self, outcome: &Outcome) -> bool {
        let Call { shared, id, route, .. } = &*self.call;
        // Where the way out is shared with nobody, it says itself when the reply has left.
        let kept = self.kept().take().and_then(|kept| route.keep(kept));
        if outcome.is_ok() {
            self.confirm_progress();
        }
        let is_first = shared.reply(route, id, self.revision(), outcome, || self.claim_answer());
        drop(kept);
        if is_first {
            self.notify_side_channel(outcome.is_ok());
        }
        is_first
    }

    fn kept(&self) -> MutexGuard<'_, Option<FlushGuard>> {
        self.call.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there will be no more reply than there was.
    pub(crate) fn is_answered(&self) -> bool {
        self.call.answered.load(Ordering::Acquire)
    }

    pub(crate) fn route(&self) -> &Route {
        &self.call.route
    }

    /// The length of the request, in bytes.
    pub(crate) fn size(&self) -> usize {
        self.call.size
    }

    pub(crate) fn take_place(&self) {
        self.place().held = true;
        self.call.shared.take_place();
    }

    /// Gives up the call's place for good. Returns whether it was not lent out at the moment.
    pub(crate) fn leave_place(&self) -> bool {
        let mut place = self.place();
        place.held = false;
        place.lent == 0 || self.call.shared.is_in_order()
    }

    /// Lets others have the call's place while it waits for the client, unless calls must not
    /// overtake each other.
    pub(crate) fn lend_place(&self) {
        let mut place = self.place();
        place.lent += 1;
        if place.held && place.lent == 1 && !self.call.shared.is_in_order() {
            self.call.shared.free_place();
        }
    }

    pub(crate) fn take_place_back(&self) {
        let mut place = self.place();
        place.lent -= 1;
        if place.held && place.lent == 0 && !self.call.shared.is_in_order() {
            self.call.shared.take_place();
        }
    }

    fn place(&self) -> MutexGuard<'_, PlaceState> {
        self.call.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends `null` as the result, which only `shutdown` may.
    pub(crate) fn finish_null(&self) {
        self.finish(&self.reply(&()));
    }

    /// Makes sure the call is never answered.
    pub(crate) fn abandon(&self) {
        if self.claim_answer() {
            let Call { shared, id, route, observation, .. } = &*self.call;
            shared.skip(route);
            self.notify_side_channel(false);
            // It may have done something all the same.
            if let Some(observation) = observation {
                let (observers, error) = (shared.server.observers(), RpcError::new(CANCELLED));
                let outcome = Err(&error);
                observation.report(observers, &shared.info, self.principal(), self.peer(), id, outcome);
            }
        }
    }

    pub(crate) fn cancel(&self) {
        self.cancellation().cancel();
    }

    fn claim_answer(&self) -> bool {
        !self.call.answered.swap(true, Ordering::AcqRel)
    }

    pub(crate) fn notify(
        &self,
        method: &str,
        params: &impl Serialize,
        wanted: impl FnOnce() -> bool,
    ) {
        let shared = &self.call.shared;
        if shared.is_congested() {
            return;
        }
        let mut message = Vec::new();
        let encoding = shared.encoding();
        if let Err(error) = write::notification(&mut message, encoding, method, params) {
            tracing::error!(%error, method, "a notification could not be encoded");
            return;
        }
        // One that a handshake has overtaken is lost with its encoding.
        let allowed = || !self.is_answered() && shared.encoding() == encoding && wanted();
        shared
            .send(&self.call.route, message.len(), allowed, |out| out.extend_from_slice(&message));
    }
}
