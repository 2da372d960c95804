//! What all connections of a server hold together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes that clients make a server hold: bodies and frames on their way in, requests that run or
/// wait, replies that are not read yet. A handle; clones are the same.
///
/// Past [`Limits::memory`](crate::Limits::memory) requests are refused until there is room again.
///
/// ```
/// use mcp_flow_server::load::Load;
///
/// let load = Load::default();
/// let mut body = load.hold(1000);
/// body.grow(500);
/// assert_eq!(load.bytes(), 1500);
/// drop(body);
/// assert_eq!(load.bytes(), 0);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Load(Arc<AtomicUsize>);

impl Load {
    /// How much is held at the moment.
    pub fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Whether a message may be held of which so much has come, where so much may be held in all.
    /// Short ones always may: they are read at once anyway, and answered.
    pub fn has_room_for(&self, bytes: usize, memory: usize) -> bool {
        bytes <= SHORT || self.bytes() <= memory
    }

    /// Counts so many bytes for as long as the value returned lives.
    pub fn hold(&self, bytes: usize) -> Held {
        self.add(bytes);
        Held { load: self.clone(), bytes }
    }

    fn add(&self, bytes: usize) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }

    fn remove(&self, bytes: usize) {
        self.0.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Bytes that are counted until this is dropped.
#[derive(Debug)]
pub struct Held {
    load: Load,
    bytes: usize,
}

impl Held {
    /// Counts more.
    pub fn grow(&mut self, bytes: usize) {
        self.load.add(bytes);
        self.bytes += bytes;
    }

    /// How many are counted.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.load.remove(self.bytes);
    }
}

const SHORT: usize = 64 * 1024;

/// Bytes of one connection, which are also among those of all.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    own: AtomicUsize,
    load: Load,
}

impl Tally {
    pub(crate) fn new(load: &Load) -> Self {
        Self { own: AtomicUsize::new(0), load: load.clone() }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.own.load(Ordering::Acquire)
    }

    pub(crate) fn add(&self, bytes: usize) {
        self.own.fetch_add(bytes, Ordering::AcqRel);
        self.load.add(bytes);
    }

    /// Counts so many and no more.
    pub(crate) fn set(&self, bytes: usize) {
        let before = self.own.swap(bytes, Ordering::AcqRel);
        if before != bytes {
            self.load.add(bytes);
            self.load.remove(before);
        }
    }

    pub(crate) fn remove(&self, bytes: usize) {
        self.own.fetch_sub(bytes, Ordering::AcqRel);
        self.load.remove(bytes);
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        self.load.remove(*self.own.get_mut());
    }
}
