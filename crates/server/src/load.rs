//! Memory accounting over all connections of a server.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes that clients make a server hold: bodies and frames being received, requests that run or
/// wait, replies not yet read. A handle; clones share one counter.
///
/// Past [`Limits::memory`](crate::Limits::memory) requests are rejected until memory is free again.
///
/// ```
/// use mcp_flow_server::load::Load;
///
/// let load = Load::default();
/// let mut body = load.count(1000);
/// body.grow(500);
/// assert_eq!(load.bytes(), 1500);
/// drop(body);
/// assert_eq!(load.bytes(), 0);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Load(Arc<AtomicUsize>);

impl Load {
    /// The number of bytes held now.
    pub fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Returns whether a message of which this many bytes have arrived may be held, under this
    /// total limit. Short messages always may: they are handled at once.
    pub fn has_room_for(&self, bytes: usize, memory: usize) -> bool {
        bytes <= SHORT || self.bytes() <= memory
    }

    /// Counts bytes for as long as the returned value lives.
    pub fn count(&self, bytes: usize) -> CountedBytes {
        self.add(bytes);
        CountedBytes { load: self.clone(), bytes }
    }

    fn add(&self, bytes: usize) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }

    fn remove(&self, bytes: usize) {
        self.0.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Bytes that stay counted until this is dropped.
#[derive(Debug)]
pub struct CountedBytes {
    load: Load,
    bytes: usize,
}

impl CountedBytes {
    /// Counts more bytes.
    pub fn grow(&mut self, bytes: usize) {
        self.load.add(bytes);
        self.bytes += bytes;
    }

    /// The number of bytes counted here.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for CountedBytes {
    fn drop(&mut self) {
        self.load.remove(self.bytes);
    }
}

const SHORT: usize = 64 * 1024;

/// Bytes of one connection, also counted in the total.
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

    /// Replaces the count.
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
