//! A connection: the server's side of one client, from its first byte to its last.
//!
//! A transport hands in frames and takes out segments of encoded messages. Between them:
//!
//! - `dispatch` starts calls, `batch` splits batches, `admission` applies
//!   limits;
//! - `codec` verifies and decodes frames, and signs output;
//! - `call` completes calls, `run` runs their handlers, `permit` bounds how many run at once,
//!   `calls` registers the open ones, `progress` sends their progress;
//! - `output` encodes messages into `outbound` queues, `exchange` has a queue per frame;
//! - `client` sends requests to the client, `subscriptions` change notifications;
//! - `lifecycle` follows the handshake and closes the connection.

mod admission;
mod batch;
pub(crate) mod call;
mod calls;
pub(crate) mod client;
mod codec;
mod dispatch;
mod exchange;
mod info;
mod lifecycle;
mod outbound;
mod output;
mod permit;
mod progress;
mod run;
pub(crate) mod subscriptions;

use std::sync::{Arc, OnceLock};

use mcp_flow_proto::model::LogLevel;
use mcp_flow_proto::raw::EncodeError;
use mcp_flow_proto::{Encoding, RequestId, Revision, RpcError};
use parking_lot::{Mutex, MutexGuard};
use serde::Serialize;
use tokio_util::task::TaskTracker;

use crate::event::{ConnectionEvent, Veto};
use crate::identity::Principal;
use crate::limits::Limits;
use crate::load::{Load, Tally};
use crate::permissions::PermissionKind;
use crate::server::Server;
use admission::ConnectionRate;
use calls::Calls;
use client::ClientRequests;
use codec::SigningCodec;
use lifecycle::Lifecycle;
use output::Output;
use permit::Permits;
use subscriptions::Subscriptions;

pub use admission::PartialFrames;
pub use codec::{DecodedFrame, RejectedFrame, ReplySigner};
pub(crate) use exchange::Route;
pub use exchange::{Exchange, FlushGuard, FrameArrival, SendPosition};
pub use info::ConnectionInfo;
pub use lifecycle::ConnectionEnd;
pub use outbound::{LastError, Segment};

/// One client's connection, as its transport uses it.
///
/// Dropping it closes it: running calls are stopped, and the close event is raised.
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
    inner: Arc<ConnectionInner>,
}

impl Connection {
    pub(crate) fn open(server: Server, info: ConnectionInfo) -> Result<Self, Veto> {
        server.emit(&info, &ConnectionEvent::Connected)?;
        let limits = server.limits();
        let codec = SigningCodec::new(&server, info.in_order);
        let inner = Arc::new(ConnectionInner {
            client: ClientRequests::new(limits.client_requests),
            output: Output::new(&server, &info, &limits, codec.clone()),
            limits,
            info,
            state: Mutex::new(State::new(server.load())),
            permits: Permits::new(server.load()),
            codec,
            partial_frames: Tally::new(server.load()),
            rate: ConnectionRate::default(),
            reachable: OnceLock::new(),
            tasks: TaskTracker::new(),
            server,
        });
        Ok(Self { inner })
    }

    /// Dispatches a frame. Never waits; replies come out of [`output`](Self::output).
    pub fn receive(&self, frame: &[u8]) {
        self.receive_since(frame, self.send_position());
    }

    /// Like [`receive`](Self::receive), for a frame that began to arrive at this position: its sender
    /// has seen nothing that left later.
    pub fn receive_since(&self, frame: &[u8], began: SendPosition) {
        if let Some(frame) = self.decode_frame(frame, |_, invalid| invalid) {
            dispatch::receive(&self.inner, frame, Route::default().received_at(began));
        }
    }

    /// The current send position of the connection.
    pub fn send_position(&self) -> SendPosition {
        self.inner.output.send_position()
    }

    /// Like [`receive`](Self::receive), for a decoded frame and the arrival of its first bytes. Fails
    /// if it was signed for another connection.
    pub fn receive_decoded(
        &self,
        frame: DecodedFrame<'_>,
        arrival: FrameArrival,
    ) -> Result<(), RpcError> {
        codec::join(&self.inner, &frame)?;
        let received = self.send_position().arrived_at(arrival);
        dispatch::receive(&self.inner, frame, Route::default().received_at(received));
        Ok(())
    }

    /// Answers with an error for what did not become a frame, such as a line past the limit.
    pub fn reject(&self, error: RpcError) {
        dispatch::reject(&self.inner, None, error, &Route::default());
    }

    /// Answers a request that its transport rejects.
    pub fn reject_request(&self, id: &RequestId, error: RpcError) {
        dispatch::reject(&self.inner, Some(id), error, &Route::default());
    }

    /// Sends a notification about the connection itself, in any state of its lifecycle. It is
    /// dropped if the client does not keep up.
    pub fn notify(&self, method: &str, params: &impl Serialize) -> Result<(), EncodeError> {
        match self.inner.output.is_congested() {
            true => Ok(()),
            false => self.inner.output.notify(&Route::default(), method, params),
        }
    }

    /// The present encoding of messages.
    pub fn encoding(&self) -> Encoding {
        self.inner.output.encoding()
    }

    /// Returns whether the transport should continue reading.
    ///
    /// It should stop only when parked requests have reached their limit, or unsent replies are far
    /// past theirs; cancellations, pings and responses are read until then.
    pub fn accepts_input(&self) -> bool {
        let inner = &self.inner;
        !inner.output.is_full() && !inner.state().calls.is_full(&inner.limits)
    }

    /// Begins to close, because the transport has reached the end of its input. Running calls may
    /// finish.
    pub fn end_of_input(&self) {
        lifecycle::begin_closing(&self.inner);
    }

    /// Starts parked requests as far as there are permits, sends due notifications, and closes the
    /// connection if it has drained.
    pub fn advance(&self) {
        dispatch::advance(&self.inner);
    }

    /// Takes a segment that is ready to be sent, without waiting.
    pub fn take_output(&self) -> Option<Segment> {
        self.inner.output.outbound.take()
    }

    /// Returns a sent segment, so that its memory is reused.
    pub fn recycle(&self, segment: Segment) {
        self.inner.output.outbound.recycle(segment);
    }

    /// The way the connection ended, once it has. There may still be output to send.
    pub fn ended(&self) -> Option<ConnectionEnd> {
        self.inner.state().lifecycle.ended()
    }

    /// Waits until there may be something to do: output, a free permit, or the end.
    ///
    /// To be awaited by one task only.
    pub async fn changed(&self) {
        lifecycle::changed(&self.inner).await;
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

    /// Closes the connection and waits until all its tasks have ended. Blocking functions are
    /// cancelled and not waited for.
    pub async fn close(self) {
        lifecycle::close(&self.inner);
        self.inner.tasks.wait().await;
    }

    /// Sends requests and notifications outside any call, once the client is ready (C-21).
    pub fn client(&self) -> client::Client {
        client::Client::new(self.inner.clone(), None)
    }

    /// The negotiated revision, after the handshake.
    pub fn revision(&self) -> Option<Revision> {
        self.inner.state().lifecycle.peer().map(|peer| peer.revision)
    }

    /// Returns whether no more requests are accepted.
    pub fn is_ending(&self) -> bool {
        self.inner.state().lifecycle.is_ending()
    }

    /// Returns whether a request with this id is running or parked.
    pub fn has_request(&self, id: &RequestId) -> bool {
        self.inner.state().calls.is_open(id)
    }

    /// Returns whether no request is running or parked. There may still be output to send.
    pub fn is_idle(&self) -> bool {
        self.inner.state().calls.is_idle()
    }

    /// Returns whether no request is running or parked, and all output is taken.
    pub fn is_over(&self) -> bool {
        // In this order: replies are in the queue by then.
        self.is_idle() && self.inner.output.outbound.is_empty()
    }

    /// Closes the connection at once: running calls are stopped, and answered with an error.
    pub fn close_now(&self) {
        lifecycle::close_now(&self.inner);
    }

    /// Closes the connection at once: running calls are stopped and not answered.
    pub fn stop(&self) {
        lifecycle::close(&self.inner);
    }

    /// Sets the test for whether the client can be sent unsolicited messages, on a transport where
    /// it may not listen. Without one it always can.
    pub fn reachable_if(&self, test: impl Fn() -> bool + Send + Sync + 'static) {
        // A connection has one transport, which sets it once.
        let _ = self.inner.reachable.set(Reachable(Box::new(test)));
    }

    /// The principal its calls are made for.
    pub fn principal(&self) -> &Principal {
        &self.inner.info.principal
    }

    /// The server this connection belongs to.
    pub fn server(&self) -> &Server {
        &self.inner.server
    }

    /// Its limits.
    pub fn limits(&self) -> &Limits {
        &self.inner.limits
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        subscriptions::unregister(&self.inner);
        let ended = lifecycle::close(&self.inner);
        // Nothing can be prevented any more, so a veto is ignored.
        let event = ConnectionEvent::Closed(ended);
        let _ = self.inner.server.emit(&self.inner.info, &event);
    }
}

/// The test for whether the client can be sent unsolicited messages.
struct Reachable(Box<dyn Fn() -> bool + Send + Sync>);

impl std::fmt::Debug for Reachable {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Reachable")
    }
}

/// The state of a connection, shared with its running calls.
#[derive(Debug)]
pub(crate) struct ConnectionInner {
    pub(crate) server: Server,
    pub(crate) limits: Arc<Limits>,
    pub(crate) info: ConnectionInfo,
    pub(crate) output: Output,
    state: Mutex<State>,
    permits: Permits,
    /// Set if messages are signed.
    codec: Option<Arc<SigningCodec>>,
    /// Bytes of incomplete frames.
    partial_frames: Tally,
    rate: ConnectionRate,
    reachable: OnceLock<Reachable>,
    client: ClientRequests,
    tasks: TaskTracker,
}

/// The part of a connection's state that changes under one lock.
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

impl ConnectionInner {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Returns whether the connection's principal may use something.
    pub(crate) fn may(&self, kind: PermissionKind, name: &str) -> bool {
        self.server.may(&self.info.principal, kind, name)
    }

    /// Returns whether the connection's principal may use anything of a kind.
    pub(crate) fn may_any(&self, kind: PermissionKind) -> bool {
        let permissions = self.server.permissions();
        permissions.is_none_or(|rules| rules.of(&self.info.principal).may_any(kind))
    }

    /// The principal of messages on a route.
    pub(crate) fn principal_of<'a>(&'a self, route: &'a Route) -> &'a Principal {
        route.principal().unwrap_or(&self.info.principal)
    }

    /// Returns whether the client can be sent unsolicited messages.
    pub(crate) fn is_reachable(&self) -> bool {
        self.reachable.get().is_none_or(|test| (test.0)())
    }

    /// The minimum severity of log messages sent on this connection.
    pub(crate) fn log_level(&self) -> LogLevel {
        self.state().log_level
    }

    /// The revision of errors outside any request.
    fn revision(&self) -> Revision {
        self.state().lifecycle.peer().map_or(Revision::BASE, |peer| peer.revision)
    }

    /// Returns whether calls run one at a time, so that replies leave in order.
    fn is_sequential(&self) -> bool {
        self.limits.concurrency == 1
    }

    /// Returns whether a request must be parked: there is no permit, or replies are not being read.
    fn is_busy(&self) -> bool {
        self.permits.are_exhausted(&self.limits) || self.output.is_congested()
    }

    /// Answers with an error for what did not become a request.
    fn reject(&self, route: &Route, id: Option<&RequestId>, error: &RpcError) {
        let revision = self.revision();
        self.emit_error(error);
        self.output.reject(route, id, revision, error);
    }

    fn emit_error(&self, error: &RpcError) {
        tracing::debug!(name = error.name(), code = error.code(), "request rejected or failed");
        let _ = self.server.emit(&self.info, &ConnectionEvent::Error(error));
    }
}
