//! Results too large for a message, each on an execution stream of its own (WT-050 to WT-057).
//!
//! A result first names its streams and then they begin, so that messages come first. What is
//! known of them is kept by request: whoever cancels one, or is told that it was given up, stops
//! its streams.

mod writing;

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use mcp_flow_proto::error::{SHUTTING_DOWN, STREAM_ID_NOT_REPRESENTABLE, STREAM_LIMIT_EXCEEDED};
use mcp_flow_proto::webtransport::{StreamError, StreamHeader, request_number};
use mcp_flow_proto::{RequestId, RpcError, method};
use mcp_flow_server::Connection;
use mcp_flow_server::bulk::{
    Bulk, DeliveryFuture, DeliveryRejected, DeliveryRequest, Location, SideChannel,
};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::gate::Gate;
use crate::http3_session::Session;
use crate::options::Options;
use writing::{Ending, Writing};

/// The execution streams of one session.
#[derive(Debug)]
pub(crate) struct Streams {
    session: Session,
    /// Where streams wait while messages do.
    pub(crate) gate: Gate,
    /// One for each stream that may be open.
    places: Arc<Semaphore>,
    most: u32,
    waiting: AtomicUsize,
    most_waiting: usize,
    waiting_time: Duration,
    unread_time: Duration,
    state: Mutex<State>,
    ended: Notify,
    connection: OnceLock<Weak<Connection>>,
    own: Weak<Self>,
}

#[derive(Debug, Default)]
struct State {
    requests: HashMap<u32, Requested>,
    open: usize,
}

/// The streams of one request, by tag.
#[derive(Debug, Default)]
struct Requested {
    last_tag: u32,
    streams: HashMap<u32, Stage>,
    /// Until its reply has left there may be more streams, and no tag is used twice.
    is_replied: bool,
}

impl Requested {
    fn is_over(&self) -> bool {
        self.is_replied && self.streams.is_empty()
    }
}

#[derive(Debug)]
enum Stage {
    /// The reply that names it has not left.
    Waiting(Box<Bulk>, OwnedSemaphorePermit),
    /// It is being written.
    Running(Arc<Writing>),
}

impl Streams {
    pub(crate) fn new(session: Session, options: &Options) -> Arc<Self> {
        Arc::new_cyclic(|own| Self {
            session,
            gate: Gate::new(),
            places: Arc::new(Semaphore::new(options.streams as usize)),
            most: options.streams,
            waiting: AtomicUsize::new(0),
            most_waiting: options.waiting_streams,
            waiting_time: options.waiting_time,
            unread_time: options.unread_time,
            state: Mutex::default(),
            ended: Notify::new(),
            connection: OnceLock::new(),
            own: own.clone(),
        })
    }

    /// Says where failures are to be reported. A session has one connection.
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

    /// Ends those that the client has not read from for so long, because they hold up messages.
    pub(crate) fn give_up_stalled(&self, time: Duration) {
        let stalled = |writing: &Writing| writing.is_stalled(time);
        self.end_running(stalled, || Ending::GivenUp("it was not read and held up messages"));
    }

    /// Ends all of them, telling the client why.
    pub(crate) fn give_up_all(&self, why: &'static str) {
        self.end_running(|_| true, || Ending::GivenUp(why));
    }

    /// Ends all of them, since there is nobody to tell.
    pub(crate) fn stop_all(&self) {
        self.end_running(|_| true, || Ending::Cancelled);
        self.state().requests.clear();
    }

    fn end_running(&self, is_one: impl Fn(&Writing) -> bool, ending: impl Fn() -> Ending) {
        let state = self.state();
        let running = state.requests.values().flat_map(|requested| requested.streams.values());
        for stage in running {
            if let Stage::Running(writing) = stage
                && is_one(writing)
            {
                writing.end(ending());
            }
        }
    }

    /// Lets the streams of a request begin.
    fn begin(&self, request: u32) {
        let Some(own) = self.own.upgrade() else { return };
        let mut state = self.state();
        let Some(requested) = state.requests.get_mut(&request) else { return };
        for (&tag, stage) in &mut requested.streams {
            if matches!(stage, Stage::Running(_)) {
                continue;
            }
            let writing = Arc::new(Writing::default());
            let before = std::mem::replace(stage, Stage::Running(writing.clone()));
            if let Stage::Waiting(bulk, place) = before {
                let header = StreamHeader { request, tag };
                tokio::spawn(own.clone().write(header, *bulk, place, writing));
            }
        }
    }

    async fn write(
        self: Arc<Self>,
        header: StreamHeader,
        bulk: Bulk,
        place: OwnedSemaphorePermit,
        writing: Arc<Writing>,
    ) {
        let written =
            Box::pin(writing.write(&self.session, &self.gate, header, bulk, self.unread_time));
        if let Err(error) = written.await {
            tracing::debug!(?header, error, "a stream failed");
            self.report(&StreamError::new(header, error));
        }
        drop(place);
        self.forget(header);
    }

    fn forget(&self, stream: StreamHeader) {
        let mut state = self.state();
        if let Some(requested) = state.requests.get_mut(&stream.request)
            && requested.streams.remove(&stream.tag).is_some()
        {
            let is_over = requested.is_over();
            state.open -= 1;
            if is_over {
                state.requests.remove(&stream.request);
            }
        }
        drop(state);
        self.ended.notify_one();
    }

    /// Tells the client that a stream has failed (WT-049).
    pub(crate) fn report(&self, error: &StreamError) {
        if let Some(connection) = self.connection.get().and_then(Weak::upgrade) {
            // Nothing in it cannot be encoded.
            let _ = connection.notify(method::STREAM_ERROR, error);
        }
    }

    /// A place for one more stream, waited for if not too many others do (C-16).
    async fn place(&self, request: u32) -> Result<OwnedSemaphorePermit, DeliveryRejected> {
        if let Ok(place) = self.places.clone().try_acquire_owned() {
            return Ok(place);
        }
        let _waits = Waits::new(&self.waiting, self.most_waiting).ok_or_else(|| self.too_many())?;
        // Those it has already must not wait for the reply, or it might wait for itself.
        self.begin(request);
        match timeout(self.waiting_time, self.places.clone().acquire_owned()).await {
            Ok(Ok(place)) => Ok(place),
            _ => Err(self.too_many()),
        }
    }

    fn too_many(&self) -> DeliveryRejected {
        let error = RpcError::new(STREAM_LIMIT_EXCEEDED)
            .details("As many streams are open as may be; read or cancel some, then try again.")
            .with("limit", self.most)
            .with("open", self.state().open)
            .with("retryable", true);
        DeliveryRejected(error)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
            let details = "No streams are opened any more; connect again.";
            return Err(DeliveryRejected(RpcError::new(SHUTTING_DOWN).details(details)));
        }
        Ok(())
    }

    fn deliver<'a>(&'a self, request: &'a DeliveryRequest<'a>, bulk: Bulk) -> DeliveryFuture<'a> {
        Box::pin(async move {
            let Some(request) = request_number(request.request) else {
                return Err(not_representable());
            };
            let place = self.place(request).await?;
            let mut state = self.state();
            state.open += 1;
            let requested = state.requests.entry(request).or_default();
            requested.is_replied = false;
            requested.last_tag += 1;
            let tag = requested.last_tag;
            requested.streams.insert(tag, Stage::Waiting(Box::new(bulk), place));
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
                // What has begun before the reply is not named by it.
                requested.streams.values().for_each(|stage| stage.end(Ending::Cancelled));
            }
            let is_over = requested.is_over();
            state.open -= dropped.len();
            if is_over {
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
        tracing::debug!(request, tag, error = error.error, "a client could not read a stream");
        let state = self.state();
        let stage = state.requests.get(&request).and_then(|requested| requested.streams.get(&tag));
        if let Some(stage) = stage {
            stage.end(Ending::Cancelled);
        }
    }
}

impl Stage {
    fn is_waiting(&self) -> bool {
        matches!(self, Self::Waiting(..))
    }

    fn end(&self, ending: Ending) {
        if let Self::Running(writing) = self {
            writing.end(ending);
        }
    }
}

fn not_representable() -> DeliveryRejected {
    let details = "The result is too large for a message, and only requests whose id is a number \
                   from 1 to 4294967295 have streams.";
    DeliveryRejected(RpcError::new(STREAM_ID_NOT_REPRESENTABLE).details(details))
}

/// Counts one that waits.
struct Waits<'a>(&'a AtomicUsize);

impl<'a> Waits<'a> {
    fn new(waiting: &'a AtomicUsize, most: usize) -> Option<Self> {
        let before = waiting.fetch_add(1, Ordering::AcqRel);
        let counted = Self(waiting);
        (before < most).then_some(counted)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}
