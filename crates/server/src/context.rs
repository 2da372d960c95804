//! The handler's view of its call.
//!
//! A [`Context`] has the caller, the limits, the progress and the cancellation of one call, and reaches its
//! client. It does not complete the call: a handler returns a reply, and `connection::call` sends it.

mod reply;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use mcp_flow_proto::error::MISSING_CLIENT_CAPABILITY;
use mcp_flow_proto::model::{
    APP_MIME_TYPE, APPS_EXTENSION, LogLevel, LogMessage, Meta, TraceContext,
};
use mcp_flow_proto::webtransport::DatagramChannel;
use mcp_flow_proto::{Raw, RequestId, Revision, RpcError, method};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

pub use crate::connection::client::{Client, ClientError};

use crate::bulk::SideChannel;
use crate::connection::call::Call;
use crate::connection::{ConnectionInner, SendPosition};
use crate::datagram;
use crate::handler::Reply;
use crate::identity::{Peer, Principal};
use crate::input::Rounds;
use crate::limits::Limits;
use crate::permissions::PermissionKind;
use crate::server::Server;
use crate::tap::ConnectionTap;
use crate::tool::Tool;

/// One call, as its handler sees it. Cheap to clone and to move into tasks.
///
/// Completing the call is not its business: a handler returns a [`Reply`], and the connection sends
/// it.
#[derive(Clone, Debug)]
pub struct Context {
    call: Arc<Call>,
}

/// The state of a call that only its handler uses.
#[derive(Debug)]
pub(crate) struct HandlerState {
    log_level: Option<LogLevel>,
    trace: Option<Arc<TraceContext>>,
    meta: Meta,
    tool: OnceLock<Arc<Tool>>,
    /// Server that the call is forwarded to.
    upstream: OnceLock<Arc<str>>,
    /// Set if the tool is called as a method.
    direct: AtomicBool,
    /// The error that a failure of the call is answered with.
    failure: OnceLock<RpcError>,
    rounds: Rounds,
}

impl HandlerState {
    pub(crate) fn new(
        log_level: Option<LogLevel>,
        trace: Option<Arc<TraceContext>>,
        meta: Meta,
    ) -> Self {
        Self {
            log_level,
            trace,
            meta,
            tool: OnceLock::new(),
            upstream: OnceLock::new(),
            direct: AtomicBool::new(false),
            failure: OnceLock::new(),
            rounds: Rounds::default(),
        }
    }

    pub(crate) fn trace(&self) -> Option<&Arc<TraceContext>> {
        self.trace.as_ref()
    }

    pub(crate) fn upstream(&self) -> Option<&str> {
        self.upstream.get().map(|name| &**name)
    }
}

impl Context {
    pub(crate) fn new(call: Arc<Call>) -> Self {
        Self { call }
    }

    pub(crate) fn call(&self) -> &Arc<Call> {
        &self.call
    }

    /// The trace context of the call, for requests to others. Requests to the client carry it
    /// already.
    pub fn trace(&self) -> Option<&TraceContext> {
        self.call.handler.trace().map(|trace| &**trace)
    }

    /// The members of the request's `_meta` that the protocol does not define. Read only by a server
    /// with a [catalog source](crate::CatalogSource), which forwards them.
    pub fn meta(&self) -> &Meta {
        &self.call.handler.meta
    }

    /// Notes the server behind this one that the request is forwarded to, or would be, for observers.
    pub fn forwarded_to(&self, upstream: &str) {
        self.call.handler.upstream.get_or_init(|| upstream.into());
    }

    /// The id of the request.
    pub fn id(&self) -> &RequestId {
        &self.call.id
    }

    /// The send position when the request was received. To be called before the handler first waits: a request
    /// that is served at once is received when its handler is called.
    pub fn received(&self) -> SendPosition {
        self.call.route.received().unwrap_or_else(|| self.call.connection.output.send_position())
    }

    /// Number that identifies the connection among those that exist now.
    pub fn connection_number(&self) -> usize {
        Arc::as_ptr(&self.call.connection).addr()
    }

    /// Returns whether messages arrive in the order they were sent, none lost while the connection
    /// lasts.
    pub fn keeps_order(&self) -> bool {
        self.call.connection.info.in_order
    }

    /// The revision the request is written in.
    pub fn revision(&self) -> Revision {
        self.call.revision()
    }

    /// The client's own description; `None` only before `initialize`.
    pub fn peer(&self) -> Option<&Peer> {
        self.call.peer.as_deref()
    }

    /// The settings of an extension of the protocol, if the caller supports it: declared in the
    /// request itself, or at `initialize`.
    pub fn client_extension(&self, name: &str) -> Option<&Map<String, Value>> {
        self.peer()?.capabilities.extensions.get(name)
    }

    /// Returns whether the caller shows apps: HTML pages in which the results of tools are shown.
    pub fn shows_apps(&self) -> bool {
        let settings = self.client_extension(APPS_EXTENSION);
        let types = settings.and_then(|settings| settings.get("mimeTypes")?.as_array());
        types.is_some_and(|types| types.iter().any(|one| one == APP_MIME_TYPE))
    }

    /// Checks that the caller supports an extension; the error names it.
    pub fn require_client_extension(&self, name: &str) -> Result<(), RpcError> {
        if self.client_extension(name).is_some() {
            return Ok(());
        }
        let mut extensions = Map::new();
        extensions.insert(name.to_owned(), Map::new().into());
        let required = json!({"extensions": extensions});
        Err(RpcError::new(MISSING_CLIENT_CAPABILITY).with("requiredCapabilities", required))
    }

    /// The principal the call is made for.
    pub fn principal(&self) -> &Principal {
        self.call.principal()
    }

    /// Returns whether the access rules allow the caller to use something. What it may not use is
    /// hidden from it.
    pub fn may(&self, kind: PermissionKind, name: &str) -> bool {
        self.server().may(self.principal(), kind, name)
    }

    /// Returns whether the caller may use everything of a kind, so that names need not be checked.
    pub fn may_all(&self, kind: PermissionKind) -> bool {
        let permissions = self.server().permissions();
        permissions.is_none_or(|rules| rules.of(self.principal()).may_all(kind))
    }

    pub(crate) fn may_call(&self, tool: &Tool) -> bool {
        self.may(tool.kind(), &tool.definition().name)
    }

    /// The limits of the call's connection.
    pub fn limits(&self) -> &Limits {
        &self.call.connection.limits
    }

    /// The server that runs the call.
    pub fn server(&self) -> &Server {
        &self.call.connection.server
    }

    /// The tool that is called, if the call is one of a tool.
    pub fn tool(&self) -> Option<&Tool> {
        self.call.handler.tool.get().map(|tool| &**tool)
    }

    /// A value added by the transport or the application; the transport's takes precedence.
    pub fn state<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        let ConnectionInner { info, server, .. } = &*self.call.connection;
        info.extensions.get().or_else(|| server.extensions().get())
    }

    /// The side channel of the transport, if it has one.
    pub(crate) fn side_channel(&self) -> Option<&Arc<dyn SideChannel>> {
        self.call.connection.info.side_channel.as_ref()
    }

    /// The tap for content that is sent beside the messages of the connection.
    pub(crate) fn content_tap(&self) -> Option<ConnectionTap> {
        let tap = self.call.connection.server.tap()?.clone();
        Some(ConnectionTap { tap, connection: self.call.connection.info.number })
    }

    /// The connection of the call, without keeping it alive.
    pub(crate) fn connection(&self) -> Weak<ConnectionInner> {
        Arc::downgrade(&self.call.connection)
    }

    /// The rounds of the request (2026-07-28).
    pub(crate) fn rounds(&self) -> &Rounds {
        &self.call.handler.rounds
    }

    /// Fires when the call is cancelled. A pending future is dropped by itself; this is for blocking
    /// functions and for work handed to others.
    pub fn cancellation(&self) -> &CancellationToken {
        self.call.cancellation()
    }

    /// Returns whether the call is cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.call.is_cancelled()
    }

    /// Returns whether the caller asked for progress.
    pub fn wants_progress(&self) -> bool {
        self.call.progress.is_wanted()
    }

    /// Sends a progress notification, if the caller asked for them (C-45).
    ///
    /// Values that do not rise are dropped, and so are those after the reply or faster than the
    /// caller reads.
    pub fn progress(&self, progress: f64, total: Option<f64>, message: Option<&str>) {
        self.call.send_progress(progress, total, message);
    }

    /// Minimum level of the log messages that the client wants; none if it wants no messages.
    pub fn log_level(&self) -> Option<LogLevel> {
        match self.revision().is_stateless() {
            true => self.call.handler.log_level,
            false => Some(self.call.connection.log_level()),
        }
    }

    /// Sends a log message, if it is at least as severe as the caller asked for.
    pub fn log(&self, level: LogLevel, logger: Option<&str>, data: impl Into<Value>) {
        if self.log_level().is_some_and(|wanted| level >= wanted) {
            let data = data.into();
            let message = LogMessage { level, logger, data: &data };
            let by_datagram = || {
                let payload = self.call.connection.output.encoding().encode(&message);
                payload
                    .is_ok_and(|payload| datagram::send(&self.call, DatagramChannel::Log, &payload))
            };
            // Warnings must not be lost.
            if level >= LogLevel::Warning || !by_datagram() {
                self.call.notify(method::MESSAGE, &message, || true);
            }
        }
    }

    /// Closes the stream on which the caller reads this call's messages, while the call continues.
    /// The caller reconnects a little later and resumes, so that a long call need not hold a
    /// connection all the time.
    ///
    /// Only Streamable HTTP at 2025-11-25 has such streams; elsewhere nothing happens.
    pub fn close_stream(&self) {
        self.call.route.request_close();
    }

    /// Sends requests and notifications to the client while the call runs.
    pub fn client(&self) -> Client {
        Client::new(self.call.connection.clone(), Some(self.call.clone()))
    }

    /// Holds a value until the reply has been flushed, and drops it then. Unsolicited messages sent
    /// after that follow the reply. Holds one value at a time.
    pub fn hold_until_flushed(&self, value: impl Send + 'static) {
        self.call.hold_until_flushed(Box::new(value));
    }

    /// Calls a tool on behalf of this request.
    pub(crate) fn call_tool(&self, tool: Arc<Tool>, arguments: Raw<'_>) -> Reply {
        self.call.handler.tool.get_or_init(|| tool).call(self, arguments)
    }

    /// Calls a tool that was requested as a method.
    pub(crate) fn call_tool_directly(&self, tool: Arc<Tool>, arguments: Raw<'_>) -> Reply {
        self.call.handler.direct.store(true, Ordering::Relaxed);
        self.call_tool(tool, arguments)
    }

    /// Returns whether the tool is called as a method, so that its output is the result (C-18).
    pub fn is_direct(&self) -> bool {
        self.call.handler.direct.load(Ordering::Relaxed)
    }

    /// Sets the error that a failure of this call is answered with. The first one counts.
    pub(crate) fn fail_with(&self, error: RpcError) {
        let _ = self.call.handler.failure.set(error);
    }
}
