//! Responses, and their bodies.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use hyper::body::{Body, Frame, SizeHint};
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use hyper::{Response, StatusCode};
use mcp_flow_proto::error::OVERLOADED;
use mcp_flow_proto::{Encoding, RequestId, Revision, RpcError, write};
use mcp_flow_server::bulk::BulkReader;
use mcp_flow_server::connection::{FlushGuard, Segment};

use crate::metrics::Connected;

/// A response of ours.
pub(crate) type Answer = Response<AnswerBody>;

/// What a response holds: a text that is there, events as they come, or something large piece by
/// piece, as fast as the client takes it.
pub(crate) enum AnswerBody {
    Whole(Option<Bytes>),
    /// A text, and what is dropped when it has left.
    Keeping(Option<Bytes>, Keeping),
    Events(Pin<Box<dyn Stream<Item = Bytes> + Send>>),
    Bulk {
        reader: BulkReader,
        /// How much is still to come, if that is known.
        left: Option<u64>,
        /// Completes when no more may be sent.
        end: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    },
}

/// What is dropped when an answer has left, by which connection that may be.
pub(crate) struct Keeping {
    kept: Vec<FlushGuard>,
    connected: Option<Arc<Connected>>,
}

impl Keeping {
    /// Says by which connection the answer leaves.
    pub(crate) fn leave_by(&mut self, connected: Arc<Connected>) {
        self.connected = Some(connected);
    }

    /// The answer is handed over to be sent; the connection sees to the rest.
    fn hand_over(&mut self) {
        if let Some(connected) = self.connected.take() {
            connected.departures.add(std::mem::take(&mut self.kept));
        }
    }
}

impl AnswerBody {
    /// Breaks off what takes long, a stream of events or a download, when something happens.
    pub(crate) fn end_when(&mut self, ending: impl Future<Output = ()> + Send + 'static) {
        match self {
            Self::Events(events) => {
                let empty: Pin<Box<dyn Stream<Item = Bytes> + Send>> =
                    Box::pin(futures_util::stream::empty());
                let events = std::mem::replace(events, empty);
                *self = Self::Events(Box::pin(events.take_until(Box::pin(ending))));
            }
            Self::Bulk { end, .. } => *end = Some(Box::pin(ending)),
            Self::Whole(_) | Self::Keeping(..) => {}
        }
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Keeping(bytes, keeping) => {
                keeping.hand_over();
                Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes))))
            }
            Self::Events(events) => events
                .as_mut()
                .poll_next(context)
                .map(|event| event.map(|event| Ok(Frame::data(event)))),
            Self::Bulk { left: Some(0), .. } => Poll::Ready(None),
            Self::Bulk { reader, left, end } => {
                if let Some(end) = end
                    && end.as_mut().poll(context).is_ready()
                {
                    return Poll::Ready(Some(Err(io::ErrorKind::ConnectionAborted.into())));
                }
                let mut piece = match ready!(reader.poll_next_unpin(context)) {
                    Some(Ok(piece)) => piece,
                    // An error breaks the connection off, so that nobody takes a part for the whole:
                    // the reader fails if there is not as much as announced.
                    end => return Poll::Ready(end.map(|end| end.map(Frame::data))),
                };
                if let Some(left) = left {
                    piece.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
                    *left -= piece.len() as u64;
                }
                Poll::Ready(Some(Ok(Frame::data(piece))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(
            self,
            Self::Whole(None) | Self::Keeping(None, _) | Self::Bulk { left: Some(0), .. }
        )
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) | Self::Keeping(bytes, _) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Self::Bulk { left: Some(left), .. } => SizeHint::with_exact(*left),
            Self::Events(_) | Self::Bulk { left: None, .. } => SizeHint::default(),
        }
    }
}

/// A message, as it is.
pub(crate) fn json(status: StatusCode, message: impl Into<Bytes>) -> Answer {
    whole(status, JSON, message.into())
}

/// One message of the server, and what is dropped when it has left.
pub(crate) fn reply_keeping(segment: Segment, kept: Vec<FlushGuard>) -> Answer {
    let mut answer = reply(StatusCode::OK, segment);
    if let (false, AnswerBody::Whole(bytes)) = (kept.is_empty(), answer.body_mut()) {
        *answer.body_mut() = AnswerBody::Keeping(bytes.take(), Keeping { kept, connected: None });
    }
    answer
}

/// A plain text.
pub(crate) fn text(status: StatusCode, text: impl Into<Bytes>) -> Answer {
    whole(status, HeaderValue::from_static("text/plain; charset=utf-8"), text.into())
}

fn whole(status: StatusCode, kind: HeaderValue, body: Bytes) -> Answer {
    let mut answer = Response::new(AnswerBody::Whole(Some(body)));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, kind);
    answer
}

/// A status that says everything.
pub(crate) fn empty(status: StatusCode) -> Answer {
    let mut answer = Response::new(AnswerBody::Whole(None));
    *answer.status_mut() = status;
    answer
}

/// Something large, of a length that may be known.
pub(crate) fn bulk(reader: BulkReader, length: Option<u64>) -> Answer {
    Response::new(AnswerBody::Bulk { reader, left: length, end: None })
}

/// Events as they come.
pub(crate) fn events(events: impl Stream<Item = Bytes> + Send + 'static) -> Answer {
    let mut answer = Response::new(AnswerBody::Events(Box::pin(events)));
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    // Proxies must pass events on as they come.
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    answer
}

/// A refusal: a JSON-RPC error, so that programs and people can both read it.
pub(crate) fn refusal(status: StatusCode, error: &RpcError) -> Answer {
    refusal_to(status, None, error, Revision::BASE)
}

/// A refusal of one request, in the words of its revision.
pub(crate) fn refusal_to(
    status: StatusCode,
    id: Option<&RequestId>,
    error: &RpcError,
    revision: Revision,
) -> Answer {
    let mut body = Vec::new();
    write::error(&mut body, Encoding::Json, id, error, revision);
    json(status, body)
}

/// 405, with what would be allowed.
pub(crate) fn wrong_method(allowed: &'static str) -> Answer {
    let error = RpcError::invalid_request(&format!("This address takes {allowed}."));
    let mut answer = refusal(StatusCode::METHOD_NOT_ALLOWED, &error);
    answer.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    answer
}

/// One message of the server, with the status that goes with it: `usual`, unless it says that the
/// request may be tried again later.
pub(crate) fn reply(usual: StatusCode, segment: Segment) -> Answer {
    let error = segment.last_error();
    let mut answer = json(usual, segment.into_message());
    if let Some(wait) = error.and_then(|error| error.retry_after) {
        let is_full = error.is_some_and(|error| error.name == OVERLOADED.name);
        *answer.status_mut() = match is_full {
            true => StatusCode::SERVICE_UNAVAILABLE,
            false => StatusCode::TOO_MANY_REQUESTS,
        };
        // In whole seconds, and never too early.
        let seconds = wait.as_millis().div_ceil(1000).to_string();
        let seconds = HeaderValue::from_str(&seconds).expect("a number is plain text");
        answer.headers_mut().insert(RETRY_AFTER, seconds);
    }
    answer
}

/// 503, to be tried again in a moment.
pub(crate) fn busy(error: &RpcError) -> Answer {
    let mut answer = refusal(StatusCode::SERVICE_UNAVAILABLE, error);
    answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    answer
}

const JSON: HeaderValue = HeaderValue::from_static("application/json");
