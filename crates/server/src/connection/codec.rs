//! The codec at the edge of a connection: frames to messages, and messages to frames.
//!
//! If keys are shared with the client (MCP-073), a frame is verified before it is decoded, and a
//! message is signed when it is queued, under the lock that numbers it. Dispatch and handlers see
//! neither. The keys are in [`signing`](crate::signing), the format of envelopes in
//! [`seal::envelope`](mcp_flow_seal::envelope).

use std::sync::{Arc, OnceLock};

use mcp_flow_proto::model::TraceContext;
use mcp_flow_proto::{Encoding, Incoming, InvalidMessage, Message, RequestId, RpcError};
use mcp_flow_seal::envelope::{EnvelopeError, ServerChannel, is_envelope};

use super::{Connection, ConnectionInner, Route, dispatch, lifecycle};
use crate::server::Server;
use crate::signing::{Signing, now, refusal};
use crate::tap::MessageSender;

/// A decoded frame. Its signature was verified, if messages are signed.
#[derive(Debug)]
pub struct DecodedFrame<'a> {
    pub(super) incoming: Incoming<'a>,
    /// The bytes of the message, without an envelope.
    pub(super) message: &'a [u8],
    signer: Option<ReplySigner>,
    /// The trace context beside the frame.
    pub(super) trace: Option<TraceContext>,
}

impl<'a> DecodedFrame<'a> {
    /// Sets the trace context that came beside the frame, as in the headers of a POST. It is that of
    /// requests whose `_meta` has none.
    #[must_use]
    pub fn traced(self, trace: Option<TraceContext>) -> Self {
        Self { trace, ..self }
    }

    /// The message, or the batch.
    pub fn incoming(&self) -> &Incoming<'a> {
        &self.incoming
    }

    /// Signs replies that are sent outside of a connection; `None` if messages are not signed.
    pub fn signer(&self) -> Option<ReplySigner> {
        self.signer.clone()
    }
}

/// A frame that was rejected before its connection was known.
#[derive(Debug)]
pub struct RejectedFrame {
    /// The id of the request, if it can be read, so that an unsigned client gets the error as the
    /// reply to its request.
    pub id: Option<RequestId>,
    /// The error to send.
    pub error: RpcError,
    /// Signs the error; `None` if messages are not signed, or if the sender has not proved that it
    /// has a key.
    pub signer: Option<ReplySigner>,
}

/// Signs replies to one frame that are sent outside of a connection, such as rejections.
#[derive(Clone, Debug)]
pub struct ReplySigner {
    signing: Signing,
    channel: Arc<ServerChannel>,
}

impl ReplySigner {
    /// Signs a reply. Leaves it as it is if a connection has signed it already.
    pub fn sign(&self, mut message: Vec<u8>) -> Vec<u8> {
        if !is_envelope(&message) {
            self.channel.wrap(&self.signing.keys(), now(), &mut message, 0);
        }
        message
    }
}

impl Server {
    /// Verifies and decodes a frame before its connection is known, where messages arrive in any
    /// order. The connection that receives it checks that it belongs there.
    pub fn decode_frame<'a>(&self, frame: &'a [u8]) -> Result<DecodedFrame<'a>, RejectedFrame> {
        let (message, signer) = match self.signing().map(|signing| (signing, signing.open(frame))) {
            None => (frame, None),
            Some((signing, Ok((channel, message)))) => {
                (message, Some(ReplySigner { signing: signing.clone(), channel }))
            }
            Some((_, Err(refused))) => {
                let id = request_id(frame, Encoding::Json);
                return Err(RejectedFrame { id, error: refusal(refused), signer: None });
            }
        };
        match Incoming::decode(message, Encoding::Json) {
            Ok(incoming) => Ok(DecodedFrame { incoming, message, signer, trace: None }),
            Err(InvalidMessage { id, error }) => Err(RejectedFrame { id, error, signer }),
        }
    }
}

impl Connection {
    /// Verifies and decodes a frame of this connection. A rejected one is answered here: an invalid
    /// message with the error that `explain` returns, given its bytes and the decoder's error. After a
    /// forged one an ordered connection closes.
    pub fn decode_frame<'a>(
        &self,
        frame: &'a [u8],
        explain: impl FnOnce(&'a [u8], InvalidMessage) -> InvalidMessage,
    ) -> Option<DecodedFrame<'a>> {
        let connection = &self.inner;
        let message = verify(connection, frame)?;
        match Incoming::decode(message, connection.output.encoding()) {
            Ok(incoming) => Some(DecodedFrame { incoming, message, signer: None, trace: None }),
            Err(invalid) => {
                connection.output.show_message(MessageSender::Client, message);
                let InvalidMessage { id, error } = explain(message, invalid);
                dispatch::reject(connection, id.as_ref(), error, &Route::default());
                None
            }
        }
    }
}

/// The signatures of a connection whose messages are signed.
#[derive(Debug)]
pub(super) struct SigningCodec {
    signing: Signing,
    /// Set if the transport preserves the order of messages.
    in_order: bool,
    /// The channel to the client, once its first message has arrived.
    channel: OnceLock<Arc<ServerChannel>>,
}

impl SigningCodec {
    pub(super) fn new(server: &Server, in_order: bool) -> Option<Arc<Self>> {
        let signing = server.signing()?.clone();
        Some(Arc::new(Self { signing, in_order, channel: OnceLock::new() }))
    }

    /// Signs what was written from `start` on. Before the client has proved that it has a key, there
    /// is no channel to bind a signature to, and only that error to send.
    pub(super) fn sign(&self, out: &mut Vec<u8>, start: usize) {
        if let Some(channel) = self.channel.get() {
            channel.wrap(&self.signing.keys(), now(), out, start);
        }
    }

    fn verify<'a>(&self, frame: &'a [u8]) -> Result<&'a [u8], EnvelopeError> {
        if !self.in_order {
            let (channel, message) = self.signing.open(frame)?;
            self.join(&channel)?;
            return Ok(message);
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
    fn join(&self, channel: &Arc<ServerChannel>) -> Result<(), EnvelopeError> {
        let own = self.channel.get_or_init(|| channel.clone());
        if Arc::ptr_eq(own, channel) { Ok(()) } else { Err(EnvelopeError::Foreign) }
    }
}

/// Checks that a frame decoded by [`Server::decode_frame`] was signed for this connection.
pub(super) fn join(connection: &ConnectionInner, frame: &DecodedFrame<'_>) -> Result<(), RpcError> {
    match (&connection.codec, &frame.signer) {
        (Some(codec), Some(signer)) => codec.join(&signer.channel).map_err(refusal),
        _ => Ok(()),
    }
}

/// Returns the message of a frame, if its signature is valid or none is needed; answers it otherwise.
fn verify<'a>(connection: &ConnectionInner, frame: &'a [u8]) -> Option<&'a [u8]> {
    let Some(codec) = &connection.codec else { return Some(frame) };
    let refused = match codec.verify(frame) {
        Ok(message) => return Some(message),
        Err(refused) => refused,
    };
    // A client that does not sign learns so as the answer to its request.
    let id = request_id(frame, connection.output.encoding());
    connection.reject(&Route::default(), id.as_ref(), &refusal(refused));
    if codec.in_order && (refused != EnvelopeError::Unsigned || codec.channel.get().is_some()) {
        lifecycle::begin_closing(connection);
    }
    None
}

fn request_id(frame: &[u8], encoding: Encoding) -> Option<RequestId> {
    match Incoming::decode(frame, encoding) {
        Ok(Incoming::Message(Message::Request(request))) => Some(request.id),
        _ => None,
    }
}
