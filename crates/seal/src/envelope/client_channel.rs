//! Client side of a signed connection.

use std::collections::HashMap;

use parking_lot::Mutex;

use super::replay_window::ReplayWindow;
use super::{ChannelId, EnvelopeError, MessageKeys, SenderId, Side, Stamp};

/// Client side of one connection: signs what it sends, and opens what it receives.
///
/// ```
/// use mcp_flow_seal::envelope::{ClientChannel, ServerChannels, MessageKeys, EnvelopeError};
/// use mcp_flow_seal::{Key, KeyRing};
///
/// let keys = MessageKeys::new(&KeyRing::new(Key::from_bytes([7; 32])));
/// let caller = ClientChannel::new(keys.clone(), [1; 16], [2; 8]);
/// let channels = ServerChannels::new(60_000, 0);
///
/// let request = caller.wrap(1_000, b"{}".to_vec());
/// let (channel, message) = channels.open(&keys, 1_001, &request, || [3; 8]).unwrap();
/// assert_eq!(message, b"{}");
/// // The same bytes are accepted once.
/// assert_eq!(channels.open(&keys, 1_001, &request, || [3; 8]).unwrap_err(), EnvelopeError::Repeated);
///
/// let mut reply = b"[]".to_vec();
/// channel.wrap(&keys, 1_002, &mut reply, 0);
/// assert_eq!(caller.open(&reply), Ok(&b"[]"[..]));
/// ```
#[derive(Debug)]
pub struct ClientChannel {
    keys: MessageKeys,
    channel: ChannelId,
    sender: SenderId,
    /// Number of messages signed.
    sent: Mutex<u64>,
    received: Mutex<Received>,
}

#[derive(Debug)]
struct Received {
    /// Set if the transport keeps messages in order.
    in_order: bool,
    /// By sender: servers behind one address each have their own sequence.
    windows: HashMap<SenderId, ReplayWindow>,
}

impl ClientChannel {
    /// Creates a connection with random ids, on a transport that keeps messages in order.
    pub fn new(keys: MessageKeys, channel: ChannelId, sender: SenderId) -> Self {
        let received = Received { in_order: true, windows: HashMap::new() };
        Self { keys, channel, sender, sent: Mutex::new(0), received: Mutex::new(received) }
    }

    /// Allows messages of the server in any order, as over HTTP.
    pub fn allow_any_order(&self) {
        self.received.lock().in_order = false;
    }

    /// Signs a message at a time, in milliseconds since the Unix epoch. The caller must send
    /// messages in the order they were signed.
    pub fn wrap(&self, now: u64, message: Vec<u8>) -> Vec<u8> {
        self.send(now, message, |frame| frame)
    }

    /// Signs a message and passes it on before another can be signed, so that sequence numbers are
    /// in the order of sending.
    pub fn send<T>(&self, now: u64, message: Vec<u8>, send: impl FnOnce(Vec<u8>) -> T) -> T {
        let mut frame = message;
        let mut sent = self.sent.lock();
        let Self { channel, sender, .. } = *self;
        let stamp = Stamp { time: now, channel, sender, number: *sent };
        *sent += 1;
        self.keys.wrap(Side::Client, &stamp, &mut frame, 0);
        send(frame)
    }

    /// Opens a message of the server, if it belongs to this connection and was not received before.
    ///
    /// The time of signing is not checked: it cannot be older than the connection.
    pub fn open<'a>(&self, frame: &'a [u8]) -> Result<&'a [u8], EnvelopeError> {
        let (stamp, message) = self.keys.open(Side::Server, frame)?;
        if stamp.channel != self.channel {
            return Err(EnvelopeError::Foreign);
        }
        let mut received = self.received.lock();
        let limit = if received.in_order { 1 } else { SENDER_LIMIT };
        if received.windows.len() >= limit && !received.windows.contains_key(&stamp.sender) {
            return Err(EnvelopeError::TooMany);
        }
        let in_order = received.in_order;
        let window = received.windows.entry(stamp.sender).or_insert_with(ReplayWindow::new);
        match in_order {
            true => window.accept_next(stamp.number)?,
            false => window.accept(stamp.number)?,
        }
        Ok(message)
    }
}

/// Senders per connection: servers behind one address, and restarts of one.
const SENDER_LIMIT: usize = 256;
