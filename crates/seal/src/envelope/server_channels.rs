//! Server side of all signed connections.
//!
//! A replay is detected because a channel is kept, with the sequence numbers received, at least as
//! long as the time of its messages is accepted. A channel that is not known is new, or its
//! messages are too old.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::replay_window::ReplayWindow;
use super::{ChannelId, EnvelopeError, MessageKeys, SenderId, Side, Stamp};

/// Channels of all clients seen recently, limited in number.
#[derive(Debug)]
pub struct ServerChannels {
    /// Allowed difference between the time of a message and the local clock, in milliseconds.
    window: u64,
    /// Time from which channels are known.
    began: u64,
    limit: usize,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    channels: HashMap<ChannelId, Arc<ServerChannel>>,
    /// Time of the last removal of expired channels.
    cleaned: u64,
}

/// Server side of one client's connection.
#[derive(Debug)]
pub struct ServerChannel {
    id: ChannelId,
    sender: SenderId,
    sent: AtomicU64,
    received: Mutex<ReplayWindow>,
    used: AtomicU64,
}

impl ServerChannels {
    /// Default limit on channels.
    pub const DEFAULT_LIMIT: usize = 32_768;

    /// Accepts messages signed within `window` milliseconds of the local clock. `began` is the
    /// current time, in milliseconds since the Unix epoch.
    pub fn new(window: u64, began: u64) -> Self {
        Self { window, began, limit: Self::DEFAULT_LIMIT, table: Mutex::default() }
    }

    /// Sets the limit on channels; past it, new ones are rejected until others expire.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Opens a message that may arrive on any connection and in any order.
    ///
    /// `random` is called if the channel is new.
    pub fn open<'a>(
        &self,
        keys: &MessageKeys,
        now: u64,
        frame: &'a [u8],
        random: impl FnOnce() -> SenderId,
    ) -> Result<(Arc<ServerChannel>, &'a [u8]), EnvelopeError> {
        let (stamp, message) = keys.open(Side::Client, frame)?;
        let channel = self.find(&stamp, now, random)?;
        channel.received.lock().accept(stamp.number)?;
        Ok((channel, message))
    }

    /// Opens the first message of a connection that keeps messages in order. The returned channel
    /// opens the others.
    pub fn open_first<'a>(
        &self,
        keys: &MessageKeys,
        now: u64,
        frame: &'a [u8],
        random: impl FnOnce() -> SenderId,
    ) -> Result<(Arc<ServerChannel>, &'a [u8]), EnvelopeError> {
        let (stamp, message) = keys.open(Side::Client, frame)?;
        // A channel cannot move to another connection.
        if stamp.number > 0 {
            return Err(EnvelopeError::OutOfOrder { expected: 0, came: stamp.number });
        }
        let channel = self.find(&stamp, now, random)?;
        channel.received.lock().accept_next(stamp.number)?;
        Ok((channel, message))
    }

    fn find(
        &self,
        stamp: &Stamp,
        now: u64,
        random: impl FnOnce() -> SenderId,
    ) -> Result<Arc<ServerChannel>, EnvelopeError> {
        if stamp.time.abs_diff(now) > self.window {
            return Err(EnvelopeError::Stale);
        }
        let mut table = self.table.lock();
        if let Some(channel) = table.channels.get(&stamp.channel) {
            channel.used.fetch_max(now, Ordering::Relaxed);
            return Ok(channel.clone());
        }
        // This process may have accepted it before a restart. The first message of a channel is a
        // handshake, which may be repeated.
        if stamp.number > 0 && stamp.time < self.began {
            return Err(EnvelopeError::Stale);
        }
        self.remove_expired(&mut table, now);
        if table.channels.len() >= self.limit {
            return Err(EnvelopeError::TooMany);
        }
        let channel = Arc::new(ServerChannel {
            id: stamp.channel,
            sender: random(),
            sent: AtomicU64::new(0),
            received: Mutex::new(ReplayWindow::new()),
            used: AtomicU64::new(now),
        });
        table.channels.insert(stamp.channel, channel.clone());
        Ok(channel)
    }

    /// Removes channels without a connection whose messages are all too old.
    fn remove_expired(&self, table: &mut Table, now: u64) {
        // Not for every new channel, since this visits all of them.
        if table.cleaned.abs_diff(now) < (self.window / 16).max(1) {
            return;
        }
        table.cleaned = now;
        // A message may be signed one window ahead, and is accepted one window later.
        let kept = self.window.saturating_mul(2);
        table.channels.retain(|_, channel| {
            Arc::strong_count(channel) > 1 || channel.used.load(Ordering::Relaxed) + kept >= now
        });
    }
}

impl ServerChannel {
    /// Opens the next message of a connection that keeps messages in order.
    ///
    /// The time of signing is not checked: a connection may be slow, and its sequence is complete.
    pub fn open_next<'a>(
        &self,
        keys: &MessageKeys,
        now: u64,
        frame: &'a [u8],
    ) -> Result<&'a [u8], EnvelopeError> {
        let (stamp, message) = keys.open(Side::Client, frame)?;
        if stamp.channel != self.id {
            return Err(EnvelopeError::Foreign);
        }
        self.received.lock().accept_next(stamp.number)?;
        self.used.fetch_max(now, Ordering::Relaxed);
        Ok(message)
    }

    /// Signs the message in `frame` from `start` on, as the next one of the server on this channel.
    pub fn wrap(&self, keys: &MessageKeys, now: u64, frame: &mut Vec<u8>, start: usize) {
        let number = self.sent.fetch_add(1, Ordering::Relaxed);
        let stamp = Stamp { time: now, channel: self.id, sender: self.sender, number };
        keys.wrap(Side::Server, &stamp, frame, start);
    }
}
