//! What may be lost: datagrams, as many as the path takes.
//!
//! They wait in a short queue of their own. What is too much for it is dropped, oldest first, and
//! counted: a newer progress is worth more than an older one. How fast they leave depends on how
//! much the path loses.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mcp_flow_proto::RequestId;
use mcp_flow_proto::model::LogLevel;
use mcp_flow_proto::webtransport::{Channel, Datagram, request_number};
use mcp_flow_server::Connection;
use mcp_flow_server::datagram::{Datagrams, NoDatagram};
use mcp_flow_server::observe::{MetricType, MetricsText};
use serde_json::json;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};

use crate::http3_session::Session;
use crate::pace::Pace;

/// Counts the datagrams of all sessions of a server. A handle; clones are the same.
#[derive(Clone, Debug, Default)]
pub struct DatagramCounts(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    sent: AtomicU64,
    unsent: AtomicU64,
    unread: AtomicU64,
}

impl DatagramCounts {
    /// The counts in the text format of Prometheus.
    pub fn text(&self) -> String {
        let Counts { sent, unsent, unread } = &*self.0;
        let [sent, unsent, unread] =
            [sent, unsent, unread].map(|count| count.load(Ordering::Relaxed));
        let mut text = MetricsText::default();
        let name = "mcp_flow_datagrams_sent_total";
        text.single(name, MetricType::Counter, "Datagrams sent to clients", sent);
        let name = "mcp_flow_datagrams_dropped_total";
        let help =
            "Datagrams dropped before they were sent, and malformed or useless ones received";
        text.metric(name, MetricType::Counter, help);
        text.sample(name, &[("direction", "sent")], unsent);
        text.sample(name, &[("direction", "received")], unread);
        text.finish()
    }
}

/// The datagrams of one session.
#[derive(Debug)]
pub(crate) struct SessionDatagrams {
    session: Session,
    are_wanted: bool,
    queue: Mutex<VecDeque<Waiting>>,
    added: Notify,
    /// Sent by us and dropped before they left.
    unsent: AtomicU64,
    /// Sent by the client and of no use.
    unread: AtomicU64,
    /// Those of all sessions.
    counts: DatagramCounts,
}

#[derive(Debug)]
struct Waiting {
    request: u32,
    datagram: Vec<u8>,
}

impl SessionDatagrams {
    pub(crate) fn new(session: Session, are_wanted: bool, counts: DatagramCounts) -> Self {
        Self {
            session,
            are_wanted,
            queue: Mutex::default(),
            added: Notify::new(),
            unsent: AtomicU64::new(0),
            unread: AtomicU64::new(0),
            counts,
        }
    }

    /// Whether the client takes any.
    pub(crate) fn are_possible(&self) -> bool {
        self.are_wanted && self.session.max_datagram_size() >= Datagram::HEADER
    }

    /// Counts one from the client that is of no use.
    pub(crate) fn count_unread(&self) {
        self.unread.fetch_add(1, Ordering::Relaxed);
        self.counts.0.unread.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts one to the client that did not leave.
    fn count_unsent(&self) {
        self.unsent.fetch_add(1, Ordering::Relaxed);
        self.counts.0.unsent.fetch_add(1, Ordering::Relaxed);
    }

    /// Sends what waits, for as long as it is polled.
    pub(crate) async fn pump(&self, connection: &Connection) {
        let mut pace = Pace::new();
        let mut looked = Instant::now();
        let mut next = Instant::now();
        loop {
            self.until_ready().await;
            if pace.gap() > Duration::ZERO {
                sleep_until(next).await;
                next = Instant::now().max(next) + pace.gap();
            }
            if looked.elapsed() >= Pace::INTERVAL {
                looked = Instant::now();
                let path = self.session.connection().stats().path;
                if pace.observe(path.sent_packets, path.lost_packets) {
                    self.tell_of_loss(connection);
                }
            }
            let Some(waiting) = self.queue().pop_front() else { continue };
            // There is room for it, so it is not dropped there.
            match self.session.send_datagram(&waiting.datagram) {
                Ok(()) => _ = self.counts.0.sent.fetch_add(1, Ordering::Relaxed),
                Err(_) => self.count_unsent(),
            }
        }
    }

    /// Waits until there is something to send and room for it.
    async fn until_ready(&self) {
        loop {
            let added = self.added.notified();
            if self.queue().is_empty() {
                added.await;
                continue;
            }
            if self.session.connection().datagram_send_buffer_space() >= 2 * Datagram::LONGEST {
                return;
            }
            sleep(NO_ROOM).await;
        }
    }

    /// Says once more to the whole session that the path is bad, by the very way that is (WT-023).
    fn tell_of_loss(&self, connection: &Connection) {
        let params = json!({
            "level": LogLevel::Notice,
            "logger": "transport",
            "data": {
                "message": "The path loses packets; datagrams are sent less often.",
                "dropped": self.unsent.load(Ordering::Relaxed),
                "ignored": self.unread.load(Ordering::Relaxed),
            },
        });
        if let Ok(payload) = connection.encoding().encode(&params) {
            let _ = self.send(Channel::Log, None, &payload, &mut || true);
        }
    }

    fn queue(&self) -> MutexGuard<'_, VecDeque<Waiting>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Datagrams for SessionDatagrams {
    fn are_supported(&self) -> bool {
        self.are_possible()
    }

    fn send(
        &self,
        channel: Channel,
        request: Option<&RequestId>,
        payload: &[u8],
        allowed: &mut dyn FnMut() -> bool,
    ) -> Result<(), NoDatagram> {
        let request = match request {
            None => 0,
            Some(id) => request_number(id).ok_or(NoDatagram)?,
        };
        let longest = self.session.max_datagram_size().min(Datagram::LONGEST);
        if !self.are_wanted || payload.len() + Datagram::HEADER > longest {
            return Err(NoDatagram);
        }
        let mut queue = self.queue();
        if !allowed() {
            return Ok(());
        }
        if queue.len() >= MOST {
            queue.pop_front();
            self.count_unsent();
        }
        let datagram = Datagram { channel, request, payload }.encode();
        queue.push_back(Waiting { request, datagram });
        drop(queue);
        self.added.notify_one();
        Ok(())
    }

    fn discard(&self, request: &RequestId) {
        if let Some(request) = request_number(request) {
            self.queue().retain(|waiting| waiting.request != request);
        }
    }
}

/// How many may wait.
const MOST: usize = 128;

/// How long to wait for room; nothing tells when there is.
const NO_ROOM: Duration = Duration::from_millis(1);
