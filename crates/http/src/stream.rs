//! A stream of events that outlives the connection it is read over.
//!
//! Events are numbered and kept for a while, so a client whose connection broke reads on from the
//! last one it has. What is kept is bounded: while someone reads, the writer waits for them; while
//! nobody does, the oldest events are given up.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use tokio::sync::Notify;

use crate::sse;

/// One stream of a session.
#[derive(Debug)]
pub(crate) struct EventStream {
    /// Tells it from the other streams of its session.
    number: u64,
    budget: Arc<Budget>,
    state: Mutex<State>,
    /// Something was written, or the stream has ended, or another reader took over.
    written: Notify,
    /// Something was read, or nobody reads any more.
    read: Notify,
}

/// How many bytes the streams of one session may keep together.
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
    /// Nobody waits for the reader any more.
    hurried: bool,
    /// Who reads: the newest reader has the highest number, and the others stop.
    reader: u64,
    attached: bool,
    /// The newest reader that stops when it has read what is there.
    leaving: u64,
    /// The last event the reader has got.
    position: u64,
}

impl EventStream {
    pub(crate) fn new(number: u64, budget: Arc<Budget>) -> Arc<Self> {
        let state = Mutex::default();
        Arc::new(Self { number, budget, state, written: Notify::new(), read: Notify::new() })
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Waits until the reader has made room; without a reader there is always room.
    pub(crate) async fn room(&self) {
        loop {
            // Made before looking, so that nothing read in between is missed.
            let mut read = std::pin::pin!(self.read.notified());
            read.as_mut().enable();
            if self.has_room() {
                return;
            }
            read.await;
        }
    }

    pub(crate) fn has_room(&self) -> bool {
        let state = self.state();
        !state.attached || state.hurried || state.unread < MOST_UNREAD
    }

    /// Adds a message, and gives up what is too old to be kept.
    pub(crate) fn write(&self, message: &[u8]) {
        let mut state = self.state();
        state.last += 1;
        let last = state.last;
        let event = sse::event(Some("message"), Some(&self.id(last)), message);
        state.bytes += event.len();
        state.unread += event.len();
        self.budget.used.fetch_add(event.len(), Ordering::AcqRel);
        state.events.push_back((last, event));
        while let Some(oldest) = self.give_up_oldest(&mut state) {
            state.bytes -= oldest;
            self.budget.used.fetch_sub(oldest, Ordering::AcqRel);
        }
        drop(state);
        self.written.notify_waiters();
    }

    /// Takes out the oldest event if it must and may go, and says how long it was.
    fn give_up_oldest(&self, state: &mut State) -> Option<usize> {
        let used = self.budget.used.load(Ordering::Acquire);
        let (number, event) = state.events.front()?;
        let (is_unread, length) = (*number > state.position, event.len());
        // One message may be as long as it likes, if the others leave room.
        let is_only = state.events.len() == 1;
        let spared = if is_only { used - state.bytes } else { used };
        if spared <= self.budget.limit || (is_unread && state.attached) {
            return None;
        }
        if is_unread {
            state.unread -= length;
        }
        state.events.pop_front();
        Some(length)
    }

    /// Nothing more will be written.
    pub(crate) fn finish(&self) {
        self.state().done = true;
        self.written.notify_waiters();
    }

    /// Whoever reads now stops after what was written so far, and is expected to come back.
    pub(crate) fn break_off(&self) {
        let mut state = self.state();
        state.leaving = state.reader;
        drop(state);
        self.written.notify_waiters();
    }

    /// Whoever writes need not wait for the reader any more, because the session ends.
    pub(crate) fn hurry(&self) {
        self.state().hurried = true;
        self.read.notify_waiters();
    }

    pub(crate) fn is_done(&self) -> bool {
        self.state().done
    }

    pub(crate) fn is_attached(&self) -> bool {
        self.state().attached
    }

    /// Whether someone may still want it: it is being written or read, or not read to its end.
    pub(crate) fn is_wanted(&self) -> bool {
        let state = self.state();
        !state.done || state.attached || state.position < state.last
    }

    /// The last event that was read.
    pub(crate) fn position(&self) -> u64 {
        self.state().position
    }

    /// Reads everything after an event, and goes on with what is written later. Whoever read it
    /// before stops.
    pub(crate) fn read_after(
        self: &Arc<Self>,
        position: u64,
        prime: bool,
        keep_alive: Duration,
    ) -> impl Stream<Item = Bytes> + Send + use<> {
        let mut state = self.state();
        state.reader += 1;
        state.attached = true;
        state.position = position.min(state.last);
        let position = state.position;
        let unread = state.events.iter().filter(|(number, _)| *number > position);
        state.unread = unread.map(|(_, event)| event.len()).sum();
        let reader = Reader { stream: self.clone(), number: state.reader };
        drop(state);
        self.written.notify_waiters();
        // An event without data gives the client an id to come back with.
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

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for EventStream {
    fn drop(&mut self) {
        let bytes = self.state().bytes;
        self.budget.used.fetch_sub(bytes, Ordering::AcqRel);
    }
}

/// The number of the stream and of the event an id names.
pub(crate) fn parse_id(id: &str) -> Option<(u64, u64)> {
    let (stream, event) = id.split_once('-')?;
    Some((stream.parse().ok()?, event.parse().ok()?))
}

/// Someone who reads, until it is dropped or another takes over.
struct Reader {
    stream: Arc<EventStream>,
    number: u64,
}

impl Reader {
    /// The next event, or a sign of life when there is none for a while; `None` at the end.
    async fn next(&self, keep_alive: Duration) -> Option<Bytes> {
        loop {
            // Made before looking, so that nothing written in between is missed.
            let mut written = std::pin::pin!(self.stream.written.notified());
            written.as_mut().enable();
            match self.take() {
                Taken::Event(event) => return Some(event),
                Taken::End => return None,
                Taken::Nothing => {}
            }
            if tokio::time::timeout(keep_alive, written).await.is_err() {
                return Some(sse::KEEP_ALIVE);
            }
        }
    }

    fn take(&self) -> Taken {
        let mut state = self.stream.state();
        if state.reader != self.number {
            return Taken::End;
        }
        let next = state.events.partition_point(|(number, _)| *number <= state.position);
        match state.events.get(next).cloned() {
            Some((number, event)) => {
                state.position = number;
                state.unread -= event.len();
                drop(state);
                self.stream.read.notify_waiters();
                Taken::Event(event)
            }
            None if state.done || state.leaving == self.number => Taken::End,
            None => Taken::Nothing,
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut state = self.stream.state();
        if state.reader == self.number {
            state.attached = false;
        }
        drop(state);
        self.stream.read.notify_waiters();
    }
}

enum Taken {
    Event(Bytes),
    Nothing,
    End,
}

/// How many bytes may wait for a reader before the writer does.
const MOST_UNREAD: usize = 64 * 1024;

#[cfg(test)]
#[path = "stream/tests.rs"]
mod tests;
