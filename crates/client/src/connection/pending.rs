//! Pending requests of one connection, by id, and their progress.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hashbrown::HashMap;
use mcp_flow_proto::OwnedRaw;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};

use crate::error::ServerError;
use crate::event::RequestProgress;
use crate::host::Host;
use crate::transport::TransportError;

/// Response to a request, or the reason why there is none.
pub(crate) type Reply = Result<OwnedRaw, RequestFailure>;

/// Failure of a request.
#[derive(Clone, Debug)]
pub(crate) enum RequestFailure {
    /// The server responded with an error.
    Server(ServerError),
    /// The request or its response was not delivered.
    Transport(TransportError),
}

/// Requests of one connection that wait for their responses.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    waiters: HashMap<i64, Waiter>,
    closed: Option<TransportError>,
}

struct Waiter {
    reply: oneshot::Sender<Reply>,
    progress: Option<Arc<ProgressSink>>,
    host: Option<Arc<dyn Host>>,
}

impl std::fmt::Debug for Waiter {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Waiter").field("progress", &self.progress).finish_non_exhaustive()
    }
}

/// Receiver of one request's progress notifications.
#[derive(Debug)]
pub(crate) struct ProgressSink {
    sender: Option<mpsc::Sender<RequestProgress>>,
    state: Mutex<f64>,
    /// Number of reports so far, which extend the request's timeout.
    count: AtomicU64,
}

impl ProgressSink {
    pub(crate) fn new(sender: Option<mpsc::Sender<RequestProgress>>) -> Self {
        Self { sender, state: Mutex::new(f64::NEG_INFINITY), count: AtomicU64::new(0) }
    }

    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    fn report(&self, progress: RequestProgress) {
        {
            let mut last = self.state.lock();
            match progress.progress.partial_cmp(&*last) {
                Some(std::cmp::Ordering::Greater) => *last = progress.progress,
                // Progress must increase; NaN is ignored too.
                _ => return,
            }
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        if let Some(sender) = &self.sender {
            // A slow consumer misses reports.
            let _ = sender.try_send(progress);
        }
    }
}

impl Pending {
    /// Registers a request; an error if the connection is closed.
    pub(crate) fn add(
        &self,
        id: i64,
        progress: Option<Arc<ProgressSink>>,
        host: Option<Arc<dyn Host>>,
    ) -> Result<oneshot::Receiver<Reply>, TransportError> {
        let (reply, receiver) = oneshot::channel();
        let mut table = self.lock();
        if let Some(error) = &table.closed {
            return Err(error.clone());
        }
        table.waiters.insert(id, Waiter { reply, progress, host });
        Ok(receiver)
    }

    /// The host of the request that a message belongs to: the request whose response stream it
    /// arrived on, or else the only pending request that has a host.
    pub(crate) fn host(&self, during: Option<i64>) -> Option<Arc<dyn Host>> {
        let table = self.lock();
        if let Some(id) = during {
            return table.waiters.get(&id)?.host.clone();
        }
        let mut hosts = table.waiters.values().filter_map(|waiter| waiter.host.as_ref());
        hosts.next().filter(|_| hosts.next().is_none()).cloned()
    }

    /// Completes a request. Returns whether it was pending.
    pub(crate) fn settle(&self, id: i64, reply: Reply) -> bool {
        let waiter = self.lock().waiters.remove(&id);
        waiter.is_some_and(|waiter| waiter.reply.send(reply).is_ok())
    }

    /// Removes a request without completing it. Returns whether it was pending.
    pub(crate) fn forget(&self, id: i64) -> bool {
        self.lock().waiters.remove(&id).is_some()
    }

    /// Returns whether no request is pending, though they could be.
    pub(crate) fn is_idle(&self) -> bool {
        let table = self.lock();
        table.waiters.is_empty() && table.closed.is_none()
    }

    pub(crate) fn is_pending(&self, id: i64) -> bool {
        self.lock().waiters.contains_key(&id)
    }

    pub(crate) fn report(&self, id: i64, progress: RequestProgress) {
        let sink = self.lock().waiters.get(&id).and_then(|waiter| waiter.progress.clone());
        if let Some(sink) = sink {
            sink.report(progress);
        }
    }

    /// Fails all requests, now and later. Returns false if it was closed before.
    pub(crate) fn close(&self, error: &TransportError) -> bool {
        let waiters = {
            let mut table = self.lock();
            if table.closed.is_some() {
                return false;
            }
            table.closed = Some(error.clone());
            std::mem::take(&mut table.waiters)
        };
        for (_, waiter) in waiters {
            let _ = waiter.reply.send(Err(RequestFailure::Transport(error.clone())));
        }
        true
    }

    pub(crate) fn closed(&self) -> Option<TransportError> {
        self.lock().closed.clone()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.lock().closed.is_some()
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, Table> {
        self.table.lock()
    }
}
