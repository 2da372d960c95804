//! Dispatch: from messages to calls.
//!
//! Messages are dispatched strictly in the order they arrive; they may complete in another (C-17).
//! Notifications and responses are handled on arrival, and so is ping unless replies leave in
//! order. A request that finds no free permit is parked, and so is everything behind it.

use std::sync::Arc;

use mcp_flow_proto::error::{ACCESS_DENIED, DUPLICATE_ID, NOT_INITIALIZED, SHUTTING_DOWN};
use mcp_flow_proto::model::{CancelParams, RequestMeta};
use mcp_flow_proto::webtransport::StreamError;
use mcp_flow_proto::{
    Incoming, Message, Notification, Params, Request, RequestId, Response, Revision, RpcError,
    method,
};

use super::call::Call;
use super::calls::{Parked, ParkedWork, Stage, Waiting};
use super::codec::DecodedFrame;
use super::{ConnectionInner, Route, admission, batch, lifecycle, run, subscriptions};
use crate::event::ConnectionEvent;
use crate::handler::Handler;
use crate::identity::Peer;
use crate::input;
use crate::observe::Observation;
use crate::tap::MessageSender;
use crate::tool::{Tool, direct};

/// Dispatches the message or the batch of a frame.
pub(super) fn receive(connection: &Arc<ConnectionInner>, frame: DecodedFrame<'_>, route: Route) {
    connection.output.show_message(MessageSender::Client, frame.message);
    let route = route.traced(frame.trace);
    match frame.incoming {
        Incoming::Message(message) => dispatch_message(connection, message, frame.message, route),
        Incoming::Batch(batch) => batch::receive(connection, batch, &route),
    }
}

/// Dispatches one message; `frame` is its encoding, kept if it is parked.
pub(super) fn dispatch_message(
    connection: &Arc<ConnectionInner>,
    message: Message<'_>,
    frame: &[u8],
    route: Route,
) {
    emit_message(connection, &message);
    match message {
        Message::Request(request) => dispatch_request(connection, request, frame, route),
        Message::Notification(notification) => {
            handle_notification(connection, &notification);
            connection.output.skip(&route);
        }
        Message::Response(response) => {
            handle_response(connection, &response, &route);
            connection.output.skip(&route);
        }
    }
}

fn dispatch_request(
    connection: &Arc<ConnectionInner>,
    request: Request<'_>,
    frame: &[u8],
    route: Route,
) {
    if connection
        .info
        .side_channel
        .as_ref()
        .is_some_and(|side_channel| side_channel.is_open(&request.id))
    {
        let error = RpcError::new(DUPLICATE_ID)
            .details("This id belongs to a request whose streams are still open; use another.");
        return reject(connection, Some(&request.id), error, &route);
    }
    let mut state = connection.state();
    if state.calls.is_open(&request.id) || state.lifecycle.is_shutting_down_by(&request.id) {
        drop(state);
        let error = RpcError::new(DUPLICATE_ID)
            .details("This id belongs to a request that is still unanswered; use another.");
        return reject(connection, Some(&request.id), error, &route);
    }
    if state.lifecycle.is_ending() {
        drop(state);
        return connection.reject(&route, Some(&request.id), &shutting_down());
    }
    let must_park = state.calls.has_parked() || connection.is_busy();
    if must_park && !acts_on_arrival(connection, &request.method) {
        if let Err(error) = admission::check_memory(connection, &request.method) {
            drop(state);
            return reject(connection, Some(&request.id), error, &route);
        }
        let handshake = state.lifecycle.peer().map_or(Revision::BASE, |peer| peer.revision);
        let stateless = is_stateless(connection, &request);
        let waiting = Waiting {
            route: route.received_at(connection.output.send_position()),
            revision: if stateless { Revision::V2026_07_28 } else { handshake },
            cancellable: request.method != method::INITIALIZE,
        };
        return state.calls.park(request.id, frame, connection.output.encoding(), waiting);
    }
    drop(state);
    start_call(connection, request, route, frame.len());
}

/// Answers with an error, in its turn where replies leave in order.
pub(super) fn reject(
    connection: &ConnectionInner,
    id: Option<&RequestId>,
    error: RpcError,
    route: &Route,
) {
    let mut state = connection.state();
    if connection.is_sequential() && (state.calls.has_parked() || connection.is_busy()) {
        return state.calls.park_error(id.cloned(), error, route.clone());
    }
    drop(state);
    connection.reject(route, id, &error);
}

/// Starts parked requests as far as there are permits, sends due notifications, and closes the
/// connection if it has drained.
pub(super) fn advance(connection: &Arc<ConnectionInner>) {
    while !connection.is_busy() {
        // Not `while let`, which would hold the lock through the body.
        let Some(parked) = connection.state().calls.unpark() else { break };
        resume_parked(connection, parked, |request, route, size| {
            start_call(connection, request, route, size);
        });
    }
    subscriptions::send_notifications(connection);
    lifecycle::finish_closing(connection);
}

/// Answers parked requests with an error when the drain time is over.
pub(super) fn reject_parked(connection: &ConnectionInner) {
    loop {
        let Some(parked) = connection.state().calls.unpark() else { break };
        resume_parked(connection, parked, |request, route, _| {
            reject_request(
                connection,
                &route,
                &request.id,
                connection.revision(),
                &shutting_down(),
            );
        });
    }
}

/// Answers with a parked error, or passes a parked request on, unless it was cancelled meanwhile.
fn resume_parked(
    connection: &ConnectionInner,
    parked: Parked,
    serve: impl FnOnce(Request<'_>, Route, usize),
) {
    match parked.work {
        ParkedWork::Error(parked) => {
            let (id, error, route) = *parked;
            connection.reject(&route, id.as_ref(), &error);
        }
        ParkedWork::Request(frame, encoding) => {
            let decoded = Incoming::decode(&frame, encoding);
            let Ok(Incoming::Message(Message::Request(request))) = decoded else {
                unreachable!("only frames that hold a request are parked")
            };
            let route = connection.state().calls.begin(&request.id, parked.ticket);
            if let Some(route) = route {
                serve(request, route, frame.len());
            }
        }
    }
}

/// Starts a request that has its permit.
fn start_call(connection: &Arc<ConnectionInner>, request: Request<'_>, route: Route, size: usize) {
    let Request { id, method, params, meta } = request;
    let known_method = || match connection.server.router().name(&method) {
        None if method == method::SHUTDOWN => Some(method::SHUTDOWN),
        None if direct_tool(connection, &method).is_some() => Some(method::TOOLS_CALL),
        known => known,
    };
    let own = meta.as_ref().ok().and_then(|meta| meta.as_ref()?.trace.as_ref());
    let received = own.or_else(|| route.trace());
    let span = mcp_flow_telemetry::begin_call(received);
    let trace = || received.cloned();
    let tool = |name: &str| connection.server.find_tool(name);
    let observation = Observation::new(
        connection.server.detail_of(&method),
        &method,
        known_method,
        tool,
        params,
        trace,
        span.as_ref(),
        size,
    );
    let reject = |peer: Option<&Peer>, revision, error: &RpcError| {
        reject_request(connection, &route, &id, revision, error);
        if let Some(observation) = &observation {
            let (observers, principal) =
                (connection.server.observers(), connection.principal_of(&route));
            observation.report(observers, &connection.info, principal, peer, &id, None, Err(error));
        }
    };
    let (peer, meta) = match identify(connection, &method, params, meta) {
        Ok(identified) => identified,
        Err((error, revision)) => return reject(None, revision, &error),
    };
    let revision = peer.as_ref().map_or(Revision::BASE, |peer| peer.revision);
    if !connection.principal_of(&route).is_valid() {
        return reject(peer.as_deref(), revision, &credential_invalid());
    }
    if let Err(error) = admission::check(connection, &method, &route) {
        return reject(peer.as_deref(), revision, &error);
    }
    let handler = match find_handler(connection, &method, peer.as_deref(), &route) {
        Ok(handler) => handler,
        Err(error) => return reject(peer.as_deref(), revision, &error),
    };
    let call = Call::new(connection.clone(), id, route, peer, meta, span, size, observation);
    match handler {
        Target::Handler(handler) => run::run(call, &method, |context| {
            input::serve(context, &method, params, |context| handler.call(context, params))
        }),
        Target::Tool(tool) => {
            run::run(call, &method, |context| direct::call(context, tool, params));
        }
        Target::Shutdown => lifecycle::shut_down(connection, Some(call)),
    }
}

/// Determines the peer and revision of a request (C-21, C-52).
fn identify(
    connection: &ConnectionInner,
    method: &str,
    params: Params<'_>,
    meta: Result<Option<Box<RequestMeta>>, String>,
) -> Result<Identified, (RpcError, Revision)> {
    let handshake = connection.state().lifecycle.peer_of_request(method);
    let revision = handshake.as_ref().map_or(Revision::BASE, |peer| peer.revision);
    if !params.are_named() {
        return Err((RpcError::invalid_params("params must be an object"), revision));
    }
    let mut meta = meta.map_err(|details| (RpcError::invalid_params(details), revision))?;
    let may_be_stateless = connection.server.versions().serves_statelessly();
    let named = meta.as_mut().filter(|_| may_be_stateless);
    let peer = match named.and_then(|meta| Some((meta.protocol_version.take()?, meta))) {
        Some((version, meta)) => {
            let stateless = Revision::V2026_07_28;
            let peer = stateless_peer(connection, &version, meta);
            Some(Arc::new(peer.map_err(|error| (error, stateless))?))
        }
        None => handshake,
    };
    if let Some(meta) = meta.as_mut().filter(|_| connection.server.catalog_source().is_some()) {
        meta.others = RequestMeta::others(params);
    }
    Ok((peer, meta))
}

/// Reads the peer from the `_meta` of a stateless request.
fn stateless_peer(
    connection: &ConnectionInner,
    version: &str,
    meta: &mut RequestMeta,
) -> Result<Peer, RpcError> {
    let revision = Revision::from_name(version).filter(|revision| revision.is_stateless());
    let Some(revision) = revision else {
        let supported = connection.server.versions().supported_statelessly();
        let error = RpcError::unsupported_version(&version.into(), &supported);
        return Err(match Revision::from_name(version) {
            Some(_) => error.details("This revision begins with an initialize request."),
            None => error,
        });
    };
    let Some(capabilities) = meta.client_capabilities.take() else {
        return Err(RpcError::invalid_params(
            "_meta[\"io.modelcontextprotocol/clientCapabilities\"] is required",
        ));
    };
    Ok(Peer { revision, client: meta.client_info.take(), capabilities })
}

fn find_handler<'a>(
    connection: &'a ConnectionInner,
    method: &str,
    peer: Option<&Peer>,
    route: &Route,
) -> Result<Target<'a>, RpcError> {
    let router = connection.server.router();
    match peer {
        Some(peer) if method == method::SHUTDOWN && !peer.revision.is_stateless() => {
            Ok(Target::Shutdown)
        }
        Some(peer) => match router.find(method, peer.revision) {
            Some(handler) => Ok(Target::Handler(handler)),
            None if is_discovery(connection, method) => Err(needs_meta()),
            None => direct_tool(connection, method)
                .filter(|tool| may_call(connection, tool, route))
                .map(Target::Tool)
                .ok_or_else(|| RpcError::method_not_found(method)),
        },
        None if is_discovery(connection, method) => Err(needs_meta()),
        None => router.find_early(method).map(Target::Handler).ok_or_else(|| {
            RpcError::new(NOT_INITIALIZED).details("Send initialize before other requests.")
        }),
    }
}

/// Returns whether a method is `server/discover`, on a server that serves stateless requests.
fn is_discovery(connection: &ConnectionInner, method: &str) -> bool {
    method == method::SERVER_DISCOVER && connection.server.versions().serves_statelessly()
}

/// The tool to be called as a method. Methods of the server, in any revision, take precedence.
fn direct_tool(connection: &ConnectionInner, method: &str) -> Option<Arc<Tool>> {
    let direct = connection.server.direct();
    if direct.is_empty() || connection.server.router().name(method).is_some() {
        return None;
    }
    connection.server.find_tool(method).filter(|tool| direct.includes(tool))
}

fn may_call(connection: &ConnectionInner, tool: &Tool, route: &Route) -> bool {
    connection.server.may(connection.principal_of(route), tool.kind(), &tool.definition().name)
}

/// Handles a notification. Malformed and unknown ones are ignored (MCP-013).
fn handle_notification(connection: &ConnectionInner, notification: &Notification<'_>) {
    match &*notification.method {
        method::INITIALIZED => lifecycle::client_is_ready(connection),
        method::CANCELLED | method::CANCEL => {
            if let Some(params) = CancelParams::from_params(notification.params) {
                cancel(connection, &params, notification.method == method::CANCEL);
            }
        }
        method::SHUTDOWN_NOTIFICATION => lifecycle::shut_down(connection, None),
        method::EXIT => lifecycle::exit(connection),
        method::STREAM_ERROR => {
            if let Some(side_channel) = &connection.info.side_channel
                && let Some(error) = StreamError::from_params(notification.params)
            {
                side_channel.failed(&error);
            }
        }
        _ => {}
    }
}

/// Cancels a request; `answer` says whether it gets a reply, which depends on the notification
/// (C-12).
fn cancel(connection: &ConnectionInner, params: &CancelParams, answer: bool) {
    stop_call(connection, params, answer);
    // Side-channel deliveries may continue long after the reply.
    if let Some(side_channel) = &connection.info.side_channel {
        side_channel.cancelled(&params.request_id);
    }
    if let Some(datagrams) = &connection.info.datagrams {
        datagrams.discard(&params.request_id);
    }
}

fn stop_call(connection: &ConnectionInner, params: &CancelParams, answer: bool) {
    let id = &params.request_id;
    let Some(stage) = connection.state().calls.stop(id) else { return };
    let error = || RpcError::cancelled(id, params.reason.as_deref());
    match stage {
        Stage::Parked(Waiting { route, revision, .. }) if answer => {
            reject_request(connection, &route, id, revision, &error());
        }
        Stage::Parked(waiting) => connection.output.skip(&waiting.route),
        Stage::Running(running) => {
            if answer {
                running.call.complete(&Err(error()));
            } else {
                running.call.abandon();
            }
            running.stop();
        }
    }
    connection.output.wake();
}

/// Passes a response to the request it answers. Others are ignored.
fn handle_response(connection: &ConnectionInner, response: &Response<'_>, route: &Route) {
    if let Some(RequestId::Integer(id)) = response.id {
        let received = route.received().unwrap_or_else(|| connection.output.send_position());
        connection.client.resolve(id, response.outcome, received);
    }
}

/// Answers a request that did not become a call.
fn reject_request(
    connection: &ConnectionInner,
    route: &Route,
    id: &RequestId,
    revision: Revision,
    error: &RpcError,
) {
    connection.output.reply(route, id, revision, &Err(error.clone()), || true);
    connection.emit_error(error);
}

/// Returns whether a request is never parked. `shutdown` is answered after all others in any case.
fn acts_on_arrival(connection: &ConnectionInner, method: &str) -> bool {
    method == method::SHUTDOWN || method == method::PING && !connection.is_sequential()
}

/// Returns whether a request is stateless, and this server serves those.
pub(super) fn is_stateless(connection: &ConnectionInner, request: &Request<'_>) -> bool {
    request.is_stateless() && connection.server.versions().serves_statelessly()
}

fn emit_message(connection: &ConnectionInner, message: &Message<'_>) {
    let method = match message {
        Message::Request(request) => Some(&*request.method),
        Message::Notification(notification) => Some(&*notification.method),
        Message::Response(_) => None,
    };
    let _ = connection.server.emit(&connection.info, &ConnectionEvent::Message { method });
}

/// The peer, unless it has not initialized yet, and the `_meta` of the request.
type Identified = (Option<Arc<Peer>>, Option<Box<RequestMeta>>);

/// The target of a method.
enum Target<'a> {
    Handler(&'a Arc<dyn Handler>),
    /// A tool called as a method.
    Tool(Arc<Tool>),
    /// Concerns the connection itself, so it has no handler.
    Shutdown,
}

pub(super) fn shutting_down() -> RpcError {
    RpcError::new(SHUTTING_DOWN).details("The connection is shutting down; open another.")
}

/// The error for a credential that has expired or been revoked (C-46).
fn credential_invalid() -> RpcError {
    RpcError::new(ACCESS_DENIED)
        .details("The token of this connection is invalid, expired or revoked; connect again with a valid one.")
}

fn needs_meta() -> RpcError {
    RpcError::invalid_params(
        "server/discover needs params._meta[\"io.modelcontextprotocol/protocolVersion\"]",
    )
}
