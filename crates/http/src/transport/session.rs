//! MCP session of Streamable HTTP (`Mcp-Session-Id`): a server connection that outlives the requests
//! that use it, and its event logs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mcp_flow_proto::{Incoming, RequestId};
use mcp_flow_server::connection::Exchange;
use mcp_flow_server::{Connection, Principal, Segment};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::event_log::{Budget, EventLog};
use super::sessions::TransportSession;
use crate::cluster::relay::error_message;
use crate::cluster::session_record::SessionRecord;
use crate::cluster::{ClusterNodes, epoch_of};

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
    /// Record from which other nodes adopt it.
    shared: SharedSession,
}

/// Record of a session in the store of a cluster.
#[derive(Debug, Default)]
struct SharedSession {
    record: Mutex<Option<SessionRecord>>,
    /// Epoch in which this node holds the record; 0 if there is none.
    home: AtomicU64,
    /// Locked while the record is written, so that it is written in order.
    saving: tokio::sync::Mutex<()>,
    /// Time of the last write, in milliseconds since the session was opened.
    saved: AtomicU64,
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
            shared: SharedSession::default(),
        })
    }

    /// Creates the record of a new session. Without one it is known to this node only.
    pub(crate) async fn share(
        &self,
        cluster: &dyn ClusterNodes,
        record: Option<SessionRecord>,
        lifetime: Duration,
    ) {
        let (Some(record), Some(epoch)) = (record, epoch_of(&self.id)) else { return };
        let value = serde_json::to_vec(&record).unwrap_or_default();
        match cluster.change_record(&self.id, None, Some((epoch, value)), lifetime).await {
            Ok(_) => {
                *self.shared.record.lock() = Some(record);
                self.shared.home.store(epoch, Ordering::Release);
            }
            Err(error) => tracing::warn!(%error, "other nodes cannot serve a session"),
        }
    }

    /// Begins as the session of another node, whose record this node holds now. Calls that were
    /// open are answered with an error on their streams.
    pub(crate) fn adopt(
        &self,
        epoch: u64,
        record: SessionRecord,
        open_calls: &BTreeMap<u64, Vec<RequestId>>,
    ) {
        // Above all numbers that the nodes before have used.
        let first = record.generation << 32;
        self.last_log.store(first, Ordering::Relaxed);
        for (number, ids) in open_calls {
            let log = EventLog::starting_after(first, *number, self.budget.clone());
            ids.iter().for_each(|id| log.append(&error_message(id)));
            log.finish();
            self.keep(log);
        }
        *self.shared.record.lock() = Some(record);
        self.shared.home.store(epoch, Ordering::Release);
    }

    /// Returns whether this node still holds the session, as far as it can find out.
    pub(crate) async fn is_held(&self, cluster: &dyn ClusterNodes, lifetime: Duration) -> bool {
        let home = self.shared.home.load(Ordering::Acquire);
        match cluster.epoch() {
            Some(epoch) if home != 0 && epoch != home => {
                // The lease was lost in between, so another node may have adopted it.
                self.write_record(cluster, Some(epoch), lifetime).await
            }
            _ => true,
        }
    }

    /// Takes note of a message that the next node needs. Returns whether the record has to be saved.
    pub(crate) fn observe(&self, incoming: &Incoming<'_>, message: &[u8]) -> bool {
        self.shared.record.lock().as_mut().is_some_and(|record| record.observe(incoming, message))
    }

    /// Returns whether the record has to be saved so that it does not expire.
    pub(crate) fn is_record_old(&self, lifetime: Duration) -> bool {
        let saved = Duration::from_millis(self.shared.saved.load(Ordering::Relaxed));
        self.shared.home.load(Ordering::Relaxed) != 0
            && self.opened.elapsed().saturating_sub(saved) > lifetime / 4
    }

    /// Records calls that are answered by an event stream, so that they are answered by another
    /// node if this one dies. Returns whether there is a record.
    pub(crate) fn begin_calls(&self, stream: u64, ids: Vec<RequestId>) -> bool {
        let mut record = self.shared.record.lock();
        let Some(record) = record.as_mut().filter(|_| !ids.is_empty()) else { return false };
        if record.open_calls.len() >= MAX_OPEN_CALLS {
            record.open_calls.pop_first();
        }
        record.open_calls.insert(stream, ids);
        true
    }

    /// Removes the calls of an event stream from the record. Returns whether it had any.
    fn end_calls(&self, stream: u64) -> bool {
        let mut record = self.shared.record.lock();
        record.as_mut().is_some_and(|record| record.open_calls.remove(&stream).is_some())
    }

    /// Writes the record as it is now. If another node holds it, the session ends here.
    pub(crate) async fn save(&self, cluster: &dyn ClusterNodes, lifetime: Duration) {
        if !self.write_record(cluster, None, lifetime).await {
            self.connection.close_now();
        }
    }

    /// Removes the record, or leaves it to whichever node is asked next.
    pub(crate) async fn give_up(
        &self,
        cluster: &dyn ClusterNodes,
        is_left_to_others: bool,
        lifetime: Duration,
    ) {
        let _saving = self.shared.saving.lock().await;
        let home = self.shared.home.swap(0, Ordering::AcqRel);
        let record = self.shared.record.lock().take();
        if home == 0 {
            return;
        }
        let record = record.filter(|_| is_left_to_others);
        let record = record.and_then(|record| serde_json::to_vec(&record).ok());
        let record = record.map(|value| (0, value));
        if let Err(error) = cluster.change_record(&self.id, Some(home), record, lifetime).await {
            tracing::debug!(%error, "the record of a session is left to expire");
        }
    }

    /// Writes the record, held in this epoch or as before. False if another node holds it.
    async fn write_record(
        &self,
        cluster: &dyn ClusterNodes,
        epoch: Option<u64>,
        lifetime: Duration,
    ) -> bool {
        let _saving = self.shared.saving.lock().await;
        let home = self.shared.home.load(Ordering::Acquire);
        let value = self.shared.record.lock().as_ref().map(serde_json::to_vec);
        let Some(Ok(value)) = value.filter(|_| home != 0) else { return true };
        let epoch = epoch.unwrap_or(home);
        match cluster.change_record(&self.id, Some(home), Some((epoch, value)), lifetime).await {
            Ok(true) => {
                self.shared.home.store(epoch, Ordering::Release);
                let now = u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX);
                self.shared.saved.store(now, Ordering::Relaxed);
                true
            }
            Ok(false) => false,
            Err(error) => {
                tracing::debug!(%error, "cannot write the record of a session");
                true
            }
        }
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

    /// Like [`record`](Self::record), and removes the calls from the record of the session after.
    pub(crate) async fn record_shared(
        &self,
        log: &EventLog,
        exchange: Exchange,
        first: Option<Segment>,
        cluster: Option<(&dyn ClusterNodes, Duration)>,
    ) {
        self.record(log, exchange, first).await;
        if let Some((cluster, lifetime)) = cluster
            && self.end_calls(log.number())
        {
            self.save(cluster, lifetime).await;
        }
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

/// Limit on recorded calls that are answered by event streams.
const MAX_OPEN_CALLS: usize = 256;
