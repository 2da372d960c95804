//! Outgoing datagrams of a session, paced by packet loss.
//!
//! Datagrams wait in a short queue. If it is full, the oldest is dropped and counted: newer
//! progress is worth more than older.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mcp_flow_proto::RequestId;
use mcp_flow_proto::model::LogLevel;
use mcp_flow_proto::webtransport::{Datagram, DatagramChannel, request_number};
use mcp_flow_server::Connection;
use mcp_flow_server::datagram::{DatagramError, Datagrams};
use mcp_flow_server::observe::{MetricType, MetricsText};
use parking_lot::{Mutex, MutexGuard};
use serde_json::json;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};

use crate::http3::session::Session;
use crate::pace::Pace;

/// Counters of the datagrams of all sessions of a server. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct DatagramCounts(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    sent: AtomicU64,
    dropped: AtomicU64,
    ignored: AtomicU64,
}

impl DatagramCounts {
    /// Returns the counters in the Prometheus text format.
    pub fn text(&self) -> String {
        let Counts { sent, dropped, ignored } = &*self.0;
        let [sent, dropped, ignored] =
            [sent, dropped, ignored].map(|count| count.load(Ordering::Relaxed));
        let mut text = MetricsText::default();
        let name = "mcp_flow_datagrams_sent_total";
        text.single(name, MetricType::Counter, "Datagrams sent to clients", sent);
        let name = "mcp_flow_datagrams_dropped_total";
        let help = "Datagrams dropped before sending, and malformed or unsolicited ones received";
        text.metric(name, MetricType::Counter, help);
        text.sample(name, &[("direction", "sent")], dropped);
        text.sample(name, &[("direction", "received")], ignored);
        text.finish()
    }
}

/// The datagrams of one session.
#[derive(Debug)]
pub(crate) struct SessionDatagrams {
    session: Session,
    are_enabled: bool,
    queue: Mutex<VecDeque<QueuedDatagram>>,
    added: Notify,
    /// Dropped before they were sent.
    dropped: AtomicU64,
    /// Received from the client and ignored.
    ignored: AtomicU64,
    /// Counters of all sessions.
    counts: DatagramCounts,
}

#[derive(Debug)]
struct QueuedDatagram {
    request: u32,
    datagram: Vec<u8>,
}

impl SessionDatagrams {
    pub(crate) fn new(session: Session, are_enabled: bool, counts: DatagramCounts) -> Self {
        Self {
            session,
            are_enabled,
            queue: Mutex::default(),
            added: Notify::new(),
            dropped: AtomicU64::new(0),
            ignored: AtomicU64::new(0),
            counts,
        }
    }

    /// Returns whether the client accepts datagrams.
    pub(crate) fn are_supported_by_client(&self) -> bool {
        self.are_enabled && self.session.max_datagram_size() >= Datagram::HEADER
    }

    /// Counts a datagram from the client that is ignored.
    pub(crate) fn count_ignored(&self) {
        self.ignored.fetch_add(1, Ordering::Relaxed);
        self.counts.0.ignored.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a datagram to the client that is dropped.
    fn count_dropped(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
        self.counts.0.dropped.fetch_add(1, Ordering::Relaxed);
    }

    /// Sends queued datagrams while it is polled.
    pub(crate) async fn run(&self, connection: &Connection) {
        let mut pace = Pace::new();
        let mut last_sample = Instant::now();
        let mut next = Instant::now();
        loop {
            self.wait_until_ready().await;
            if pace.gap() > Duration::ZERO {
                sleep_until(next).await;
                next = Instant::now().max(next) + pace.gap();
            }
            if last_sample.elapsed() >= Pace::INTERVAL {
                last_sample = Instant::now();
                let path = self.session.connection().stats().path;
                if pace.observe(path.sent_packets, path.lost_packets) {
                    self.report_loss(connection);
                }
            }
            let Some(queued) = self.queue().pop_front() else { continue };
            // There is buffer space, so quinn does not drop it.
            match self.session.send_datagram(&queued.datagram) {
                Ok(()) => _ = self.counts.0.sent.fetch_add(1, Ordering::Relaxed),
                Err(_) => self.count_dropped(),
            }
        }
    }

    /// Waits until there is a datagram to send and buffer space for it.
    async fn wait_until_ready(&self) {
        loop {
            let added = self.added.notified();
            if self.queue().is_empty() {
                added.await;
                continue;
            }
            if self.session.connection().datagram_send_buffer_space() >= 2 * Datagram::MAX_LENGTH {
                return;
            }
            sleep(BUFFER_POLL).await;
        }
    }

    /// Reports packet loss to the whole session, by a datagram (WT-023).
    fn report_loss(&self, connection: &Connection) {
        let params = json!({
            "level": LogLevel::Notice,
            "logger": "transport",
            "data": {
                "message": "The path loses packets; the datagram rate is reduced.",
                "dropped": self.dropped.load(Ordering::Relaxed),
                "ignored": self.ignored.load(Ordering::Relaxed),
            },
        });
        if let Ok(payload) = connection.encoding().encode(&params) {
            let _ = self.send(DatagramChannel::Log, None, &payload, &mut || true);
        }
    }

    fn queue(&self) -> MutexGuard<'_, VecDeque<QueuedDatagram>> {
        self.queue.lock()
    }
}

impl Datagrams for SessionDatagrams {
    fn are_supported(&self) -> bool {
        self.are_supported_by_client()
    }

    fn send(
        &self,
        channel: DatagramChannel,
        request: Option<&RequestId>,
        payload: &[u8],
        allowed: &mut dyn FnMut() -> bool,
    ) -> Result<(), DatagramError> {
        let request = match request {
            None => 0,
            Some(id) => request_number(id).ok_or(DatagramError)?,
        };
        let longest = self.session.max_datagram_size().min(Datagram::MAX_LENGTH);
        if !self.are_enabled || payload.len() + Datagram::HEADER > longest {
            return Err(DatagramError);
        }
        let mut queue = self.queue();
        if !allowed() {
            return Ok(());
        }
        if queue.len() >= QUEUE_CAPACITY {
            queue.pop_front();
            self.count_dropped();
        }
        let datagram = Datagram { channel, request, payload }.encode();
        queue.push_back(QueuedDatagram { request, datagram });
        drop(queue);
        self.added.notify_one();
        Ok(())
    }

    fn discard(&self, request: &RequestId) {
        if let Some(request) = request_number(request) {
            self.queue().retain(|queued| queued.request != request);
        }
    }
}

/// Capacity of the queue.
const QUEUE_CAPACITY: usize = 128;

/// Polling interval for buffer space; quinn has no notification for it.
const BUFFER_POLL: Duration = Duration::from_millis(1);
