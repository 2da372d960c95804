//! Responses, and their bodies.
//!
//! Owns the body that every endpoint answers with: whole, or a stream of events with messages that follow
//! it. The endpoints decide on status and content.

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
use mcp_flow_server::connection::{FlushGuard, Segment};

use crate::operator::metrics::HttpConnection;

/// A response of this server.
pub(crate) type HttpResponse = Response<ResponseBody>;

/// Body of a response: complete bytes, a stream of server-sent events, or a bulk download that is
/// read as fast as the client takes it.
pub(crate) enum ResponseBody {
    Whole(Option<Bytes>),
    /// Complete bytes, with follow-up messages that wait until they are flushed.
    WithFollowUps(Option<Bytes>, HeldFollowUps),
    Events(Pin<Box<dyn Stream<Item = Bytes> + Send>>),
    Bulk {
        reader: Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>,
        /// Bytes still to be sent, if the length is known.
        left: Option<u64>,
        /// Completes when the download must be aborted.
        end: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    },
}

/// Follow-up messages of a response. Dropping them sends them.
pub(crate) struct HeldFollowUps {
    held: Vec<FlushGuard>,
    connection: Option<Arc<HttpConnection>>,
}

impl HeldFollowUps {
    /// Sets the connection whose flush releases the messages.
    pub(crate) fn send_after_flush_of(&mut self, connection: Arc<HttpConnection>) {
        self.connection = Some(connection);
    }

    /// Hands the messages to the connection, now that hyper has taken the body.
    fn hand_over(&mut self) {
        if let Some(connection) = self.connection.take() {
            connection.follow_ups.add(std::mem::take(&mut self.held));
        }
    }
}

impl ResponseBody {
    /// Ends an event stream or aborts a download when a future completes.
    pub(crate) fn end_when(&mut self, ending: impl Future<Output = ()> + Send + 'static) {
        match self {
            Self::Events(events) => {
                let empty: Pin<Box<dyn Stream<Item = Bytes> + Send>> =
                    Box::pin(futures_util::stream::empty());
                let events = std::mem::replace(events, empty);
                *self = Self::Events(Box::pin(events.take_until(Box::pin(ending))));
            }
            Self::Bulk { end, .. } => *end = Some(Box::pin(ending)),
            Self::Whole(_) | Self::WithFollowUps(..) => {}
        }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::WithFollowUps(bytes, follow_ups) => {
                follow_ups.hand_over();
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
                    // An error aborts the connection, so that a client cannot mistake a part for the
                    // whole. The reader fails if it has fewer bytes than announced.
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
            Self::Whole(None) | Self::WithFollowUps(None, _) | Self::Bulk { left: Some(0), .. }
        )
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) | Self::WithFollowUps(bytes, _) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Self::Bulk { left: Some(left), .. } => SizeHint::with_exact(*left),
            Self::Events(_) | Self::Bulk { left: None, .. } => SizeHint::default(),
        }
    }
}

/// Builds a response with one JSON message.
pub(crate) fn json(status: StatusCode, message: impl Into<Bytes>) -> HttpResponse {
    whole(status, JSON, message.into())
}

/// Builds a response with one reply of the server and the follow-ups that wait for its flush.
pub(crate) fn reply_then(segment: Segment, follow_ups: Vec<FlushGuard>) -> HttpResponse {
    let mut response = reply(StatusCode::OK, segment);
    if let (false, ResponseBody::Whole(bytes)) = (follow_ups.is_empty(), response.body_mut()) {
        let follow_ups = HeldFollowUps { held: follow_ups, connection: None };
        *response.body_mut() = ResponseBody::WithFollowUps(bytes.take(), follow_ups);
    }
    response
}

/// Builds a plain text response.
pub(crate) fn text(status: StatusCode, text: impl Into<Bytes>) -> HttpResponse {
    whole(status, HeaderValue::from_static("text/plain; charset=utf-8"), text.into())
}

fn whole(status: StatusCode, kind: HeaderValue, body: Bytes) -> HttpResponse {
    let mut response = Response::new(ResponseBody::Whole(Some(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

/// Builds a response without a body.
pub(crate) fn empty(status: StatusCode) -> HttpResponse {
    let mut response = Response::new(ResponseBody::Whole(None));
    *response.status_mut() = status;
    response
}

/// Builds a bulk download response.
pub(crate) fn bulk(
    reader: impl Stream<Item = io::Result<Bytes>> + Send + 'static,
    length: Option<u64>,
) -> HttpResponse {
    Response::new(ResponseBody::Bulk { reader: Box::pin(reader), left: length, end: None })
}

/// Builds a response that streams server-sent events.
pub(crate) fn events(events: impl Stream<Item = Bytes> + Send + 'static) -> HttpResponse {
    let mut response = Response::new(ResponseBody::Events(Box::pin(events)));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    // Disables buffering in nginx.
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    response
}

/// Builds an error response with a JSON-RPC error as its body.
pub(crate) fn rejection(status: StatusCode, error: &RpcError) -> HttpResponse {
    rejection_of(status, None, error, Revision::BASE)
}

/// Builds an error response to one request, encoded for its revision.
pub(crate) fn rejection_of(
    status: StatusCode,
    id: Option<&RequestId>,
    error: &RpcError,
    revision: Revision,
) -> HttpResponse {
    let mut body = Vec::new();
    write::error(&mut body, Encoding::Json, id, error, revision);
    json(status, body)
}

/// Builds a 405 response that lists the allowed methods.
pub(crate) fn method_not_allowed(allowed: &'static str) -> HttpResponse {
    let error = RpcError::invalid_request(&format!("This address takes {allowed}."));
    let mut response = rejection(StatusCode::METHOD_NOT_ALLOWED, &error);
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    response
}

/// Builds a response with one reply of the server. The status is `usual`, or 429 or 503 with
/// Retry-After if the reply is an error that asks the client to retry later.
pub(crate) fn reply(usual: StatusCode, segment: Segment) -> HttpResponse {
    let error = segment.last_error();
    let mut response = json(usual, segment.into_message());
    if let Some(wait) = error.and_then(|error| error.retry_after) {
        let is_full = error.is_some_and(|error| error.name == OVERLOADED.name);
        *response.status_mut() = match is_full {
            true => StatusCode::SERVICE_UNAVAILABLE,
            false => StatusCode::TOO_MANY_REQUESTS,
        };
        // Whole seconds, rounded up.
        let seconds = wait.as_millis().div_ceil(1000).to_string();
        let seconds = HeaderValue::from_str(&seconds).expect("a number is plain text");
        response.headers_mut().insert(RETRY_AFTER, seconds);
    }
    response
}

/// Builds a 503 response with Retry-After.
pub(crate) fn busy(error: &RpcError) -> HttpResponse {
    let mut response = rejection(StatusCode::SERVICE_UNAVAILABLE, error);
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

const JSON: HeaderValue = HeaderValue::from_static("application/json");
