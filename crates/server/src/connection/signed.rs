//! Message signatures of one connection (MCP-073).

use std::sync::{Arc, OnceLock};

use mcp_flow_proto::{Incoming, Message, RpcError};
use mcp_flow_seal::envelope::{EnvelopeError, ServerChannel};

use super::{Connection, ConnectionInner, Route, lifecycle};
use crate::server::Server;
use crate::signing::{OpenedFrame, Signing, now, refusal};

/// The signing state of a connection.
#[derive(Debug)]
pub(super) struct Signed {
    signing: Signing,
    /// Set if the transport preserves the order of messages.
    in_order: bool,
    /// The channel to the client, once its first message has arrived.
    channel: OnceLock<Arc<ServerChannel>>,
}

impl Signed {
    pub(super) fn new(server: &Server, in_order: bool) -> Option<Arc<Self>> {
        let signing = server.signing()?.clone();
        Some(Arc::new(Self { signing, in_order, channel: OnceLock::new() }))
    }

    /// Signs what was written from `start` on. Before the client has proved that it has a key, there
    /// is no channel to bind a signature to, and only that error to send.
    pub(super) fn wrap(&self, out: &mut Vec<u8>, start: usize) {
        if let Some(channel) = self.channel.get() {
            channel.wrap(&self.signing.keys(), now(), out, start);
        }
    }

    fn open<'a>(&self, frame: &'a [u8]) -> Result<&'a [u8], EnvelopeError> {
        if !self.in_order {
            let opened = self.signing.open(frame)?;
            self.join(&opened)?;
            return Ok(opened.message());
        }
        if let Some(channel) = self.channel.get() {
            return channel.open_next(&self.signing.keys(), now(), frame);
        }
        let (channel, message) = self.signing.open_first(frame)?;
        // One task reads from an ordered transport, so there is no race.
        let _ = self.channel.set(channel);
        Ok(message)
    }

    /// Binds the connection to the channel of a frame; fails if it is bound to another.
    fn join(&self, opened: &OpenedFrame<'_>) -> Result<(), EnvelopeError> {
        let Some(channel) = opened.channel() else { return Ok(()) };
        let own = self.channel.get_or_init(|| channel.clone());
        if Arc::ptr_eq(own, channel) { Ok(()) } else { Err(EnvelopeError::Foreign) }
    }
}

impl Connection {
    /// Opens a frame of this connection. A rejected one is answered here; after a forged one an
    /// ordered connection closes.
    pub fn open_frame<'a>(&self, frame: &'a [u8]) -> Option<OpenedFrame<'a>> {
        open(&self.inner, frame).map(OpenedFrame::plain)
    }

    /// Checks that a frame opened by [`Server::open_frame`] belongs to this connection.
    pub fn join(&self, opened: &OpenedFrame<'_>) -> Result<(), RpcError> {
        let Some(signed) = &self.inner.signed else { return Ok(()) };
        signed.join(opened).map_err(refusal)
    }
}

/// Opens a frame of a connection; answers a rejected one.
pub(super) fn open<'a>(connection: &ConnectionInner, frame: &'a [u8]) -> Option<&'a [u8]> {
    let Some(signed) = &connection.signed else { return Some(frame) };
    let refused = match signed.open(frame) {
        Ok(message) => return Some(message),
        Err(refused) => refused,
    };
    // A client that does not sign learns so as the answer to its request.
    let id = match Incoming::decode(frame, connection.output.encoding()) {
        Ok(Incoming::Message(Message::Request(request))) => Some(request.id),
        _ => None,
    };
    connection.reject(&Route::default(), id.as_ref(), &refusal(refused));
    if signed.in_order && (refused != EnvelopeError::Unsigned || signed.channel.get().is_some()) {
        lifecycle::begin_closing(connection);
    }
    None
}

impl Server {
    /// Opens a frame before its connection is known, where messages arrive in any order. Dispatch it
    /// after [`Connection::join`].
    pub fn open_frame<'a>(&self, frame: &'a [u8]) -> Result<OpenedFrame<'a>, RpcError> {
        match self.signing() {
            Some(signing) => signing.open(frame).map_err(refusal),
            None => Ok(OpenedFrame::plain(frame)),
        }
    }
}
