//! One session of a handshake revision: a connection of the server's that outlives the requests it
//! is spoken to by.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mcp_flow_server::connection::Exchange;
use mcp_flow_server::{Connection, Principal, Segment};
use tokio::time::Instant;

use crate::sessions::Keepable;
use crate::stream::{Budget, EventStream};

/// A session and the streams that belong to it.
#[derive(Debug)]
pub(crate) struct Session {
    id: String,
    pub(crate) connection: Connection,
    /// What the server sends without having been asked; its number is 0.
    common: Arc<EventStream>,
    /// The streams of exchanges that pushed something, oldest first.
    streams: Mutex<Vec<Arc<EventStream>>>,
    last_stream: AtomicU64,
    budget: Arc<Budget>,
    opened: Instant,
    /// When it was last spoken to, in milliseconds since it was opened.
    last_used: AtomicU64,
}

impl Session {
    pub(crate) fn new(id: String, connection: Connection, replay_bytes: usize) -> Arc<Self> {
        let budget = Budget::new(replay_bytes);
        let common = EventStream::new(0, budget.clone());
        let listened_to = common.clone();
        connection.reachable_if(move || listened_to.is_attached());
        Arc::new(Self {
            id,
            connection,
            common,
            streams: Mutex::default(),
            last_stream: AtomicU64::new(0),
            budget,
            opened: Instant::now(),
            last_used: AtomicU64::new(0),
        })
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Keeps the connection going until it ends; what it sends of its own accord goes to the
    /// common stream. When it ends, so do all streams.
    pub(crate) async fn drive(&self) {
        loop {
            self.connection.advance();
            let has_room = self.common.has_room();
            if has_room && let Some(segment) = self.connection.take_output() {
                write(&self.common, &segment);
                self.connection.recycle(segment);
                continue;
            }
            if self.connection.ended().is_some() {
                break;
            }
            tokio::select! {
                () = self.connection.changed() => {}
                () = self.common.room(), if !has_room => {}
            }
        }
        self.common.finish();
        self.streams().iter().for_each(|stream| stream.hurry());
    }

    /// A new stream for an exchange that pushes, to be read again if need be.
    pub(crate) fn new_stream(&self) -> Arc<EventStream> {
        let number = self.last_stream.fetch_add(1, Ordering::Relaxed) + 1;
        let stream = EventStream::new(number, self.budget.clone());
        self.keep(stream.clone());
        stream
    }

    /// Moves what comes of an exchange into its stream, beginning with what came already.
    pub(crate) async fn fill(
        &self,
        stream: &EventStream,
        exchange: Exchange,
        first: Option<Segment>,
    ) {
        let mut next = first;
        loop {
            if let Some(segment) = next.take() {
                write(stream, &segment);
            }
            stream.room().await;
            next = tokio::select! {
                biased;
                next = exchange.output() => next,
                () = exchange.close_requested() => {
                    if self.primes() {
                        stream.break_off();
                    }
                    continue;
                }
            };
            if next.is_none() {
                break;
            }
        }
        stream.finish();
        self.touch();
    }

    /// A stream by its number.
    pub(crate) fn find_stream(&self, number: u64) -> Option<Arc<EventStream>> {
        if number == 0 {
            return Some(self.common.clone());
        }
        self.streams().iter().find(|stream| stream.number() == number).cloned()
    }

    pub(crate) fn common_stream(&self) -> &Arc<EventStream> {
        &self.common
    }

    /// Whether its streams begin with an event that has an id and nothing else.
    pub(crate) fn primes(&self) -> bool {
        self.connection.revision().is_some_and(|revision| revision.features().primed_streams)
    }

    /// Notes that the session is in use.
    pub(crate) fn touch(&self) {
        let now = u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_used.store(now, Ordering::Relaxed);
    }

    /// Keeps a stream to be read again, and gives up older ones if there are too many or they are
    /// too long: first those that were read to their end, then those that nobody came back to.
    fn keep(&self, stream: Arc<EventStream>) {
        let mut streams = self.streams();
        for only_unwanted in [true, false] {
            let mut index = 0;
            while index < streams.len()
                && (streams.len() >= MOST_STREAMS || self.budget.is_exceeded())
            {
                let old = &streams[index];
                let goes = if only_unwanted {
                    !old.is_wanted()
                } else {
                    old.is_done() && !old.is_attached()
                };
                if goes {
                    streams.remove(index);
                } else {
                    index += 1;
                }
            }
        }
        streams.push(stream);
    }

    fn streams(&self) -> MutexGuard<'_, Vec<Arc<EventStream>>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Keepable for Session {
    fn principal(&self) -> &Principal {
        self.connection.principal()
    }

    fn idle(&self) -> Option<Duration> {
        let busy = self.common.is_attached()
            || self.streams().iter().any(|stream| stream.is_attached() || !stream.is_done())
            || !self.connection.is_idle();
        let last_used = Duration::from_millis(self.last_used.load(Ordering::Relaxed));
        (!busy).then(|| self.opened.elapsed().saturating_sub(last_used))
    }

    fn end(&self) {
        self.connection.end_of_input();
    }
}

fn write(stream: &EventStream, segment: &Segment) {
    for message in segment.messages() {
        stream.write(message);
    }
}

/// How many streams are kept to be read again, at most, beside those still being written.
const MOST_STREAMS: usize = 64;
