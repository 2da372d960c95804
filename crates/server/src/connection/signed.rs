//! Signatures of one connection (MCP-073).

use std::sync::{Arc, OnceLock};

use mcp_flow_proto::{Incoming, Message, RpcError};
use mcp_flow_seal::envelope::{Channel, Refused};

use super::{Connection, Route, Shared};
use crate::server::Server;
use crate::signing::{OpenedFrame, Signing, now, refusal};

/// What a connection knows of signatures, where messages are signed.
#[derive(Debug)]
pub(super) struct Signed {
    signing: Signing,
    /// Whether the transport keeps messages in order.
    in_order: bool,
    /// The client's end, once its first message has come.
    channel: OnceLock<Arc<Channel>>,
}

impl Signed {
    pub(super) fn new(server: &Server, in_order: bool) -> Option<Arc<Self>> {
        let signing = server.signing()?.clone();
        Some(Arc::new(Self { signing, in_order, channel: OnceLock::new() }))
    }

    /// Signs what was written from `start` on. Before the client has shown that it has a key there
    /// is nothing to bind a signature to, and nothing to say but that.
    pub(super) fn wrap(&self, out: &mut Vec<u8>, start: usize) {
        if let Some(channel) = self.channel.get() {
            channel.wrap(&self.signing.keys(), now(), out, start);
        }
    }

    fn open<'a>(&self, frame: &'a [u8]) -> Result<&'a [u8], Refused> {
        if !self.in_order {
            let opened = self.signing.open(frame)?;
            self.join(&opened)?;
            return Ok(opened.message());
        }
        if let Some(channel) = self.channel.get() {
            return channel.open_next(&self.signing.keys(), now(), frame);
        }
        let (channel, message) = self.signing.open_first(frame)?;
        // One task reads from a transport with an order, so nobody was faster.
        let _ = self.channel.set(channel);
        Ok(message)
    }

    /// Binds the connection to the client's end, or says that it is bound to another.
    fn join(&self, opened: &OpenedFrame<'_>) -> Result<(), Refused> {
        let Some(channel) = opened.channel() else { return Ok(()) };
        let own = self.channel.get_or_init(|| channel.clone());
        if Arc::ptr_eq(own, channel) { Ok(()) } else { Err(Refused::Foreign) }
    }
}

impl Connection {
    /// Opens a frame that came by this connection. One that is refused is answered here; after one
    /// that somebody has touched a connection that keeps messages in order comes to its end.
    pub fn open_frame<'a>(&self, frame: &'a [u8]) -> Option<OpenedFrame<'a>> {
        self.shared.open(frame).map(OpenedFrame::plain)
    }

    /// Says whether a frame that [`Server::open_frame`] has opened may be taken up by this connection.
    pub fn join(&self, opened: &OpenedFrame<'_>) -> Result<(), RpcError> {
        let Some(signed) = &self.shared.signed else { return Ok(()) };
        signed.join(opened).map_err(refusal)
    }
}

impl Shared {
    pub(super) fn open<'a>(&self, frame: &'a [u8]) -> Option<&'a [u8]> {
        let Some(signed) = &self.signed else { return Some(frame) };
        let refused = match signed.open(frame) {
            Ok(message) => return Some(message),
            Err(refused) => refused,
        };
        // Whoever does not sign is to learn it as the answer to what it asked.
        let id = match Incoming::decode(frame, self.encoding()) {
            Ok(Incoming::Message(Message::Request(request))) => Some(request.id),
            _ => None,
        };
        self.refuse(&Route::default(), id.as_ref(), &refusal(refused));
        if signed.in_order && (refused != Refused::Unsigned || signed.channel.get().is_some()) {
            self.begin_ending();
        }
        None
    }
}

impl Server {
    /// Opens a frame before it is known to which connection it belongs, where messages come in any
    /// order. A connection takes it up after [`Connection::join`].
    pub fn open_frame<'a>(&self, frame: &'a [u8]) -> Result<OpenedFrame<'a>, RpcError> {
        match self.signing() {
            Some(signing) => signing.open(frame).map_err(refusal),
            None => Ok(OpenedFrame::plain(frame)),
        }
    }
}
