//! The server's end of all connections.
//!
//! What keeps a message from being good twice is that its channel is remembered together with the
//! numbers that have come, at least as long as the time it was signed at is believed. A channel
//! nobody remembers is one that is new, or one whose messages are too old by now.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::numbers::Numbers;
use super::{ChannelId, MessageKeys, Refused, SenderId, Side, Stamp};

/// The channels of all clients that were heard of lately, bounded in number.
#[derive(Debug)]
pub struct Channels {
    /// How far the time of a message may be from the time here, in milliseconds.
    window: u64,
    /// Since when anything is remembered.
    began: u64,
    most: usize,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    channels: HashMap<ChannelId, Arc<Channel>>,
    /// When it was last looked for those that can be forgotten.
    tidied: u64,
}

/// One client's connection, as the server sees it.
#[derive(Debug)]
pub struct Channel {
    id: ChannelId,
    sender: SenderId,
    sent: AtomicU64,
    came: Mutex<Numbers>,
    used: AtomicU64,
}

impl Channels {
    /// How many channels are remembered at most.
    pub const MOST: usize = 32_768;

    /// Believes messages that were signed within so many milliseconds before or after the time here.
    /// It is `began` now, in milliseconds since 1970.
    pub fn new(window: u64, began: u64) -> Self {
        Self { window, began, most: Self::MOST, known: Mutex::default() }
    }

    /// Remembers at most so many channels; no more are let in until some can be forgotten.
    #[must_use]
    pub fn most(mut self, most: usize) -> Self {
        self.most = most;
        self
    }

    /// Opens a message that may come by any connection, and in any order.
    ///
    /// The random bytes are asked for when the channel is new.
    pub fn open<'a>(
        &self,
        keys: &MessageKeys,
        now: u64,
        frame: &'a [u8],
        random: impl FnOnce() -> SenderId,
    ) -> Result<(Arc<Channel>, &'a [u8]), Refused> {
        let (stamp, message) = keys.open(Side::Client, frame)?;
        let channel = self.find(&stamp, now, random)?;
        channel.came().take(stamp.number)?;
        Ok((channel, message))
    }

    /// Opens the first message of a connection that keeps messages in order. The others are opened
    /// by the channel it gives.
    pub fn open_first<'a>(
        &self,
        keys: &MessageKeys,
        now: u64,
        frame: &'a [u8],
        random: impl FnOnce() -> SenderId,
    ) -> Result<(Arc<Channel>, &'a [u8]), Refused> {
        let (stamp, message) = keys.open(Side::Client, frame)?;
        // Nobody goes on elsewhere.
        if stamp.number > 0 {
            return Err(Refused::OutOfOrder { expected: 0, came: stamp.number });
        }
        let channel = self.find(&stamp, now, random)?;
        channel.came().take_next(stamp.number)?;
        Ok((channel, message))
    }

    fn find(
        &self,
        stamp: &Stamp,
        now: u64,
        random: impl FnOnce() -> SenderId,
    ) -> Result<Arc<Channel>, Refused> {
        if stamp.time.abs_diff(now) > self.window {
            return Err(Refused::Stale);
        }
        let mut known = self.known();
        if let Some(channel) = known.channels.get(&stamp.channel) {
            channel.used.fetch_max(now, Ordering::Relaxed);
            return Ok(channel.clone());
        }
        // Another process, or this one before it was started anew, may have taken this one up. What
        // begins a channel asks for nothing but who is there.
        if stamp.number > 0 && stamp.time < self.began {
            return Err(Refused::Stale);
        }
        self.tidy(&mut known, now);
        if known.channels.len() >= self.most {
            return Err(Refused::TooMany);
        }
        let channel = Arc::new(Channel {
            id: stamp.channel,
            sender: random(),
            sent: AtomicU64::new(0),
            came: Mutex::new(Numbers::new()),
            used: AtomicU64::new(now),
        });
        known.channels.insert(stamp.channel, channel.clone());
        Ok(channel)
    }

    /// Forgets channels that no connection has any more and whose messages are all too old.
    fn tidy(&self, known: &mut Known, now: u64) {
        // Not with every new one, even when it is full: all are looked at.
        if known.tidied.abs_diff(now) < (self.window / 16).max(1) {
            return;
        }
        known.tidied = now;
        // A message may be signed that far ahead, and is believed that long after.
        let kept = self.window.saturating_mul(2);
        known.channels.retain(|_, channel| {
            Arc::strong_count(channel) > 1 || channel.used.load(Ordering::Relaxed) + kept >= now
        });
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Channel {
    /// Opens the next message of a connection that keeps messages in order.
    ///
    /// No clock is asked: a connection may be slow, and nothing can be put between its messages.
    pub fn open_next<'a>(
        &self,
        keys: &MessageKeys,
        now: u64,
        frame: &'a [u8],
    ) -> Result<&'a [u8], Refused> {
        let (stamp, message) = keys.open(Side::Client, frame)?;
        if stamp.channel != self.id {
            return Err(Refused::Foreign);
        }
        self.came().take_next(stamp.number)?;
        self.used.fetch_max(now, Ordering::Relaxed);
        Ok(message)
    }

    /// Signs what `frame` holds from `start` on, as the next message of the server on this channel.
    pub fn wrap(&self, keys: &MessageKeys, now: u64, frame: &mut Vec<u8>, start: usize) {
        let number = self.sent.fetch_add(1, Ordering::Relaxed);
        let stamp = Stamp { time: now, channel: self.id, sender: self.sender, number };
        keys.wrap(Side::Server, &stamp, frame, start);
    }

    fn came(&self) -> MutexGuard<'_, Numbers> {
        self.came.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
