//! The client's end of one connection.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use super::numbers::Numbers;
use super::{ChannelId, MessageKeys, Refused, SenderId, Side, Stamp};

/// The client's end of one connection: signs what goes, and opens what comes.
///
/// ```
/// use mcp_flow_seal::envelope::{Caller, Channels, MessageKeys, Refused};
/// use mcp_flow_seal::{Key, KeyRing};
///
/// let keys = MessageKeys::new(&KeyRing::new(Key::from_bytes([7; 32])));
/// let caller = Caller::new(keys.clone(), [1; 16], [2; 8]);
/// let channels = Channels::new(60_000, 0);
///
/// let request = caller.wrap(1_000, b"{}".to_vec());
/// let (channel, message) = channels.open(&keys, 1_001, &request, || [3; 8]).unwrap();
/// assert_eq!(message, b"{}");
/// // The same bytes are good once.
/// assert_eq!(channels.open(&keys, 1_001, &request, || [3; 8]).unwrap_err(), Refused::Repeated);
///
/// let mut reply = b"[]".to_vec();
/// channel.wrap(&keys, 1_002, &mut reply, 0);
/// assert_eq!(caller.open(&reply), Ok(&b"[]"[..]));
/// ```
#[derive(Debug)]
pub struct Caller {
    keys: MessageKeys,
    channel: ChannelId,
    sender: SenderId,
    /// How many messages were signed.
    sent: Mutex<u64>,
    heard: Mutex<Heard>,
}

#[derive(Debug)]
struct Heard {
    /// Whether the transport keeps messages in order.
    in_order: bool,
    /// By who has counted them: servers that share one address count each for itself.
    numbers: HashMap<SenderId, Numbers>,
}

impl Caller {
    /// A connection named by random bytes, on a transport that keeps messages in order.
    pub fn new(keys: MessageKeys, channel: ChannelId, sender: SenderId) -> Self {
        let heard = Heard { in_order: true, numbers: HashMap::new() };
        Self { keys, channel, sender, sent: Mutex::new(0), heard: Mutex::new(heard) }
    }

    /// Says that messages of the server may overtake each other, as over HTTP.
    pub fn allow_any_order(&self) {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).in_order = false;
    }

    /// Signs a message at a time, in milliseconds since 1970. Whoever calls this sees to it that
    /// messages leave in the order in which they are signed.
    pub fn wrap(&self, now: u64, message: Vec<u8>) -> Vec<u8> {
        self.send(now, message, |frame| frame)
    }

    /// Signs a message and hands it on, before another can be signed: where messages are in order,
    /// so are their numbers.
    pub fn send<T>(&self, now: u64, message: Vec<u8>, hand_on: impl FnOnce(Vec<u8>) -> T) -> T {
        let mut frame = message;
        let mut sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        let Self { channel, sender, .. } = *self;
        let stamp = Stamp { time: now, channel, sender, number: *sent };
        *sent += 1;
        self.keys.wrap(Side::Client, &stamp, &mut frame, 0);
        hand_on(frame)
    }

    /// Opens a message of the server, if it answers on this connection and has not come before.
    ///
    /// No clock is asked: what belongs to this connection is no older than that.
    pub fn open<'a>(&self, frame: &'a [u8]) -> Result<&'a [u8], Refused> {
        let (stamp, message) = self.keys.open(Side::Server, frame)?;
        if stamp.channel != self.channel {
            return Err(Refused::Foreign);
        }
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        let most = if heard.in_order { 1 } else { MOST_SENDERS };
        if heard.numbers.len() >= most && !heard.numbers.contains_key(&stamp.sender) {
            return Err(Refused::TooMany);
        }
        let in_order = heard.in_order;
        let numbers = heard.numbers.entry(stamp.sender).or_insert_with(Numbers::new);
        match in_order {
            true => numbers.take_next(stamp.number)?,
            false => numbers.take(stamp.number)?,
        }
        Ok(message)
    }
}

/// How many servers, or times that one has forgotten the channel, are told apart on a connection.
const MOST_SENDERS: usize = 256;
