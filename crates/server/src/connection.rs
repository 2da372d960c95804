//! A connection: what a transport holds, from its first byte to its last.
//!
//! A transport hands in frames and takes out segments of encoded messages; everything between is
//! here. `dispatch` takes messages up, `calls` knows which are running or waiting, `work` runs them,
//! `outbound` holds what is to be sent, `exchange` keeps apart what belongs to one frame, `client`
//! is what the client was asked, `subscriptions` what it is to be told, `batch` gathers the replies
//! of a batch, `signed` checks and makes signatures, `info` is what the transport knows, and
//! `lifecycle` knows how far the handshake has come and how the connection ends.

mod admission;
mod batch;
mod calls;
pub(crate) mod client;
mod dispatch;
mod exchange;
mod info;
mod lifecycle;
mod outbound;
mod signed;
mod subscriptions;
mod work;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use mcp_flow_proto::model::LogLevel;
use mcp_flow_proto::raw::EncodeError;
use mcp_flow_proto::{Encoding, Incoming, RequestId, Revision, RpcError, write};
use serde::Serialize;
use tokio::sync::Notify;
use tokio_util::task::TaskTracker;

use crate::event::{ConnectionEvent, Veto};
use crate::handler::Outcome;
use crate::identity::Principal;
use crate::limits::Limits;
use crate::load::{Load, Tally};
use crate::permissions::PermissionKind;
use crate::server::Server;
use crate::signing::OpenedFrame;
use admission::Session;
use calls::Calls;
use client::ClientRequests;
pub(crate) use exchange::Route;
use lifecycle::Lifecycle;
use outbound::{Hint, Outbound};
use signed::Signed;
use subscriptions::Subscriptions;

pub use admission::PartialFrames;
pub use exchange::{Exchange, FlushGuard, Moment};
pub use info::ConnectionInfo;
pub use lifecycle::ConnectionEnd;
pub use outbound::{LastError, Segment};

/// One client's connection, as its transport sees it.
///
/// Dropping it ends it: running calls are stopped and the close event is raised.
///
/// ```
/// # use mcp_flow_server::{ConnectionInfo, Server};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let server = Server::builder("demo", "1.0.0").build().unwrap();
/// let connection = server.connect(ConnectionInfo::new("memory")).unwrap();
///
/// connection.receive(br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
///
/// let segment = connection.output().await.unwrap();
/// assert_eq!(segment.lines(), b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n");
/// # }
/// ```
#[derive(Debug)]
pub struct Connection {
    shared: Arc<Shared>,
}

impl Connection {
    pub(crate) fn open(server: Server, info: ConnectionInfo) -> Result<Self, Veto> {
        server.raise(&info, &ConnectionEvent::Connected)?;
        let limits = server.limits();
        let signed = Signed::new(&server, info.in_order);
        let shared = Arc::new(Shared {
            client: ClientRequests::new(limits.client_requests),
            limits,
            is_cbor: AtomicBool::new(info.encoding == Encoding::Cbor),
            info,
            state: Mutex::new(State::new(server.load())),
            running: AtomicUsize::new(0),
            running_bytes: Tally::new(server.load()),
            outbound: Outbound::new(server.load(), signed.clone()),
            signed,
            partial_frames: Tally::new(server.load()),
            session: Session::default(),
            wake: Notify::new(),
            reachable: OnceLock::new(),
            tasks: TaskTracker::new(),
            server,
        });
        Ok(Self { shared })
    }

    /// Takes up one frame. Never waits; what it leads to comes out of [`output`](Self::output).
    pub fn receive(&self, frame: &[u8]) {
        if let Some(message) = self.shared.open(frame) {
            self.shared.receive(message, Route::default());
        }
    }

    /// As [`receive`](Self::receive), of a frame whose transport has opened and decoded it already.
    pub fn receive_decoded(&self, incoming: Incoming<'_>, opened: &OpenedFrame<'_>) {
        self.shared.receive_decoded(incoming, opened.message(), Route::default());
    }

    /// Answers something that did not even become a frame, such as a line past the limit.
    pub fn refuse(&self, error: RpcError) {
        self.shared.take_up_fault(None, error, &Route::default());
    }

    /// Answers a request that its transport refuses.
    pub fn refuse_request(&self, id: &RequestId, error: RpcError) {
        self.shared.take_up_fault(Some(id), error, &Route::default());
    }

    /// Tells the client something about the connection itself, whether or not it has begun.
    pub fn tell(&self, method: &str, params: &impl Serialize) -> Result<(), EncodeError> {
        self.shared.tell_of_connection(method, params)
    }

    /// How messages are written at the moment.
    pub fn encoding(&self) -> Encoding {
        self.shared.encoding()
    }

    /// Whether the transport should go on reading.
    ///
    /// It should stop only when requests wait for a place to run up to their limit, or replies
    /// wait to be sent far past theirs; cancels, pings and answers are read until then.
    pub fn accepts_input(&self) -> bool {
        self.shared.accepts_input()
    }

    /// The transport has read everything there will ever be. What is running may finish.
    pub fn end_of_input(&self) {
        self.shared.begin_ending();
    }

    /// Starts calls that were waiting for a place, tells of changes, and ends what is due to end.
    pub fn advance(&self) {
        self.shared.advance();
    }

    /// Takes what is ready to be sent, without waiting.
    pub fn take_output(&self) -> Option<Segment> {
        self.shared.outbound.take()
    }

    /// Gives a sent segment back, so that its memory is used again.
    pub fn recycle(&self, segment: Segment) {
        self.shared.outbound.recycle(segment);
    }

    /// How the connection ended, once it has. There may still be output to send.
    pub fn ended(&self) -> Option<ConnectionEnd> {
        self.shared.state().lifecycle.ended()
    }

    /// Waits until there may be something to do: output, a free place, or the end.
    ///
    /// To be awaited by one task only.
    pub async fn changed(&self) {
        self.shared.changed().await;
    }

    /// Waits for output; `None` once the connection has ended.
    ///
    /// To be awaited by one task only, instead of [`changed`](Self::changed).
    pub async fn output(&self) -> Option<Segment> {
        loop {
            self.advance();
            if let Some(segment) = self.take_output() {
                return Some(segment);
            }
            if self.ended().is_some() {
                return None;
            }
            self.changed().await;
        }
    }

    /// Ends the connection and waits until all its tasks are gone. Functions that block a thread
    /// are told to stop and not waited for.
    pub async fn close(self) {
        self.shared.close();
        self.shared.tasks.wait().await;
    }

    /// Speaks to the client outside any call, once it is ready (C-21).
    pub fn client(&self) -> client::Client {
        client::Client::new(self.shared.clone(), None)
    }

    /// The revision agreed on, once the client has shaken hands.
    pub fn revision(&self) -> Option<Revision> {
        self.shared.state().lifecycle.peer().map(|peer| peer.revision)
    }

    /// Whether no more requests are taken up.
    pub fn is_ending(&self) -> bool {
        self.shared.state().lifecycle.is_ending()
    }

    /// Returns whether a request with this id is running or waiting.
    pub fn has_request(&self, id: &RequestId) -> bool {
        self.shared.state().calls.is_open(id)
    }

    /// Whether no request is running or waiting. There may still be output to send.
    pub fn is_idle(&self) -> bool {
        self.shared.state().calls.is_idle()
    }

    /// Whether no request is running or waiting, and all output is taken.
    pub fn is_over(&self) -> bool {
        // Asked in this order: what is answered is in the queue by then.
        self.is_idle() && self.shared.outbound.is_empty()
    }

    /// Ends the connection at once: what is running is stopped, and answered with an error.
    pub fn end_now(&self) {
        self.shared.end_now();
    }

    /// Ends the connection at once: what is running is stopped and not answered.
    pub fn stop(&self) {
        self.shared.close();
    }

    /// Says how to find out whether the client can be sent what it did not ask for, on a transport
    /// where it may not listen. Without this it always can.
    pub fn reachable_if(&self, test: impl Fn() -> bool + Send + Sync + 'static) {
        // A connection has one transport, which says so once.
        let _ = self.shared.reachable.set(Reachable(Box::new(test)));
    }

    /// Whom its calls are made for.
    pub fn principal(&self) -> &Principal {
        &self.shared.info.principal
    }

    /// The server this connection belongs to.
    pub fn server(&self) -> &Server {
        &self.shared.server
    }

    /// The bounds it has.
    pub fn limits(&self) -> &Limits {
        &self.shared.limits
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.shared.leave_listeners();
        let ended = self.shared.close();
        // Nothing can be stopped any more, so a veto has no meaning here.
        let _ = self.shared.server.raise(&self.shared.info, &ConnectionEvent::Closed(ended));
    }
}

/// Says whether the client can be sent what it did not ask for.
struct Reachable(Box<dyn Fn() -> bool + Send + Sync>);

impl std::fmt::Debug for Reachable {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Reachable")
    }
}

/// What a connection shares with its running calls.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) server: Server,
    pub(crate) limits: Arc<Limits>,
    pub(crate) info: ConnectionInfo,
    is_cbor: AtomicBool,
    state: Mutex<State>,
    /// Calls that hold a place. Calls that wait for the client give theirs up meanwhile.
    running: AtomicUsize,
    /// Bytes of the requests behind calls that run as tasks.
    running_bytes: Tally,
    outbound: Outbound,
    /// Where messages are signed: how, and by whom.
    signed: Option<Arc<Signed>>,
    /// Bytes of frames that are not whole yet.
    partial_frames: Tally,
    /// How often it may still ask.
    session: Session,
    wake: Notify,
    reachable: OnceLock<Reachable>,
    client: ClientRequests,
    tasks: TaskTracker,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) lifecycle: Lifecycle,
    pub(crate) log_level: LogLevel,
    calls: Calls,
    subscriptions: Subscriptions,
}

impl State {
    fn new(load: &Load) -> Self {
        Self {
            lifecycle: Lifecycle::default(),
            log_level: LogLevel::Info,
            calls: Calls::new(load),
            subscriptions: Subscriptions::default(),
        }
    }
}

impl Shared {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        // The state is consistent between any two statements that could panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the principal may use something.
    pub(crate) fn may(&self, kind: PermissionKind, name: &str) -> bool {
        self.server.may(&self.info.principal, kind, name)
    }

    /// Whom what goes this way is for.
    pub(crate) fn principal_of<'a>(&'a self, route: &'a Route) -> &'a Principal {
        route.principal().unwrap_or(&self.info.principal)
    }

    /// Whether the principal may use anything of a kind.
    pub(crate) fn may_any(&self, kind: PermissionKind) -> bool {
        let permissions = self.server.permissions();
        permissions.is_none_or(|rules| rules.of(&self.info.principal).may_any(kind))
    }

    /// How messages are written, which the end of a handshake may change.
    pub(crate) fn encoding(&self) -> Encoding {
        if self.is_cbor.load(Ordering::Acquire) { Encoding::Cbor } else { Encoding::Json }
    }

    /// Whether the client can be sent what it did not ask for.
    pub(crate) fn is_reachable(&self) -> bool {
        self.reachable.get().is_none_or(|test| (test.0)())
    }

    /// Sends the one reply to a request, if `first` says it is the first, under the lock that
    /// orders it after all notifications of the same call. Returns what `first` said.
    pub(crate) fn reply(
        &self,
        route: &Route,
        id: &RequestId,
        revision: Revision,
        outcome: &Outcome,
        first: impl FnOnce() -> bool,
    ) -> bool {
        // Looked at when its turn to leave has come: the encoding may change with a reply before.
        let write = |out: &mut Vec<u8>| match outcome {
            Ok(payload) => {
                let encoding = self.encoding();
                match payload.in_encoding(encoding) {
                    Some(result) => write::result(out, encoding, id, &result),
                    None => write::error(out, encoding, Some(id), &RpcError::internal(), revision),
                }
                if let Some(then) = payload.then {
                    self.is_cbor.store(then == Encoding::Cbor, Ordering::Release);
                }
            }
            Err(error) => {
                let error = self.server.dialect().word(error);
                write::error(out, self.encoding(), Some(id), &error, revision);
            }
        };
        let mut is_first = false;
        let claim = || {
            is_first = first();
            is_first
        };
        match &route.batch {
            None => {
                let hint = match outcome {
                    Ok(payload) => Hint::from(payload.bytes.len()),
                    Err(error) => Hint::of_error(error, revision),
                };
                self.send(route, hint, claim, write);
                if is_first {
                    self.close_route(route);
                }
            }
            Some(_) => {
                if claim() {
                    let mut reply = Vec::new();
                    write(&mut reply);
                    self.gather(route, Some(reply));
                }
            }
        }
        is_first
    }

    /// Answers what never became a request.
    fn refuse(&self, route: &Route, id: Option<&RequestId>, error: &RpcError) {
        let encoding = self.encoding();
        let revision = self.revision();
        self.raise_error(error);
        let mut reply = Vec::new();
        let worded = self.server.dialect().word(error);
        write::error(&mut reply, encoding, id, &worded, revision);
        if route.batch.is_some() {
            return self.gather(route, Some(reply));
        }
        let hint = Hint::of_error(error, revision);
        self.send(route, hint, || true, |out| out.extend_from_slice(&reply));
        self.close_route(route);
    }

    fn tell_of_connection(&self, method: &str, params: &impl Serialize) -> Result<(), EncodeError> {
        // Nobody waits for any of it, so what is not read is not piled up.
        if self.is_congested() {
            return Ok(());
        }
        let mut message = Vec::new();
        write::notification(&mut message, self.encoding(), method, params)?;
        let route = Route::default();
        self.send(&route, message.len(), || true, |out| out.extend_from_slice(&message));
        Ok(())
    }

    pub(crate) fn raise_error(&self, error: &RpcError) {
        tracing::debug!(name = error.name(), code = error.code(), "request refused or failed");
        let _ = self.server.raise(&self.info, &ConnectionEvent::Error(error));
    }

    /// The revision to write errors in when no request says its own.
    fn revision(&self) -> Revision {
        self.state().lifecycle.peer().map_or(Revision::BASE, |peer| peer.revision)
    }

    fn accepts_input(&self) -> bool {
        let limits = &self.limits;
        self.outbound.bytes() < 2 * limits.outbound_bytes && !self.state().calls.is_full(limits)
    }

    /// Whether replies are not being read as fast as they come.
    pub(crate) fn is_congested(&self) -> bool {
        self.outbound.bytes() >= self.limits.outbound_bytes
    }

    /// The least severe log messages this connection wants.
    pub(crate) fn log_level(&self) -> LogLevel {
        self.state().log_level
    }

    /// Whether a request must wait: no place is free, or replies are not being read.
    fn is_busy(&self) -> bool {
        let limits = &self.limits;
        self.running.load(Ordering::Acquire) >= limits.concurrency
            || self.running_bytes.bytes() >= limits.running_bytes
            || self.is_congested()
    }
}
