//! MCP session of Streamable HTTP (`Mcp-Session-Id`): a server connection that outlives the requests
//! that use it, and its event logs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mcp_flow_server::connection::Exchange;
use mcp_flow_server::{Connection, Principal, Segment};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::event_log::{Budget, EventLog};
use super::sessions::TransportSession;

/// A session and its event logs.
#[derive(Debug)]
pub(crate) struct HttpSession {
    id: String,
    pub(crate) connection: Connection,
    /// Log of unsolicited messages, read by GET; its number is 0.
    common: Arc<EventLog>,
    /// Logs of exchanges that are answered by an event stream, oldest first.
    logs: Mutex<Vec<Arc<EventLog>>>,
    last_log: AtomicU64,
    budget: Arc<Budget>,
    opened: Instant,
    /// Time of the last request, in milliseconds since `opened`.
    last_used: AtomicU64,
}

impl HttpSession {
    pub(crate) fn new(id: String, connection: Connection, replay_bytes: usize) -> Arc<Self> {
        let budget = Budget::new(replay_bytes);
        let common = EventLog::new(0, budget.clone());
        let unsolicited = common.clone();
        connection.reachable_if(move || unsolicited.is_attached());
        Arc::new(Self {
            id,
            connection,
            common,
            logs: Mutex::default(),
            last_log: AtomicU64::new(0),
            budget,
            opened: Instant::now(),
            last_used: AtomicU64::new(0),
        })
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Drives the connection until it ends, appending unsolicited messages to the common log. All
    /// event streams end with it.
    pub(crate) async fn drive(&self) {
        loop {
            self.connection.advance();
            let has_room = self.common.has_room();
            if has_room && let Some(segment) = self.connection.take_output() {
                append(&self.common, &segment);
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
        self.logs.lock().iter().for_each(|log| log.stop_waiting());
    }

    /// Creates the log of an exchange that is answered by an event stream.
    pub(crate) fn new_log(&self) -> Arc<EventLog> {
        let number = self.last_log.fetch_add(1, Ordering::Relaxed) + 1;
        let log = EventLog::new(number, self.budget.clone());
        self.keep(log.clone());
        log
    }

    /// Appends the output of an exchange to its log until the exchange ends, `first` first.
    pub(crate) async fn record(&self, log: &EventLog, exchange: Exchange, first: Option<Segment>) {
        let mut next = first;
        loop {
            if let Some(segment) = next.take() {
                append(log, &segment);
            }
            log.room().await;
            next = tokio::select! {
                biased;
                next = exchange.output() => next,
                () = exchange.close_requested() => {
                    if self.primes() {
                        log.disconnect_reader();
                    }
                    continue;
                }
            };
            if next.is_none() {
                break;
            }
        }
        log.finish();
        self.touch();
    }

    /// Returns a log by its number.
    pub(crate) fn find_log(&self, number: u64) -> Option<Arc<EventLog>> {
        if number == 0 {
            return Some(self.common.clone());
        }
        self.logs.lock().iter().find(|log| log.number() == number).cloned()
    }

    pub(crate) fn common_log(&self) -> &Arc<EventLog> {
        &self.common
    }

    /// Returns whether the revision starts event streams with a priming event.
    pub(crate) fn primes(&self) -> bool {
        self.connection.revision().is_some_and(|revision| revision.features().primed_streams)
    }

    /// Records that the session is in use.
    pub(crate) fn touch(&self) {
        let now = u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_used.store(now, Ordering::Relaxed);
    }

    /// Keeps a log for resumption. At a limit of number or bytes, older logs are dropped: first those
    /// that were read to their end, then finished ones without a reader.
    fn keep(&self, log: Arc<EventLog>) {
        let mut logs = self.logs.lock();
        for only_read in [true, false] {
            let mut index = 0;
            while index < logs.len() && (logs.len() >= MAX_LOGS || self.budget.is_exceeded()) {
                let old = &logs[index];
                let is_dropped = if only_read {
                    !old.may_be_resumed()
                } else {
                    old.is_done() && !old.is_attached()
                };
                if is_dropped {
                    logs.remove(index);
                } else {
                    index += 1;
                }
            }
        }
        logs.push(log);
    }
}

impl TransportSession for HttpSession {
    fn principal(&self) -> &Principal {
        self.connection.principal()
    }

    fn idle(&self) -> Option<Duration> {
        let busy = self.common.is_attached()
            || self.logs.lock().iter().any(|log| log.is_attached() || !log.is_done())
            || !self.connection.is_idle();
        let last_used = Duration::from_millis(self.last_used.load(Ordering::Relaxed));
        (!busy).then(|| self.opened.elapsed().saturating_sub(last_used))
    }

    fn end(&self) {
        self.connection.end_of_input();
    }
}

fn append(log: &EventLog, segment: &Segment) {
    for message in segment.messages() {
        log.append(message);
    }
}

/// Limit on logs kept for resumption, besides those still being written.
const MAX_LOGS: usize = 64;
