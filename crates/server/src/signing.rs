//! Signed messages: with keys that client and server share, nothing is changed on its way unseen
//! (MCP-073).
//!
//! This is one layer between frames and messages, the same for all transports: a frame is opened
//! before it is decoded, and what leaves is put into an envelope when it is queued. The form and
//! what it protects against are in [`seal::envelope`](mcp_flow_seal::envelope).

use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use mcp_flow_proto::RpcError;
use mcp_flow_proto::error::SIGNATURE_REFUSED;
use mcp_flow_seal::KeyRing;
use mcp_flow_seal::envelope::{Channel, Channels, MessageKeys, Refused};

use crate::input::random;

/// Has a server take signed messages alone, and sign its own. Cheap to clone; the keys may be
/// exchanged while it runs.
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
    channels: Channels,
}

impl Signing {
    /// How far the clocks of client and server may differ, unless something else is said.
    pub const WINDOW: Duration = Duration::from_secs(60);

    /// The first key of the ring signs; what any of them has signed is believed.
    pub fn new(ring: &KeyRing) -> Self {
        Self::within(ring, Self::WINDOW)
    }

    /// The same, for clocks that differ by so much at most. A message that is older than this when
    /// it comes is refused, where the order of messages does not show its age.
    pub fn within(ring: &KeyRing, window: Duration) -> Self {
        let window = u64::try_from(window.as_millis()).unwrap_or(u64::MAX / 4);
        let channels = Channels::new(window, now());
        Self { inner: Arc::new(Inner { keys: RwLock::new(MessageKeys::new(ring)), channels }) }
    }

    /// Exchanges the keys, from the next message on.
    pub fn replace(&self, ring: &KeyRing) {
        let keys = MessageKeys::new(ring);
        *self.inner.keys.write().unwrap_or_else(PoisonError::into_inner) = keys;
    }

    pub(crate) fn keys(&self) -> MessageKeys {
        self.inner.keys.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Opens a frame that may come by any connection, in any order.
    pub(crate) fn open<'a>(&self, frame: &'a [u8]) -> Result<Opened<'a>, Refused> {
        let sender = random().map_err(|_| Refused::TooMany)?;
        let (channel, message) = self.inner.channels.open(&self.keys(), now(), frame, || sender)?;
        Ok(Opened { message, channel: Some(channel) })
    }

    /// Opens the first frame of a connection that keeps them in order.
    pub(crate) fn open_first<'a>(
        &self,
        frame: &'a [u8],
    ) -> Result<(Arc<Channel>, &'a [u8]), Refused> {
        let sender = random().map_err(|_| Refused::TooMany)?;
        self.inner.channels.open_first(&self.keys(), now(), frame, || sender)
    }
}

/// A frame whose signature was checked, where there are signatures.
#[derive(Clone, Debug)]
pub struct Opened<'a> {
    message: &'a [u8],
    channel: Option<Arc<Channel>>,
}

impl<'a> Opened<'a> {
    /// A frame as it is, where nothing is signed or a connection has seen to it.
    pub(crate) fn plain(message: &'a [u8]) -> Self {
        Self { message, channel: None }
    }

    /// What was signed.
    pub fn message(&self) -> &'a [u8] {
        self.message
    }

    pub(crate) fn channel(&self) -> Option<&Arc<Channel>> {
        self.channel.as_ref()
    }

    /// Signs what answers it outside of a connection, such as a refusal; leaves it as it is where
    /// nothing is signed, and what is signed already.
    pub fn sign(&self, signing: Option<&Signing>, message: Vec<u8>) -> Vec<u8> {
        let mut message = message;
        if let (Some(channel), Some(signing)) = (&self.channel, signing)
            && !mcp_flow_seal::envelope::is_envelope(&message)
        {
            channel.wrap(&signing.keys(), now(), &mut message, 0);
        }
        message
    }
}

/// What whoever sent it is told.
pub(crate) fn refusal(refused: Refused) -> RpcError {
    let next = match refused {
        Refused::Unsigned => {
            "This server takes signed messages alone; give the client the key they share \
             (--signing-key-file)."
        }
        Refused::UnknownKey => "Give both ends the same key; the server reads its keys on SIGHUP.",
        Refused::Stale => "Set the clocks, and sign again.",
        Refused::TooMany => "Try again later.",
        _ => "Nothing was done. Look for what is between the two ends.",
    };
    RpcError::new(SIGNATURE_REFUSED).details(format!("The message is refused: {refused}. {next}"))
}

/// Milliseconds since 1970.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
