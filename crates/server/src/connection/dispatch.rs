//! Frames in, work out: the main path.
//!
//! Messages are taken up strictly in the order they came; what differs is when they finish
//! (C-17). Notifications and responses act on arrival, and so does ping unless replies leave in
//! order. A request that finds no free place waits, and everything behind it waits too.

use std::sync::Arc;

use mcp_flow_proto::error::{ACCESS_DENIED, DUPLICATE_ID, NOT_INITIALIZED, SHUTTING_DOWN};
use mcp_flow_proto::model::{CancelParams, RequestMeta};
use mcp_flow_proto::webtransport::StreamError;
use mcp_flow_proto::{
    Incoming, Message, Notification, Params, Request, RequestId, Response, Revision, RpcError,
    excerpt, method,
};

use super::calls::{Parked, ParkedWork, Stage, Waiting};
use super::{Route, Shared};
use crate::context::Context;
use crate::event::ConnectionEvent;
use crate::handler::Handler;
use crate::identity::Peer;
use crate::input;
use crate::observe::Observation;
use crate::tool::{Tool, direct};

impl Shared {
    /// Answers one frame: decode, then take up what it holds.
    pub(super) fn receive(self: &Arc<Self>, frame: &[u8], route: Route) {
        match Incoming::decode(frame, self.encoding()) {
            Ok(incoming) => self.receive_decoded(incoming, frame, route),
            Err(refusal) => {
                self.log_message("received", frame);
                self.take_up_fault(refusal.id.as_ref(), refusal.error, &route);
            }
        }
    }

    /// Logs a message, where that is asked for.
    pub(super) fn log_message(&self, what: &'static str, message: &[u8]) {
        if tracing::enabled!(target: MESSAGES, tracing::Level::TRACE) {
            tracing::trace!(
                target: MESSAGES,
                connection = self.info.number,
                transport = self.info.transport,
                bytes = message.len(),
                "{what} {}",
                excerpt(message, self.encoding()),
            );
        }
    }

    /// Takes up what a frame holds.
    pub(super) fn receive_decoded(
        self: &Arc<Self>,
        incoming: Incoming<'_>,
        frame: &[u8],
        route: Route,
    ) {
        self.log_message("received", frame);
        match incoming {
            Incoming::Message(message) => self.take_up(message, frame, route),
            Incoming::Batch(batch) => self.receive_batch(batch, &route),
        }
    }

    /// Takes up one message; `frame` is what it was decoded from, kept if it must wait.
    pub(super) fn take_up(self: &Arc<Self>, message: Message<'_>, frame: &[u8], route: Route) {
        self.raise_message(&message);
        match message {
            Message::Request(request) => self.take_up_request(request, frame, route),
            Message::Notification(notification) => {
                self.notice(&notification);
                self.skip(&route);
            }
            Message::Response(response) => {
                self.settle_response(&response);
                self.skip(&route);
            }
        }
    }

    fn take_up_request(self: &Arc<Self>, request: Request<'_>, frame: &[u8], route: Route) {
        if self.info.side_channel.as_ref().is_some_and(|side_channel| side_channel.is_open(&request.id)) {
            let error = RpcError::new(DUPLICATE_ID)
                .details("This id belongs to a request whose streams are still open; use another.");
            return self.take_up_fault(Some(&request.id), error, &route);
        }
        let mut state = self.state();
        if state.calls.is_open(&request.id) || state.lifecycle.is_shutting_down_by(&request.id) {
            drop(state);
            let error = RpcError::new(DUPLICATE_ID)
                .details("This id belongs to a request that is still unanswered; use another.");
            return self.take_up_fault(Some(&request.id), error, &route);
        }
        if state.lifecycle.is_ending() {
            drop(state);
            return self.refuse(&route, Some(&request.id), &shutting_down());
        }
        let must_wait = state.calls.has_parked() || self.is_busy();
        if must_wait && !self.acts_on_arrival(&request.method) {
            if let Err(error) = self.has_room(&request.method) {
                drop(state);
                return self.take_up_fault(Some(&request.id), error, &route);
            }
            let handshake = state.lifecycle.peer().map_or(Revision::BASE, |peer| peer.revision);
            let stateless = self.stands_alone(&request);
            let waiting = Waiting {
                route: route.received_at(self.moment()),
                revision: if stateless { Revision::V2026_07_28 } else { handshake },
                cancellable: request.method != method::INITIALIZE,
            };
            return state.calls.park(request.id, frame, self.encoding(), waiting);
        }
        drop(state);
        self.start(request, route, frame.len());
    }

    /// Answers an error, in its turn where order matters.
    pub(super) fn take_up_fault(&self, id: Option<&RequestId>, error: RpcError, route: &Route) {
        let mut state = self.state();
        if self.is_in_order() && (state.calls.has_parked() || self.is_busy()) {
            return state.calls.park_fault(id.cloned(), error, route.clone());
        }
        drop(state);
        self.refuse(route, id, &error);
    }

    /// Starts what has waited, as far as there are places, and ends what is due to end.
    pub(super) fn advance(self: &Arc<Self>) {
        while !self.is_busy() {
            // Not `while let`, which would hold the lock through the body.
            let Some(parked) = self.state().calls.unpark() else { break };
            self.end_wait(parked, |request, route, size| self.start(request, route, size));
        }
        self.tell_news();
        self.settle();
    }

    /// Answers what still waits when there is no more time for it.
    pub(super) fn give_up_parked(&self) {
        loop {
            let Some(parked) = self.state().calls.unpark() else { break };
            self.end_wait(parked, |request, route, _| {
                self.reply_now(&route, &request.id, self.revision(), &shutting_down());
            });
        }
    }

    /// Answers an error whose turn it is, or does with a request what is to be done, unless it was
    /// cancelled meanwhile.
    fn end_wait(&self, parked: Parked, go_on: impl FnOnce(Request<'_>, Route, usize)) {
        match parked.work {
            ParkedWork::Fault(fault) => {
                let (id, error, route) = *fault;
                self.refuse(&route, id.as_ref(), &error);
            }
            ParkedWork::Request(frame, encoding) => {
                let decoded = Incoming::decode(&frame, encoding);
                let Ok(Incoming::Message(Message::Request(request))) = decoded else {
                    unreachable!("only frames that hold a request are parked")
                };
                let route = self.state().calls.begin(&request.id, parked.ticket);
                if let Some(route) = route {
                    go_on(request, route, frame.len());
                }
            }
        }
    }

    /// Runs one request that has its place.
    fn start(self: &Arc<Self>, request: Request<'_>, route: Route, size: usize) {
        let Request { id, method, params, meta } = request;
        let known = || match self.server.router().name(&method) {
            None if method == method::SHUTDOWN => Some(method::SHUTDOWN),
            None if self.direct_tool(&method).is_some() => Some(method::TOOLS_CALL),
            known => known,
        };
        let trace = || meta.as_ref().ok()?.as_ref()?.trace.clone();
        let tool = |name: &str| self.server.find_tool(name);
        let observation = Observation::new(self.server.detail(), &method, known, tool, params, trace, size);
        let refuse = |peer: Option<&Peer>, revision, error: &RpcError| {
            self.reply_now(&route, &id, revision, error);
            if let Some(observation) = &observation {
                let (observers, principal) = (self.server.observers(), self.principal_of(&route));
                observation.report(observers, &self.info, principal, peer, &id, Err(error));
            }
        };
        let (peer, meta) = match self.identify(&method, params, meta) {
            Ok(identified) => identified,
            Err((error, revision)) => return refuse(None, revision, &error),
        };
        let revision = peer.as_ref().map_or(Revision::BASE, |peer| peer.revision);
        if !self.principal_of(&route).is_valid() {
            return refuse(peer.as_deref(), revision, &lapsed());
        }
        if let Err(error) = self.admit(&method, &route) {
            return refuse(peer.as_deref(), revision, &error);
        }
        let handler = match self.find(&method, peer.as_deref(), &route) {
            Ok(handler) => handler,
            Err(error) => return refuse(peer.as_deref(), revision, &error),
        };
        let context = Context::new(self.clone(), id, route, peer, meta, size, observation);
        match handler {
            Found::Handler(handler) => self.run(&context, |context| {
                input::serve(context, &method, params, |context| handler.call(context, params))
            }),
            Found::Tool(tool) => self.run(&context, |context| direct::call(context, tool, params)),
            Found::Shutdown => self.shut_down(Some(context)),
        }
    }

    /// Settles on whose behalf and under which revision a request runs (C-21, C-52).
    fn identify(
        &self,
        method: &str,
        params: Params<'_>,
        meta: Result<Option<Box<RequestMeta>>, String>,
    ) -> Result<Identified, (RpcError, Revision)> {
        let handshake = self.state().lifecycle.peer_taking_up(method);
        let revision = handshake.as_ref().map_or(Revision::BASE, |peer| peer.revision);
        if !params.are_named() {
            return Err((RpcError::invalid_params("params must be an object"), revision));
        }
        let mut meta = meta.map_err(|details| (RpcError::invalid_params(details), revision))?;
        let may_stand_alone = self.server.versions().serves_statelessly();
        let named = meta.as_mut().filter(|_| may_stand_alone);
        let peer = match named.and_then(|meta| Some((meta.protocol_version.take()?, meta))) {
            Some((version, meta)) => {
                let stateless = Revision::V2026_07_28;
                let peer = self.stateless_peer(&version, meta);
                Some(Arc::new(peer.map_err(|error| (error, stateless))?))
            }
            None => handshake,
        };
        Ok((peer, meta))
    }

    /// Reads who asks from a request that stands alone.
    fn stateless_peer(&self, version: &str, meta: &mut RequestMeta) -> Result<Peer, RpcError> {
        let revision = Revision::from_name(version).filter(|revision| revision.is_stateless());
        let Some(revision) = revision else {
            let supported = self.server.versions().supported_statelessly();
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

    fn find(
        &self,
        method: &str,
        peer: Option<&Peer>,
        route: &Route,
    ) -> Result<Found<'_>, RpcError> {
        let router = self.server.router();
        match peer {
            Some(peer) if method == method::SHUTDOWN && !peer.revision.is_stateless() => {
                Ok(Found::Shutdown)
            }
            Some(peer) => match router.find(method, peer.revision) {
                Some(handler) => Ok(Found::Handler(handler)),
                None if self.discovers(method) => Err(needs_meta()),
                None => self
                    .direct_tool(method)
                    .filter(|tool| self.may_call(tool, route))
                    .map(Found::Tool)
                    .ok_or_else(|| RpcError::method_not_found(method)),
            },
            None if self.discovers(method) => Err(needs_meta()),
            None => router.find_early(method).map(Found::Handler).ok_or_else(|| {
                RpcError::new(NOT_INITIALIZED).details("Send initialize before other requests.")
            }),
        }
    }

    /// Returns whether a method is `server/discover`, on a server that has something to discover.
    fn discovers(&self, method: &str) -> bool {
        method == method::SERVER_DISCOVER && self.server.versions().serves_statelessly()
    }

    /// The tool that is called as a method of its own. What is a method of the server under any
    /// revision is never a tool.
    fn direct_tool(&self, method: &str) -> Option<Arc<Tool>> {
        let direct = self.server.direct();
        if direct.is_empty() || self.server.router().name(method).is_some() {
            return None;
        }
        self.server.find_tool(method).filter(|tool| direct.includes(tool))
    }

    fn may_call(&self, tool: &Tool, route: &Route) -> bool {
        self.server.may(self.principal_of(route), tool.kind(), &tool.definition().name)
    }

    /// Acts on a notification. Faulty and unknown ones are ignored (MCP-013).
    fn notice(&self, notification: &Notification<'_>) {
        match &*notification.method {
            method::INITIALIZED => self.client_is_ready(),
            method::CANCELLED | method::CANCEL => {
                if let Some(cancel) = CancelParams::from_params(notification.params) {
                    self.cancel(&cancel, notification.method == method::CANCEL);
                }
            }
            method::SHUTDOWN_NOTIFICATION => self.shut_down(None),
            method::EXIT => self.exit(),
            method::STREAM_ERROR => {
                if let Some(side_channel) = &self.info.side_channel
                    && let Some(error) = StreamError::from_params(notification.params)
                {
                    side_channel.failed(&error);
                }
            }
            _ => {}
        }
    }

    /// Stops a request; whether its sender hears of it depends on how it asked (C-12).
    fn cancel(&self, cancel: &CancelParams, answer: bool) {
        self.stop(cancel, answer);
        // What travels beside the messages may be under way long after the reply.
        if let Some(side_channel) = &self.info.side_channel {
            side_channel.cancelled(&cancel.request_id);
        }
        if let Some(datagrams) = &self.info.datagrams {
            datagrams.discard(&cancel.request_id);
        }
    }

    fn stop(&self, cancel: &CancelParams, answer: bool) {
        let id = &cancel.request_id;
        let Some(stage) = self.state().calls.stop(id) else { return };
        let error = || RpcError::cancelled(id, cancel.reason.as_deref());
        match stage {
            Stage::Parked(Waiting { route, revision, .. }) if answer => {
                self.reply_now(&route, id, revision, &error());
            }
            Stage::Parked(waiting) => self.skip(&waiting.route),
            Stage::Running(call) => {
                if answer {
                    call.context.finish(&Err(error()));
                } else {
                    call.context.abandon();
                }
                call.stop();
            }
        }
        self.wake.notify_one();
    }

    /// Hands a response to whoever asked. One that nobody asked for is ignored.
    fn settle_response(&self, response: &Response<'_>) {
        if let Some(RequestId::Integer(id)) = response.id {
            self.client.settle(id, response.outcome);
        }
    }

    /// Answers a request that never became a call.
    fn reply_now(&self, route: &Route, id: &RequestId, revision: Revision, error: &RpcError) {
        self.reply(route, id, revision, &Err(error.clone()), || true);
        self.raise_error(error);
    }

    /// Notes that a message has no reply.
    pub(crate) fn skip(&self, route: &Route) {
        if route.batch.is_some() {
            self.gather(route, None);
        } else {
            self.close_route(route);
        }
    }

    pub(crate) fn is_in_order(&self) -> bool {
        self.limits.concurrency == 1
    }

    /// Returns whether a request is never kept waiting behind others. `shutdown` is answered after all of
    /// them in any case.
    fn acts_on_arrival(&self, method: &str) -> bool {
        method == method::SHUTDOWN || method == method::PING && !self.is_in_order()
    }

    /// Returns whether a request is one of a revision without a handshake, and this server serves those.
    pub(super) fn stands_alone(&self, request: &Request<'_>) -> bool {
        request.is_stateless() && self.server.versions().serves_statelessly()
    }

    fn raise_message(&self, message: &Message<'_>) {
        let method = match message {
            Message::Request(request) => Some(&*request.method),
            Message::Notification(notification) => Some(&*notification.method),
            Message::Response(_) => None,
        };
        let _ = self.server.raise(&self.info, &ConnectionEvent::Message { method });
    }
}

/// Who asks, unless it is too early to know, and what came along with the request.
type Identified = (Option<Arc<Peer>>, Option<Box<RequestMeta>>);

enum Found<'a> {
    Handler(&'a Arc<dyn Handler>),
    /// A tool, called as a method of its own.
    Tool(Arc<Tool>),
    /// Not a handler's business: it is about the connection itself.
    Shutdown,
}

pub(super) fn shutting_down() -> RpcError {
    RpcError::new(SHUTTING_DOWN).details("The connection is shutting down; open another.")
}

/// The credential the connection was opened with is good no more (C-46).
fn lapsed() -> RpcError {
    RpcError::new(ACCESS_DENIED)
        .details("The token of this connection is invalid, expired or revoked; connect again with a valid one.")
}

fn needs_meta() -> RpcError {
    RpcError::invalid_params(
        "server/discover needs params._meta[\"io.modelcontextprotocol/protocolVersion\"]",
    )
}

/// By which log lines of messages can be told from others.
const MESSAGES: &str = "mcp_flow::message";
