//! Bodies of requests and responses that are copied to the recorder as they pass.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use hyper::Response;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header;
use parking_lot::Mutex;

use crate::connections::Connections;
use crate::content::RecordedContent;
use crate::format::Side;
use crate::links::LinkRewriter;
use crate::recorder::Recorder;
use crate::tap::{Collector, EventTap, Piece};

/// Body of a request, whose message is kept until its connection is known.
pub(crate) struct RequestTap {
    body: Incoming,
    collector: Collector,
    recorder: Recorder,
    sent: Arc<Mutex<Vec<(f64, Piece)>>>,
}

impl RequestTap {
    pub(crate) fn new(
        body: Incoming,
        recorder: Recorder,
        sent: Arc<Mutex<Vec<(f64, Piece)>>>,
    ) -> Self {
        Self { body, collector: Collector::default(), recorder, sent }
    }

    fn finish(&mut self) {
        if let Some(piece) = self.collector.take() {
            self.sent.lock().push((self.recorder.now(), piece));
        }
    }
}

impl Body for RequestTap {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(task));
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
        {
            self.collector.push(data);
        }
        if frame.is_none() || self.body.is_end_stream() {
            self.finish();
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Part that is cut from a response.
pub(crate) enum ResponseTap {
    Message(Collector),
    Events(EventTap),
    Download(RecordedContent),
    Nothing,
}

impl ResponseTap {
    pub(crate) fn for_response(
        response: &Response<Incoming>,
        is_post: bool,
        path: &str,
        recorder: &Recorder,
    ) -> Self {
        let media = response.headers().get(header::CONTENT_TYPE);
        let media = media.and_then(|media| media.to_str().ok()).unwrap_or_default();
        let media = media.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        match &*media {
            "text/event-stream" => Self::Events(EventTap::default()),
            "application/json" if is_post => Self::Message(Collector::default()),
            _ if is_post || !response.status().is_success() => Self::Nothing,
            _ => Self::Download(recorder.record_content(path)),
        }
    }

    pub(crate) fn has_messages(&self) -> bool {
        matches!(self, Self::Message(_) | Self::Events(_))
    }

    fn push(&mut self, data: &[u8], pieces: &mut Vec<Piece>) {
        match self {
            Self::Message(collector) => collector.push(data),
            Self::Events(events) => events.push(data, pieces),
            Self::Download(content) => content.push(data),
            Self::Nothing => {}
        }
    }
}

/// Begins a connection if the stream tells its client where to post.
pub(crate) struct EventStream {
    pub(crate) connections: Arc<Connections>,
    /// Path and query of the stream.
    pub(crate) path: String,
}

/// Body of a response, copied to the recorder as it passes.
pub(crate) struct CopiedBody {
    body: Incoming,
    tap: ResponseTap,
    recorder: Recorder,
    connection: u64,
    exchange: Option<u64>,
    stream: EventStream,
    pieces: VecDeque<(f64, Piece)>,
    /// A piece that waits for room.
    waiting: Option<BoxFuture<'static, ()>>,
    /// A frame that is passed on when its messages are recorded: an answer must not be recorded before
    /// its question.
    passing: Option<Option<Result<Frame<Bytes>, hyper::Error>>>,
    /// Rewrites what is passed on, not what is recorded.
    links: Option<LinkRewriter>,
}

impl CopiedBody {
    pub(crate) fn new(
        body: Incoming,
        tap: ResponseTap,
        recorder: Recorder,
        (connection, exchange): (u64, Option<u64>),
        stream: EventStream,
    ) -> Self {
        let (pieces, waiting, passing, links) = (VecDeque::new(), None, None, None);
        Self { body, tap, recorder, connection, exchange, stream, pieces, waiting, passing, links }
    }

    /// Rewrites links in what is passed on.
    pub(crate) fn rewriting(mut self, links: Option<LinkRewriter>) -> Self {
        self.links = links;
        self
    }

    /// The frame that is passed on in place of one of the server.
    fn rewrite(
        &mut self,
        frame: Option<Result<Frame<Bytes>, hyper::Error>>,
    ) -> Option<Result<Frame<Bytes>, hyper::Error>> {
        let Some(links) = &mut self.links else { return frame };
        match frame {
            Some(Ok(frame)) => Some(Ok(frame.map_data(|data| links.push(&data)))),
            Some(Err(error)) => Some(Err(error)),
            None => links.finish().map(|rest| Ok(Frame::data(rest))),
        }
    }

    /// Begins a connection if the stream has told its client where to post.
    fn begin_events(&mut self) {
        if let ResponseTap::Events(events) = &mut self.tap
            && let Some(endpoint) = events.endpoint.take()
        {
            self.connection = self.stream.connections.begin_events(&self.stream.path, &endpoint);
        }
    }

    /// Records what is complete.
    fn poll_record(&mut self, task: &mut Context<'_>) -> Poll<()> {
        loop {
            if let Some(waiting) = &mut self.waiting {
                ready!(waiting.as_mut().poll(task));
                self.waiting = None;
            }
            let Some((at, piece)) = self.pieces.pop_front() else { return Poll::Ready(()) };
            let (recorder, connection, exchange) =
                (self.recorder.clone(), self.connection, self.exchange);
            self.waiting = Some(Box::pin(async move {
                recorder.record_at(at, Side::Server, connection, exchange, piece).await;
            }));
        }
    }

    fn take_rest(&mut self) {
        let at = self.recorder.now();
        // A download is recorded when it is dropped.
        if let ResponseTap::Message(mut collector) =
            std::mem::replace(&mut self.tap, ResponseTap::Nothing)
        {
            self.pieces.extend(collector.take().map(|piece| (at, piece)));
        }
    }
}

impl Body for CopiedBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        loop {
            ready!(self.poll_record(task));
            if let Some(frame) = self.passing.take() {
                return Poll::Ready(frame);
            }
            let frame = ready!(Pin::new(&mut self.body).poll_frame(task));
            if let Some(Ok(frame)) = &frame
                && let Some(data) = frame.data_ref()
            {
                let (at, mut cut) = (self.recorder.now(), Vec::new());
                self.tap.push(data, &mut cut);
                self.begin_events();
                self.pieces.extend(cut.into_iter().map(|piece| (at, piece)));
            }
            if frame.is_none() || self.body.is_end_stream() {
                self.take_rest();
            }
            self.passing = Some(self.rewrite(frame));
        }
    }

    fn is_end_stream(&self) -> bool {
        let holds_back = self.links.as_ref().is_some_and(LinkRewriter::holds_back);
        self.passing.is_none() && !holds_back && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        match self.links {
            Some(_) => SizeHint::default(),
            None => self.body.size_hint(),
        }
    }
}

impl Drop for CopiedBody {
    /// Records the rest: a body is not polled after its end.
    fn drop(&mut self) {
        self.take_rest();
        for (at, piece) in self.pieces.drain(..) {
            self.recorder.record_at_once(at, Side::Server, self.connection, self.exchange, piece);
        }
    }
}
