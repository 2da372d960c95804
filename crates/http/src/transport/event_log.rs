//! Event log of one SSE stream, for resumption by `Last-Event-ID`.
//!
//! Events are numbered and kept for a while, so a client that reconnects reads on after the last
//! event it has. The log is bounded: while a client reads, the writer waits for it; without a reader
//! the oldest events are dropped.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::sse;

/// Log of one event stream of a session.
#[derive(Debug)]
pub(crate) struct EventLog {
    /// Number within the session; the first part of event ids.
    number: u64,
    budget: Arc<Budget>,
    state: Mutex<State>,
    /// Notified when an event is appended, the log ends, or another reader takes over.
    written: Notify,
    /// Notified when an event is read or the reader disconnects.
    read: Notify,
}

/// Byte limit that the logs of one session share.
#[derive(Debug)]
pub(crate) struct Budget {
    limit: usize,
    used: AtomicUsize,
}

impl Budget {
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, used: AtomicUsize::new(0) })
    }

    pub(crate) fn is_exceeded(&self) -> bool {
        self.used.load(Ordering::Acquire) > self.limit
    }
}

#[derive(Debug, Default)]
struct State {
    events: VecDeque<(u64, Bytes)>,
    bytes: usize,
    /// Bytes of the events after `position`.
    unread: usize,
    last: u64,
    done: bool,
    /// Set if the writer no longer waits for the reader.
    never_waits: bool,
    /// Number of the current reader, which is the newest. Earlier readers stop.
    reader: u64,
    attached: bool,
    /// Number of the newest reader that stops after the events appended so far.
    disconnecting: u64,
    /// Number of the last event that was read.
    position: u64,
}

impl EventLog {
    pub(crate) fn new(number: u64, budget: Arc<Budget>) -> Arc<Self> {
        let state = Mutex::default();
        Arc::new(Self { number, budget, state, written: Notify::new(), read: Notify::new() })
    }

    /// Creates a log whose events have greater numbers than this, as the continuation of one that
    /// another node has begun.
    pub(crate) fn starting_after(last: u64, number: u64, budget: Arc<Budget>) -> Arc<Self> {
        let log = Self::new(number, budget);
        log.state.lock().last = last;
        log
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Waits until the log accepts another event. Without a reader it always does.
    pub(crate) async fn room(&self) {
        loop {
            // Registered before the check, so that no notification is missed.
            let mut read = std::pin::pin!(self.read.notified());
            read.as_mut().enable();
            if self.has_room() {
                return;
            }
            read.await;
        }
    }

    pub(crate) fn has_room(&self) -> bool {
        let state = self.state.lock();
        !state.attached || state.never_waits || state.unread < MAX_UNREAD
    }

    /// Appends a message, and drops the oldest events past the limit.
    pub(crate) fn append(&self, message: &[u8]) {
        let mut state = self.state.lock();
        state.last += 1;
        let last = state.last;
        let event = sse::event(Some("message"), Some(&self.id(last)), message);
        state.bytes += event.len();
        state.unread += event.len();
        self.budget.used.fetch_add(event.len(), Ordering::AcqRel);
        state.events.push_back((last, event));
        while let Some(oldest) = self.drop_oldest(&mut state) {
            state.bytes -= oldest;
            self.budget.used.fetch_sub(oldest, Ordering::AcqRel);
        }
        drop(state);
        self.written.notify_waiters();
    }

    /// Drops the oldest event if the limit is exceeded and it is not needed. Returns its length.
    fn drop_oldest(&self, state: &mut State) -> Option<usize> {
        let used = self.budget.used.load(Ordering::Acquire);
        let (number, event) = state.events.front()?;
        let (is_unread, length) = (*number > state.position, event.len());
        // A single message may exceed the limit if the other logs leave room.
        let is_only = state.events.len() == 1;
        let counted = if is_only { used - state.bytes } else { used };
        if counted <= self.budget.limit || (is_unread && state.attached) {
            return None;
        }
        if is_unread {
            state.unread -= length;
        }
        state.events.pop_front();
        Some(length)
    }

    /// Marks the log as complete.
    pub(crate) fn finish(&self) {
        self.state.lock().done = true;
        self.written.notify_waiters();
    }

    /// Ends the current reader's stream after the events appended so far; the client is expected to
    /// reconnect.
    pub(crate) fn disconnect_reader(&self) {
        let mut state = self.state.lock();
        state.disconnecting = state.reader;
        drop(state);
        self.written.notify_waiters();
    }

    /// Stops making the writer wait for the reader, because the session ends.
    pub(crate) fn stop_waiting(&self) {
        self.state.lock().never_waits = true;
        self.read.notify_waiters();
    }

    pub(crate) fn is_done(&self) -> bool {
        self.state.lock().done
    }

    pub(crate) fn is_attached(&self) -> bool {
        self.state.lock().attached
    }

    /// Returns whether a client may still read from it: it is written or read, or has unread events.
    pub(crate) fn may_be_resumed(&self) -> bool {
        let state = self.state.lock();
        !state.done || state.attached || state.position < state.last
    }

    /// Returns the number of the last event that was read.
    pub(crate) fn position(&self) -> u64 {
        self.state.lock().position
    }

    /// Streams the events after a position, then new ones as they are appended. Ends the stream of
    /// the reader before.
    pub(crate) fn read_after(
        self: &Arc<Self>,
        position: u64,
        prime: bool,
        keep_alive: Duration,
    ) -> impl Stream<Item = Bytes> + Send + use<> {
        let mut state = self.state.lock();
        state.reader += 1;
        state.attached = true;
        state.position = position.min(state.last);
        let position = state.position;
        let unread = state.events.iter().filter(|(number, _)| *number > position);
        state.unread = unread.map(|(_, event)| event.len()).sum();
        let reader = Reader { log: self.clone(), number: state.reader };
        drop(state);
        self.written.notify_waiters();
        // A priming event gives the client an id to resume after.
        let first = prime.then(|| sse::prime(&self.id(position)));
        futures_util::stream::unfold((first, reader, keep_alive), async |(first, reader, wait)| {
            let event = match first {
                Some(first) => first,
                None => reader.next(wait).await?,
            };
            Some((event, (None, reader, wait)))
        })
    }

    fn id(&self, event: u64) -> String {
        format!("{}-{event}", self.number)
    }
}

impl Drop for EventLog {
    fn drop(&mut self) {
        let bytes = self.state.lock().bytes;
        self.budget.used.fetch_sub(bytes, Ordering::AcqRel);
    }
}

/// Parses an event id: the number of the log and of the event.
pub(crate) fn parse_id(id: &str) -> Option<(u64, u64)> {
    let (log, event) = id.split_once('-')?;
    Some((log.parse().ok()?, event.parse().ok()?))
}

/// The reader of a log, until it is dropped or another takes over.
struct Reader {
    log: Arc<EventLog>,
    number: u64,
}

impl Reader {
    /// Returns the next event, a keep-alive after a quiet interval, or `None` at the end.
    async fn next(&self, keep_alive: Duration) -> Option<Bytes> {
        loop {
            // Registered before the check, so that no notification is missed.
            let mut written = std::pin::pin!(self.log.written.notified());
            written.as_mut().enable();
            match self.poll() {
                Next::Event(event) => return Some(event),
                Next::End => return None,
                Next::Pending => {}
            }
            if tokio::time::timeout(keep_alive, written).await.is_err() {
                return Some(sse::KEEP_ALIVE);
            }
        }
    }

    fn poll(&self) -> Next {
        let mut state = self.log.state.lock();
        if state.reader != self.number {
            return Next::End;
        }
        let next = state.events.partition_point(|(number, _)| *number <= state.position);
        match state.events.get(next).cloned() {
            Some((number, event)) => {
                state.position = number;
                state.unread -= event.len();
                drop(state);
                self.log.read.notify_waiters();
                Next::Event(event)
            }
            None if state.done || state.disconnecting == self.number => Next::End,
            None => Next::Pending,
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut state = self.log.state.lock();
        if state.reader == self.number {
            state.attached = false;
        }
        drop(state);
        self.log.read.notify_waiters();
    }
}

enum Next {
    Event(Bytes),
    Pending,
    End,
}

/// Unread bytes after which the writer waits for the reader.
const MAX_UNREAD: usize = 64 * 1024;

#[cfg(test)]
mod tests;
