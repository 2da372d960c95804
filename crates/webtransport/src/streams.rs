//! Execution streams of a session: one for each result that is too large for a message (WT-050 to
//! WT-057).
//!
//! A stream begins after the reply that names it was queued, so that messages come first. Streams
//! are tracked by request, so that cancelling a request stops its streams.

mod writer;

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use mcp_flow_proto::error::{SHUTTING_DOWN, STREAM_ID_NOT_REPRESENTABLE, STREAM_LIMIT_EXCEEDED};
use mcp_flow_proto::webtransport::{StreamError, StreamHeader, request_number};
use mcp_flow_proto::{RequestId, RpcError, method};
use mcp_flow_server::Connection;
use mcp_flow_server::bulk::{
    Bulk, DeliveryFuture, DeliveryRejected, DeliveryRequest, Location, SideChannel,
};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::http3::session::Session;
use crate::options::Options;
use crate::pause::StreamPause;
use writer::{EarlyEnd, StreamWriter};

/// The execution streams of one session.
#[derive(Debug)]
pub(crate) struct Streams {
    session: Session,
    /// Pauses streams while messages wait to be sent.
    pub(crate) pause: StreamPause,
    /// One permit for each stream that may be open.
    permits: Arc<Semaphore>,
    limit: u32,
    waiting: AtomicUsize,
    waiting_limit: usize,
    waiting_timeout: Duration,
    write_timeout: Duration,
    state: Mutex<State>,
    ended: Notify,
    connection: OnceLock<Weak<Connection>>,
    own: Weak<Self>,
}

#[derive(Debug, Default)]
struct State {
    requests: HashMap<u32, RequestStreams>,
    open: usize,
}

/// The streams of one request, by tag.
#[derive(Debug, Default)]
struct RequestStreams {
    last_tag: u32,
    streams: HashMap<u32, Stage>,
    /// Set once the reply was queued. Until then more streams may follow, and no tag is reused.
    is_replied: bool,
}

impl RequestStreams {
    fn is_finished(&self) -> bool {
        self.is_replied && self.streams.is_empty()
    }
}

#[derive(Debug)]
enum Stage {
    /// The reply that names it has not been queued.
    Waiting(Box<Bulk>, OwnedSemaphorePermit),
    /// It is being written.
    Running(Arc<StreamWriter>),
}

impl Streams {
    pub(crate) fn new(session: Session, options: &Options) -> Arc<Self> {
        Arc::new_cyclic(|own| Self {
            session,
            pause: StreamPause::new(),
            permits: Arc::new(Semaphore::new(options.max_streams as usize)),
            limit: options.max_streams,
            waiting: AtomicUsize::new(0),
            waiting_limit: options.max_waiting_streams,
            waiting_timeout: options.waiting_timeout,
            write_timeout: options.write_timeout,
            state: Mutex::default(),
            ended: Notify::new(),
            connection: OnceLock::new(),
            own: own.clone(),
        })
    }

    /// Sets the connection to report failures to. A session has one connection.
    pub(crate) fn attach(&self, connection: &Arc<Connection>) {
        let _ = self.connection.set(Arc::downgrade(connection));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.state().open == 0
    }

    /// Waits until a stream has ended.
    pub(crate) async fn drained(&self) {
        self.ended.notified().await;
    }

    /// Ends streams that the client has not read from for `time`, because they block messages.
    pub(crate) fn give_up_stalled(&self, time: Duration) {
        let stalled = |writer: &StreamWriter| writer.is_stalled(time);
        self.end_running(stalled, || EarlyEnd::GivenUp("it was not read and blocked messages"));
    }

    /// Ends all streams and reports the reason to the client.
    pub(crate) fn give_up_all(&self, reason: &'static str) {
        self.end_running(|_| true, || EarlyEnd::GivenUp(reason));
    }

    /// Ends all streams without a report, because the session is closed.
    pub(crate) fn stop_all(&self) {
        self.end_running(|_| true, || EarlyEnd::Cancelled);
        self.state().requests.clear();
    }

    fn end_running(&self, is_one: impl Fn(&StreamWriter) -> bool, ending: impl Fn() -> EarlyEnd) {
        let state = self.state();
        let running = state.requests.values().flat_map(|requested| requested.streams.values());
        for stage in running {
            if let Stage::Running(writer) = stage
                && is_one(writer)
            {
                writer.end(ending());
            }
        }
    }

    /// Starts the waiting streams of a request.
    fn begin(&self, request: u32) {
        let Some(own) = self.own.upgrade() else { return };
        let mut state = self.state();
        let Some(requested) = state.requests.get_mut(&request) else { return };
        for (&tag, stage) in &mut requested.streams {
            if matches!(stage, Stage::Running(_)) {
                continue;
            }
            let writer = Arc::new(StreamWriter::default());
            let previous = std::mem::replace(stage, Stage::Running(writer.clone()));
            if let Stage::Waiting(bulk, permit) = previous {
                let header = StreamHeader { request, tag };
                tokio::spawn(own.clone().write(header, *bulk, permit, writer));
            }
        }
    }

    async fn write(
        self: Arc<Self>,
        header: StreamHeader,
        bulk: Bulk,
        permit: OwnedSemaphorePermit,
        writer: Arc<StreamWriter>,
    ) {
        let written =
            Box::pin(writer.write(&self.session, &self.pause, header, bulk, self.write_timeout));
        if let Err(error) = written.await {
            tracing::debug!(?header, error, "stream failed");
            self.report(&StreamError::new(header, error));
        }
        drop(permit);
        self.remove(header);
    }

    fn remove(&self, stream: StreamHeader) {
        let mut state = self.state();
        if let Some(requested) = state.requests.get_mut(&stream.request)
            && requested.streams.remove(&stream.tag).is_some()
        {
            let is_finished = requested.is_finished();
            state.open -= 1;
            if is_finished {
                state.requests.remove(&stream.request);
            }
        }
        drop(state);
        self.ended.notify_one();
    }

    /// Reports a failed stream to the client (WT-049).
    pub(crate) fn report(&self, error: &StreamError) {
        if let Some(connection) = self.connection.get().and_then(Weak::upgrade) {
            // A stream error can always be encoded.
            let _ = connection.notify(method::STREAM_ERROR, error);
        }
    }

    /// Acquires a permit for one more stream. Waits if not too many others do (C-16).
    async fn acquire_permit(&self, request: u32) -> Result<OwnedSemaphorePermit, DeliveryRejected> {
        if let Ok(permit) = self.permits.clone().try_acquire_owned() {
            return Ok(permit);
        }
        let _waiter =
            Waiter::new(&self.waiting, self.waiting_limit).ok_or_else(|| self.too_many())?;
        // Earlier streams of this request must not wait for its reply, or it might deadlock.
        self.begin(request);
        match timeout(self.waiting_timeout, self.permits.clone().acquire_owned()).await {
            Ok(Ok(permit)) => Ok(permit),
            _ => Err(self.too_many()),
        }
    }

    fn too_many(&self) -> DeliveryRejected {
        let error = RpcError::new(STREAM_LIMIT_EXCEEDED)
            .details("All streams are in use; read or cancel some, then retry.")
            .with("limit", self.limit)
            .with("open", self.state().open)
            .with("retryable", true);
        DeliveryRejected(error)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl SideChannel for Streams {
    fn is_open(&self, request: &RequestId) -> bool {
        let Some(request) = request_number(request) else { return false };
        let state = self.state();
        state.open > 0
            && state.requests.get(&request).is_some_and(|requested| !requested.streams.is_empty())
    }

    fn check(&self, request: &RequestId) -> Result<(), DeliveryRejected> {
        if request_number(request).is_none() {
            return Err(not_representable());
        }
        let connection = self.connection.get().and_then(Weak::upgrade);
        if connection.is_none_or(|connection| connection.is_ending()) {
            let details = "No more streams are opened; reconnect.";
            return Err(DeliveryRejected(RpcError::new(SHUTTING_DOWN).details(details)));
        }
        Ok(())
    }

    fn deliver<'a>(&'a self, request: &'a DeliveryRequest<'a>, bulk: Bulk) -> DeliveryFuture<'a> {
        Box::pin(async move {
            let Some(request) = request_number(request.request) else {
                return Err(not_representable());
            };
            let permit = self.acquire_permit(request).await?;
            let mut state = self.state();
            state.open += 1;
            let requested = state.requests.entry(request).or_default();
            requested.is_replied = false;
            requested.last_tag += 1;
            let tag = requested.last_tag;
            requested.streams.insert(tag, Stage::Waiting(Box::new(bulk), permit));
            Ok(Location::Stream(tag))
        })
    }

    fn replied(&self, request: &RequestId, is_result: bool) {
        let Some(request) = request_number(request) else { return };
        if is_result {
            self.begin(request);
        }
        let mut dropped = Vec::new();
        let mut state = self.state();
        if let Some(requested) = state.requests.get_mut(&request) {
            requested.is_replied = true;
            if !is_result {
                let waiting = requested.streams.extract_if(|_, stage| stage.is_waiting());
                dropped.extend(waiting.map(|(_, stage)| stage));
                // Streams that began before the reply are not named by it.
                requested.streams.values().for_each(|stage| stage.end(EarlyEnd::Cancelled));
            }
            let is_finished = requested.is_finished();
            state.open -= dropped.len();
            if is_finished {
                state.requests.remove(&request);
            }
        }
        drop(state);
        if !dropped.is_empty() {
            self.ended.notify_one();
        }
    }

    fn cancelled(&self, request: &RequestId) {
        self.replied(request, false);
    }

    fn failed(&self, error: &StreamError) {
        let StreamHeader { request, tag } = error.stream;
        tracing::debug!(request, tag, error = error.error, "client could not read a stream");
        let state = self.state();
        let stage = state.requests.get(&request).and_then(|requested| requested.streams.get(&tag));
        if let Some(stage) = stage {
            stage.end(EarlyEnd::Cancelled);
        }
    }
}

impl Stage {
    fn is_waiting(&self) -> bool {
        matches!(self, Self::Waiting(..))
    }

    fn end(&self, ending: EarlyEnd) {
        if let Self::Running(writer) = self {
            writer.end(ending);
        }
    }
}

fn not_representable() -> DeliveryRejected {
    let details = "The result is too large for a message, and only requests whose id is a number \
                   from 1 to 4294967295 have streams.";
    DeliveryRejected(RpcError::new(STREAM_ID_NOT_REPRESENTABLE).details(details))
}

/// Counts one waiter.
struct Waiter<'a>(&'a AtomicUsize);

impl<'a> Waiter<'a> {
    fn new(waiting: &'a AtomicUsize, limit: usize) -> Option<Self> {
        let previous = waiting.fetch_add(1, Ordering::AcqRel);
        let counted = Self(waiting);
        (previous < limit).then_some(counted)
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}
