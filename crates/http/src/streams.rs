//! Not keeping a connection by HTTP/2 on which nothing is asked for, or nothing is read.
//!
//! Such a connection is never stuck as a whole: pings go on, and what is not read of one answer
//! holds up no other. So its streams are looked at one by one.

use std::collections::BTreeSet;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::StatusCode;
use hyper::body::{Body, Frame, SizeHint};
use tokio::time::{Instant, sleep};

use crate::answer::{Answer, AnswerBody};
use crate::held::Owned;
use crate::options::Options;

/// What is open on one connection. A handle; clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Streams(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    open: usize,
    /// Whether anybody was let in.
    is_used: bool,
    quiet_since: Instant,
    /// By when answers have to be read, each with a number that tells it from others.
    due: BTreeSet<(Instant, u64)>,
    last: u64,
}

/// Why a connection is over.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Over {
    /// Nothing was asked for, for long enough.
    Quiet,
    /// An answer was not read in time.
    Unread,
}

impl Streams {
    pub(crate) fn new() -> Self {
        let state = State {
            open: 0,
            is_used: false,
            quiet_since: Instant::now(),
            due: BTreeSet::new(),
            last: 0,
        };
        Self(Arc::new(Mutex::new(state)))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request has come; it is open until what is returned is dropped.
    pub(crate) fn open(&self) -> Open {
        self.state().open += 1;
        Open(self.clone())
    }

    /// Completes when the connection is worth nothing any more.
    pub(crate) async fn over(&self, options: &Options) -> Over {
        loop {
            let now = Instant::now();
            {
                let state = self.state();
                let most = if state.is_used { options.unread_time } else { options.head_time };
                if state.open == 0 && state.due.is_empty() && now - state.quiet_since >= most {
                    return Over::Quiet;
                }
                if state.due.first().is_some_and(|(due, _)| *due <= now) {
                    return Over::Unread;
                }
            }
            sleep((options.head_time / 4).max(SHORTEST)).await;
        }
    }
}

/// One stream, until its answer was handed over to be sent.
#[derive(Debug)]
pub(crate) struct Open(Streams);

impl Open {
    /// The answer of this stream, which has to be read in time.
    pub(crate) fn answer(self, answer: Answer, options: &Options) -> hyper::Response<Followed> {
        let is_stranger =
            matches!(answer.status(), StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        self.0.state().is_used |= !is_stranger;
        answer.map(|mut body| {
            if let AnswerBody::Whole(Some(bytes)) | AnswerBody::Keeping(Some(bytes), _) = &mut body
            {
                let with = self.0.due_after(time_for(bytes.len(), options.unread_time));
                *bytes = Bytes::from_owner(Owned { bytes: std::mem::take(bytes), with });
            }
            Followed { body, unread_time: options.unread_time, open: self }
        })
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.open -= 1;
        state.quiet_since = Instant::now();
    }
}

impl Streams {
    fn due_after(&self, time: Duration) -> Unread {
        let mut state = self.state();
        state.last += 1;
        let key = (Instant::now() + time, state.last);
        state.due.insert(key);
        Unread { streams: self.clone(), key }
    }
}

/// An answer that is not sent yet.
struct Unread {
    streams: Streams,
    key: (Instant, u64),
}

impl Drop for Unread {
    fn drop(&mut self) {
        let mut state = self.streams.state();
        state.due.remove(&self.key);
        state.quiet_since = Instant::now();
    }
}

/// The body of an answer whose stream is followed. Of an answer that comes in pieces, each has to be
/// read in time.
pub(crate) struct Followed {
    body: AnswerBody,
    unread_time: Duration,
    open: Open,
}

impl Body for Followed {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let Self { body, unread_time, open } = self.get_mut();
        let polled = Pin::new(&mut *body).poll_frame(context);
        if matches!(body, AnswerBody::Whole(_) | AnswerBody::Keeping(..)) {
            return polled;
        }
        polled.map_ok(|frame| {
            frame.map_data(|bytes| {
                let with = open.0.due_after(time_for(bytes.len(), *unread_time));
                Bytes::from_owner(Owned { bytes, with })
            })
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// How long an answer may take to leave: how long clients may leave things unread, and as long as
/// the slowest line takes that is still a line.
fn time_for(bytes: usize, unread: Duration) -> Duration {
    unread + Duration::from_secs((bytes / SLOWEST) as u64)
}

/// Bytes per second.
const SLOWEST: usize = 16 * 1024;

const SHORTEST: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;
    use hyper::StatusCode;
    use hyper::body::Body as _;
    use tokio::time::{Instant, timeout};

    use super::{Over, Streams};
    use crate::answer::{events, json};
    use crate::options::Options;

    /// PAT-024: a connection ends some time after its last stream, soon if nobody was let in; and
    /// when an answer is not read, however much else goes on.
    #[tokio::test(start_paused = true)]
    async fn a_connection_that_does_nothing_ends() {
        let options = Options::default();
        for (status, limit) in [
            (None, options.head_time),
            (Some(StatusCode::UNAUTHORIZED), options.head_time),
            (Some(StatusCode::OK), options.unread_time),
        ] {
            let streams = Streams::new();
            let open = streams.open();
            if let Some(status) = status {
                drop(open.answer(json(status, "{}"), &options));
            } else {
                drop(open);
            }
            let start = Instant::now();
            assert_eq!(streams.over(&options).await, Over::Quiet);
            assert!(start.elapsed() >= limit && start.elapsed() < limit * 2, "{status:?}");
        }
        let streams = Streams::new();
        let waiting = streams.open();
        let hour = Duration::from_secs(3600);
        assert!(timeout(hour, streams.over(&options)).await.is_err(), "something is going on");
        let mut body = waiting.answer(json(StatusCode::OK, "{}"), &options).into_body();
        let sent =
            std::future::poll_fn(|context| std::pin::Pin::new(&mut body).poll_frame(context));
        let sent = sent.await.unwrap().unwrap().into_data().unwrap();
        drop(body);
        let _busy = streams.open();
        assert_eq!(streams.over(&options).await, Over::Unread);
        drop(sent);
        assert!(timeout(hour, streams.over(&options)).await.is_err(), "it was read");
        let pieces = events(futures_util::stream::repeat(Bytes::from_static(b"data: x\n\n")));
        let mut body = streams.open().answer(pieces, &options).into_body();
        let piece =
            std::future::poll_fn(|context| std::pin::Pin::new(&mut body).poll_frame(context));
        let piece = piece.await.unwrap().unwrap();
        assert_eq!(streams.over(&options).await, Over::Unread);
        drop(piece);
        assert!(timeout(hour, streams.over(&options)).await.is_err(), "one may listen for long");
    }
}
