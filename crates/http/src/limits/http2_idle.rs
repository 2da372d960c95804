//! HTTP/2 idle tracking: closes connections without requests, or with responses nobody reads.
//!
//! A write timeout on the socket cannot detect either: pings continue, and flow control blocks one
//! stream at a time. So this module tracks the streams of a connection one by one.

use std::collections::BTreeSet;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::StatusCode;
use hyper::body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use crate::limits::counted_body::with_guard;
use crate::options::Options;
use crate::response::{HttpResponse, ResponseBody};

/// Open streams and unread responses of one connection. Clones share their state.
#[derive(Clone, Debug)]
pub(crate) struct StreamTracker(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    open: usize,
    /// Set once a request was authenticated.
    is_authenticated: bool,
    idle_since: Instant,
    /// Deadlines of unread data, each with a unique number.
    deadlines: BTreeSet<(Instant, u64)>,
    last: u64,
}

/// Reason to close a connection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum CloseReason {
    /// No stream was open for too long.
    Idle,
    /// Response data was not read in time.
    Unread,
}

impl StreamTracker {
    pub(crate) fn new() -> Self {
        let state = State {
            open: 0,
            is_authenticated: false,
            idle_since: Instant::now(),
            deadlines: BTreeSet::new(),
            last: 0,
        };
        Self(Arc::new(Mutex::new(state)))
    }

    /// Counts a request as an open stream until the guard is dropped.
    pub(crate) fn open(&self) -> OpenStream {
        self.0.lock().open += 1;
        OpenStream(self.clone())
    }

    /// Completes when the connection should be closed.
    pub(crate) async fn expired(&self, options: &Options) -> CloseReason {
        loop {
            let now = Instant::now();
            {
                let state = self.0.lock();
                let idle_limit = match state.is_authenticated {
                    true => options.write_timeout,
                    false => options.head_timeout,
                };
                let is_idle = state.open == 0 && state.deadlines.is_empty();
                if is_idle && now - state.idle_since >= idle_limit {
                    return CloseReason::Idle;
                }
                if state.deadlines.first().is_some_and(|(deadline, _)| *deadline <= now) {
                    return CloseReason::Unread;
                }
            }
            sleep((options.head_timeout / 4).max(MINIMUM_INTERVAL)).await;
        }
    }
}

/// Guard of one open stream, until its response is handed to hyper.
#[derive(Debug)]
pub(crate) struct OpenStream(StreamTracker);

impl OpenStream {
    /// Tracks the response of this stream: its data must be read in time.
    pub(crate) fn track(
        self,
        response: HttpResponse,
        options: &Options,
    ) -> hyper::Response<TrackedBody> {
        let is_rejected =
            matches!(response.status(), StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        self.0.0.lock().is_authenticated |= !is_rejected;
        response.map(|mut body| {
            if let ResponseBody::Whole(Some(bytes)) | ResponseBody::WithFollowUps(Some(bytes), _) =
                &mut body
            {
                *bytes = self.0.with_deadline(std::mem::take(bytes), options.write_timeout);
            }
            TrackedBody { body, write_timeout: options.write_timeout, stream: self }
        })
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        let mut state = self.0.0.lock();
        state.open -= 1;
        state.idle_since = Instant::now();
    }
}

impl StreamTracker {
    /// Attaches a deadline to bytes, by which the last piece of them must have been sent.
    fn with_deadline(&self, bytes: Bytes, write_timeout: Duration) -> Bytes {
        let mut state = self.0.lock();
        state.last += 1;
        let key = (Instant::now() + time_to_send(bytes.len(), write_timeout), state.last);
        state.deadlines.insert(key);
        drop(state);
        with_guard(bytes, Deadline { tracker: self.clone(), key })
    }
}

/// Deadline of unsent data, removed when the data is dropped.
struct Deadline {
    tracker: StreamTracker,
    key: (Instant, u64),
}

impl Drop for Deadline {
    fn drop(&mut self) {
        let mut state = self.tracker.0.lock();
        state.deadlines.remove(&self.key);
        state.idle_since = Instant::now();
    }
}

/// Body of a tracked response. Each frame of a streamed body has a deadline of its own.
pub(crate) struct TrackedBody {
    body: ResponseBody,
    write_timeout: Duration,
    stream: OpenStream,
}

impl Body for TrackedBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let Self { body, write_timeout, stream } = self.get_mut();
        let polled = Pin::new(&mut *body).poll_frame(context);
        if matches!(body, ResponseBody::Whole(_) | ResponseBody::WithFollowUps(..)) {
            return polled;
        }
        polled.map_ok(|frame| frame.map_data(|bytes| stream.0.with_deadline(bytes, *write_timeout)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Returns how long data may take to be sent: the write timeout plus its time at the minimum rate.
fn time_to_send(bytes: usize, write_timeout: Duration) -> Duration {
    write_timeout + Duration::from_secs((bytes / MINIMUM_RATE) as u64)
}

/// Bytes per second.
const MINIMUM_RATE: usize = 16 * 1024;

const MINIMUM_INTERVAL: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;
    use hyper::StatusCode;
    use hyper::body::Body as _;
    use tokio::time::{Instant, timeout};

    use super::{CloseReason, StreamTracker};
    use crate::options::Options;
    use crate::response::{events, json};

    /// PAT-024: an idle connection is closed, sooner if no request was authenticated; so is one with
    /// an unread response, even while other streams are active.
    #[tokio::test(start_paused = true)]
    async fn idle_and_unread_connections_are_closed() {
        let options = Options::default();
        for (status, limit) in [
            (None, options.head_timeout),
            (Some(StatusCode::UNAUTHORIZED), options.head_timeout),
            (Some(StatusCode::OK), options.write_timeout),
        ] {
            let tracker = StreamTracker::new();
            let open = tracker.open();
            if let Some(status) = status {
                drop(open.track(json(status, "{}"), &options));
            } else {
                drop(open);
            }
            let start = Instant::now();
            assert_eq!(tracker.expired(&options).await, CloseReason::Idle);
            assert!(start.elapsed() >= limit && start.elapsed() < limit * 2, "{status:?}");
        }
        let tracker = StreamTracker::new();
        let pending = tracker.open();
        let hour = Duration::from_secs(3600);
        assert!(timeout(hour, tracker.expired(&options)).await.is_err(), "a stream is open");
        let mut body = pending.track(json(StatusCode::OK, "{}"), &options).into_body();
        let sent =
            std::future::poll_fn(|context| std::pin::Pin::new(&mut body).poll_frame(context));
        let sent = sent.await.unwrap().unwrap().into_data().unwrap();
        drop(body);
        let _busy = tracker.open();
        assert_eq!(tracker.expired(&options).await, CloseReason::Unread);
        drop(sent);
        assert!(timeout(hour, tracker.expired(&options)).await.is_err(), "it was read");
        let pieces = events(futures_util::stream::repeat(Bytes::from_static(b"data: x\n\n")));
        let mut body = tracker.open().track(pieces, &options).into_body();
        let piece =
            std::future::poll_fn(|context| std::pin::Pin::new(&mut body).poll_frame(context));
        let piece = piece.await.unwrap().unwrap();
        assert_eq!(tracker.expired(&options).await, CloseReason::Unread);
        drop(piece);
        assert!(
            timeout(hour, tracker.expired(&options)).await.is_err(),
            "an open stream is not idle"
        );
    }
}
