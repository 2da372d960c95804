//! Output of a connection: encodes messages and queues them on their route.
//!
//! Replies are encoded under the lock that orders messages, because a reply to `initialize` may
//! change the encoding of all that follow it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mcp_flow_proto::raw::EncodeError;
use mcp_flow_proto::{Encoding, RequestId, Revision, RpcError, excerpt, write};
use serde::Serialize;
use tokio::sync::Notify;

use super::codec::SigningCodec;
use super::outbound::{Hint, Outbound};
use super::{ConnectionInfo, Route, SendPosition, batch};
use crate::handler::Outcome;
use crate::limits::Limits;
use crate::revision::Dialect;
use crate::server::Server;
use crate::tap::{MessageSender, MessageTap};

/// The output of one connection, and the means to wake the task that drives it.
pub(crate) struct Output {
    pub(super) outbound: Outbound,
    is_cbor: AtomicBool,
    wake: Notify,
    dialect: Dialect,
    /// Unsent bytes from which on the client counts as not keeping up.
    congested_bytes: usize,
    connection: u64,
    transport: &'static str,
    tap: Option<Arc<dyn MessageTap>>,
}

impl Output {
    pub(super) fn new(
        server: &Server,
        info: &ConnectionInfo,
        limits: &Limits,
        codec: Option<Arc<SigningCodec>>,
    ) -> Self {
        Self {
            outbound: Outbound::new(server.load(), codec),
            is_cbor: AtomicBool::new(info.encoding == Encoding::Cbor),
            wake: Notify::new(),
            dialect: server.dialect(),
            congested_bytes: limits.outbound_bytes,
            connection: info.number,
            transport: info.transport,
            tap: server.tap().cloned(),
        }
    }

    /// The present encoding of messages, which the end of a handshake may change.
    pub(crate) fn encoding(&self) -> Encoding {
        if self.is_cbor.load(Ordering::Acquire) { Encoding::Cbor } else { Encoding::Json }
    }

    /// Returns whether the client reads more slowly than messages are queued.
    pub(crate) fn is_congested(&self) -> bool {
        self.outbound.bytes() >= self.congested_bytes
    }

    /// Returns whether so much is unsent that nothing more should be read.
    pub(super) fn is_full(&self) -> bool {
        self.outbound.bytes() >= 2 * self.congested_bytes
    }

    /// The present send position.
    pub(crate) fn send_position(&self) -> SendPosition {
        SendPosition::now(self.connection, self.outbound.taken())
    }

    /// Wakes the task that drives the connection.
    pub(crate) fn wake(&self) {
        self.wake.notify_one();
    }

    /// Waits to be woken.
    pub(super) async fn woken(&self) {
        self.wake.notified().await;
    }

    /// Sends the one reply to a request, if `claim` says it is the first, under the lock that
    /// orders it after all notifications of the same call. Returns what `claim` said.
    pub(super) fn reply(
        &self,
        route: &Route,
        id: &RequestId,
        revision: Revision,
        outcome: &Outcome,
        claim: impl FnOnce() -> bool,
    ) -> bool {
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
                let error = self.dialect.reword(error);
                write::error(out, self.encoding(), Some(id), &error, revision);
            }
        };
        let mut is_first = false;
        let claim = || {
            is_first = claim();
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
                    batch::gather(self, route, Some(reply));
                }
            }
        }
        is_first
    }

    /// Sends an error for what did not become a call, such as a malformed message.
    pub(super) fn reject(
        &self,
        route: &Route,
        id: Option<&RequestId>,
        revision: Revision,
        error: &RpcError,
    ) {
        let mut reply = Vec::new();
        write::error(&mut reply, self.encoding(), id, &self.dialect.reword(error), revision);
        if route.batch.is_some() {
            return batch::gather(self, route, Some(reply));
        }
        let hint = Hint::of_error(error, revision);
        self.send(route, hint, || true, |out| out.extend_from_slice(&reply));
        self.close_route(route);
    }

    /// Sends a notification.
    pub(super) fn notify(
        &self,
        route: &Route,
        method: &str,
        params: &impl Serialize,
    ) -> Result<(), EncodeError> {
        self.notify_if(route, method, params, || true)
    }

    /// Sends a notification, if `allowed` says so under the lock that orders messages.
    pub(super) fn notify_if(
        &self,
        route: &Route,
        method: &str,
        params: &impl Serialize,
        allowed: impl FnOnce() -> bool,
    ) -> Result<(), EncodeError> {
        let mut message = Vec::new();
        let encoding = self.encoding();
        write::notification(&mut message, encoding, method, params)?;
        // One that a handshake has overtaken is lost with its encoding.
        let allowed = || self.encoding() == encoding && allowed();
        self.send(route, message.len(), allowed, |out| out.extend_from_slice(&message));
        Ok(())
    }

    /// Sends a message, if `allowed` says so under the lock that orders messages.
    pub(super) fn send(
        &self,
        route: &Route,
        hint: impl Into<Hint>,
        allowed: impl FnOnce() -> bool,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        let write = |out: &mut Vec<u8>| {
            let before = out.len();
            write(out);
            self.show_message(MessageSender::Server, &out[before..]);
        };
        match &route.queue {
            None => {
                if self.outbound.push(hint, allowed, write) {
                    self.wake();
                }
            }
            Some(queue) => queue.push(hint, allowed, write),
        }
    }

    /// Records that a message has no reply.
    pub(super) fn skip(&self, route: &Route) {
        if route.batch.is_some() {
            batch::gather(self, route, None);
        } else {
            self.close_route(route);
        }
    }

    /// Records that nothing more is sent on a route.
    pub(super) fn close_route(&self, route: &Route) {
        if let Some(queue) = &route.queue {
            queue.close();
        }
    }

    /// Shows a message to the tap, and logs it at trace level.
    pub(super) fn show_message(&self, sender: MessageSender, message: &[u8]) {
        if let Some(tap) = &self.tap {
            tap.message(self.connection, sender, self.encoding(), message);
        }
        if tracing::enabled!(target: MESSAGES, tracing::Level::TRACE) {
            let direction = match sender {
                MessageSender::Client => "received",
                MessageSender::Server => "sent",
            };
            tracing::trace!(
                target: MESSAGES,
                connection = self.connection,
                transport = self.transport,
                bytes = message.len(),
                "{direction} {}",
                excerpt(message, self.encoding()),
            );
        }
    }
}

impl std::fmt::Debug for Output {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { connection, transport, .. } = self;
        write!(formatter, "Output({transport} {connection})")
    }
}

/// Target by which log lines of messages can be filtered.
const MESSAGES: &str = "mcp_flow::message";
