//! Queue of unsent messages. Callers bound it by checking [`Outbound::bytes`] before adding.
//!
//! Messages are encoded straight into segments, so replies that are ready at the same time leave
//! in one write, and no message has an allocation of its own.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mcp_flow_proto::{Revision, RpcError};
use parking_lot::Mutex;

use super::codec::SigningCodec;
use crate::load::{Load, Tally};

/// Encoded messages, to be sent in one write.
#[derive(Debug, Default)]
pub struct Segment {
    bytes: Vec<u8>,
    /// The end of each message; the byte there is a newline.
    ends: Vec<usize>,
    error: Option<LastError>,
}

/// The last error in a segment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LastError {
    /// Its code.
    pub code: i32,
    /// Its name, for programs to branch on.
    pub name: &'static str,
    /// The time after which the request may be retried.
    pub retry_after: Option<Duration>,
}

/// Facts about a message before it is written.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Hint {
    /// Estimated length, so that large messages need not be moved as they grow.
    size: usize,
    error: Option<LastError>,
}

impl Hint {
    pub(crate) fn of_error(error: &RpcError, revision: Revision) -> Self {
        let code = error.wire(revision).code();
        let last = LastError { code, name: error.name(), retry_after: error.retry_delay() };
        Self { size: 0, error: Some(last) }
    }
}

impl From<usize> for Hint {
    fn from(size: usize) -> Self {
        Self { size, error: None }
    }
}

impl Segment {
    /// All messages, each followed by a newline.
    pub fn lines(&self) -> &[u8] {
        &self.bytes
    }

    /// The messages one by one, without newlines.
    pub fn messages(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().map(|end| end + 1));
        starts.zip(&self.ends).map(|(start, end)| &self.bytes[start..*end])
    }

    /// The number of messages.
    pub fn count(&self) -> usize {
        self.ends.len()
    }

    /// The error of the last message that has one.
    pub fn last_error(&self) -> Option<LastError> {
        self.error
    }

    /// The code of that error.
    pub fn error_code(&self) -> Option<i32> {
        self.error.map(|error| error.code)
    }

    /// The first message alone, without a copy.
    pub fn into_message(mut self) -> Vec<u8> {
        self.bytes.truncate(self.ends.first().copied().unwrap_or_default());
        self.bytes
    }

    fn with_capacity(bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes), ..Self::default() }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Outbound {
    queue: Mutex<Queue>,
    /// Changed under the lock, read without it for an estimate. All queues of a connection count
    /// together.
    bytes: Arc<Tally>,
    /// Segments the transport has taken from all queues of a connection.
    taken: Arc<AtomicU64>,
    /// Segments the transport has taken from this queue.
    taken_here: AtomicU64,
    /// Signs messages, numbered under the lock that orders them.
    codec: Option<Arc<SigningCodec>>,
}

#[derive(Debug, Default)]
struct Queue {
    segments: VecDeque<Segment>,
    spare: Option<Segment>,
}

impl Outbound {
    /// The queue of a connection; its bytes are counted in the load of the server.
    pub(super) fn new(load: &Load, codec: Option<Arc<SigningCodec>>) -> Self {
        let bytes = Arc::new(Tally::new(load));
        Self {
            queue: Mutex::default(),
            bytes,
            taken: Arc::default(),
            taken_here: AtomicU64::new(0),
            codec,
        }
    }

    /// Another queue of the same connection.
    pub(super) fn sharing(other: &Self) -> Self {
        let (bytes, taken) = (other.bytes.clone(), other.taken.clone());
        let taken_here = AtomicU64::new(0);
        Self { queue: Mutex::default(), bytes, taken, taken_here, codec: other.codec.clone() }
    }

    /// Appends what `write` writes, if `allowed` says so under the same lock.
    ///
    /// Returns whether the queue was empty, so that its reader has to be woken.
    pub(crate) fn push(
        &self,
        hint: impl Into<Hint>,
        allowed: impl FnOnce() -> bool,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> bool {
        let Hint { size, error } = hint.into();
        let mut queue = self.queue.lock();
        if !allowed() {
            return false;
        }
        let was_empty = queue.segments.is_empty();
        let segment = queue.tail(size);
        segment.error = error.or(segment.error);
        let before = segment.bytes.len();
        write(&mut segment.bytes);
        if let Some(codec) = &self.codec {
            codec.sign(&mut segment.bytes, before);
        }
        segment.ends.push(segment.bytes.len());
        segment.bytes.push(b'\n');
        let added = segment.bytes.len() - before;
        self.bytes.add(added);
        was_empty
    }

    /// Takes the oldest segment.
    pub(crate) fn take(&self) -> Option<Segment> {
        let mut queue = self.queue.lock();
        let segment = queue.segments.pop_front()?;
        self.bytes.remove(segment.bytes.len());
        self.taken.fetch_add(1, Ordering::Release);
        self.taken_here.fetch_add(1, Ordering::Release);
        Some(segment)
    }

    /// The number of segments taken so far. A message pushed after reading this is unsent until the
    /// number is higher.
    pub(crate) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Acquire)
    }

    /// The number of segments taken from this queue, not from the others of its connection.
    pub(crate) fn taken_here(&self) -> u64 {
        self.taken_here.load(Ordering::Acquire)
    }

    /// Keeps the memory of a sent segment for the next one, unless it is unusually large.
    pub(crate) fn recycle(&self, mut segment: Segment) {
        if segment.bytes.capacity() <= 2 * SEGMENT {
            segment.bytes.clear();
            segment.ends.clear();
            segment.error = None;
            self.queue.lock().spare = Some(segment);
        }
    }

    /// Counts bytes that will be sent but are not queued yet.
    pub(crate) fn expect(&self, bytes: usize) {
        self.bytes.add(bytes);
    }

    /// Stops counting expected bytes: they are queued now, or never.
    pub(crate) fn forget(&self, bytes: usize) {
        self.bytes.remove(bytes);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.lock().segments.is_empty()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.bytes()
    }
}

impl Drop for Outbound {
    fn drop(&mut self) {
        let queue = self.queue.get_mut();
        let unsent: usize = queue.segments.iter().map(|segment| segment.bytes.len()).sum();
        self.bytes.remove(unsent);
    }
}

impl Queue {
    /// The segment to append a message of this estimated size to.
    fn tail(&mut self, size: usize) -> &mut Segment {
        let fits = self.segments.back().is_some_and(|last| last.bytes.len() + size < SEGMENT);
        if !fits {
            let segment = match self.spare.take() {
                Some(spare) if size < SEGMENT => spare,
                // With room for the envelope around the payload.
                _ => Segment::with_capacity(size + 256),
            };
            self.segments.push_back(segment);
        }
        self.segments.back_mut().expect("a segment was just pushed")
    }
}

/// Bytes of small messages that share a segment: what a pipe takes in one write.
const SEGMENT: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::{Outbound, SEGMENT};

    /// MCP-056: messages never mix, and those ready together are sent together.
    #[test]
    fn messages_ready_together_share_a_segment() {
        let outbound = Outbound::default();
        assert!(push(&outbound, b"{}"));
        assert!(!push(&outbound, b"[]"));
        let segment = outbound.take().unwrap();
        assert_eq!(segment.lines(), b"{}\n[]\n");
        assert_eq!(segment.messages().collect::<Vec<_>>(), [b"{}", b"[]"]);
        assert!(outbound.take().is_none());
    }

    #[test]
    fn bytes_are_counted_until_they_are_taken() {
        let outbound = Outbound::default();
        let large = vec![b'x'; 3 * SEGMENT];
        push(&outbound, b"{}");
        push(&outbound, &large);
        push(&outbound, b"{}");
        assert_eq!(outbound.bytes(), 3 + large.len() + 1 + 3);
        let lengths: Vec<_> =
            std::iter::from_fn(|| outbound.take()).map(|segment| segment.lines().len()).collect();
        assert_eq!(lengths.iter().sum::<usize>(), 3 + large.len() + 1 + 3);
        assert_eq!(outbound.bytes(), 0);
    }

    /// MCP-074: buffers are reused.
    #[test]
    fn sent_segments_are_reused() {
        let outbound = Outbound::default();
        push(&outbound, b"{}");
        let segment = outbound.take().unwrap();
        let memory = segment.lines().as_ptr();
        outbound.recycle(segment);
        push(&outbound, b"[]");
        assert_eq!(outbound.take().unwrap().lines().as_ptr(), memory);
    }

    #[test]
    fn disallowed_messages_are_not_written() {
        let outbound = Outbound::default();
        outbound.push(0, || false, |out| out.push(b'x'));
        assert!(outbound.take().is_none());
    }

    fn push(outbound: &Outbound, message: &[u8]) -> bool {
        outbound.push(message.len(), || true, |out| out.extend_from_slice(message))
    }
}
