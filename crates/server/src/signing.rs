//! Message signing with keys shared by client and server (MCP-073).
//!
//! This module owns the keys. `connection::codec` applies them, the same for all transports: a frame
//! is opened before it is decoded, and a message is put into an envelope when it is queued. The
//! envelope format and its threat model are in [`seal::envelope`](mcp_flow_seal::envelope).

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use mcp_flow_proto::RpcError;
use mcp_flow_proto::error::SIGNATURE_REFUSED;
use mcp_flow_seal::KeyRing;
use mcp_flow_seal::envelope::{EnvelopeError, MessageKeys, ServerChannel, ServerChannels};
use parking_lot::RwLock;

use crate::input::random;

/// Message signing of a server: it accepts only signed messages and signs its own. Cheap to clone;
/// the keys can be replaced while it runs.
///
/// ```
/// use mcp_flow_server::seal::{Key, KeyRing};
/// use mcp_flow_server::{Server, Signing};
///
/// // The bytes should come from the system's source of randomness.
/// let ring = KeyRing::new(Key::from_bytes([7; 32]));
/// let server = Server::builder("signed", "1.0.0").signing(Signing::new(&ring)).build().unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Signing {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    keys: RwLock<MessageKeys>,
    channels: ServerChannels,
}

impl Signing {
    /// The default tolerance between the clocks of client and server.
    pub const WINDOW: Duration = Duration::from_secs(60);

    /// Signs with the first key of the ring, and accepts signatures of all of them.
    pub fn new(ring: &KeyRing) -> Self {
        Self::within(ring, Self::WINDOW)
    }

    /// Like [`new`](Self::new), with another clock tolerance. Where the transport does not order
    /// messages, one older than this is rejected.
    pub fn within(ring: &KeyRing, window: Duration) -> Self {
        let window = u64::try_from(window.as_millis()).unwrap_or(u64::MAX / 4);
        let channels = ServerChannels::new(window, now());
        Self { inner: Arc::new(Inner { keys: RwLock::new(MessageKeys::new(ring)), channels }) }
    }

    /// Replaces the keys, from the next message on.
    pub fn replace(&self, ring: &KeyRing) {
        let keys = MessageKeys::new(ring);
        *self.inner.keys.write() = keys;
    }

    pub(crate) fn keys(&self) -> MessageKeys {
        self.inner.keys.read().clone()
    }

    /// Opens a frame that may arrive on any connection, in any order.
    pub(crate) fn open<'a>(
        &self,
        frame: &'a [u8],
    ) -> Result<(Arc<ServerChannel>, &'a [u8]), EnvelopeError> {
        let sender = random().map_err(|_| EnvelopeError::TooMany)?;
        self.inner.channels.open(&self.keys(), now(), frame, || sender)
    }

    /// Opens the first frame of a connection that keeps messages in order.
    pub(crate) fn open_first<'a>(
        &self,
        frame: &'a [u8],
    ) -> Result<(Arc<ServerChannel>, &'a [u8]), EnvelopeError> {
        let sender = random().map_err(|_| EnvelopeError::TooMany)?;
        self.inner.channels.open_first(&self.keys(), now(), frame, || sender)
    }
}

/// The error that the sender gets.
pub(crate) fn refusal(refused: EnvelopeError) -> RpcError {
    let next = match refused {
        EnvelopeError::Unsigned => {
            "This server accepts only signed messages; give the client the shared key \
             (--signing-key-file)."
        }
        EnvelopeError::UnknownKey => {
            "Give both ends the same key; the server reads its keys on SIGHUP."
        }
        EnvelopeError::Stale => "Set the clocks, and sign again.",
        EnvelopeError::TooMany => "Try again later.",
        _ => "Nothing was executed. Check for a proxy that alters messages.",
    };
    RpcError::new(SIGNATURE_REFUSED).details(format!("The message is refused: {refused}. {next}"))
}

/// Milliseconds since the Unix epoch.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
