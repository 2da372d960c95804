//! Requests that stand alone (2026-07-28): each is a connection of its own, for as long as its
//! answer takes. Closing the stream of the answer cancels it.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::Stream;
use hyper::StatusCode;
use hyper::header::HeaderMap;
use mcp_flow_proto::{Incoming, Message, Revision};
use mcp_flow_server::{Connection, OpenedFrame, Principal, Segment};
use tokio::time::timeout;

use super::{bad_request, mirror};
use crate::answer::{Answer, empty, events, refusal, refusal_to, reply};
use crate::service::Service;
use crate::sse;

/// Answers a POST.
pub(super) async fn answer(
    service: &Arc<Service>,
    headers: &HeaderMap,
    incoming: Incoming<'_>,
    opened: &OpenedFrame<'_>,
    principal: Principal,
) -> Answer {
    let request = match &incoming {
        Incoming::Message(Message::Request(request)) => request,
        // Nothing that a notification could do outlives it.
        Incoming::Message(Message::Notification(_)) => return empty(StatusCode::ACCEPTED),
        _ => return bad_request("a client of this revision sends requests and notifications only"),
    };
    if let Err(error) = mirror::check(&service.server, &principal, headers, request) {
        let (id, status) = (Some(&request.id), StatusCode::BAD_REQUEST);
        return refusal_to(status, id, &error, Revision::V2026_07_28);
    }
    let connection = match service.connect("http", principal, headers) {
        Ok(connection) => connection,
        Err(refusal) => return refusal,
    };
    if let Err(error) = connection.join(opened) {
        return refusal(StatusCode::FORBIDDEN, &error);
    }
    connection.receive_decoded(incoming, opened);
    Alone { service: service.clone(), connection, told: false }.answer().await
}

/// A connection that lives for one request.
struct Alone {
    service: Arc<Service>,
    connection: Connection,
    /// Whether it has been told that the server ends.
    told: bool,
}

impl Alone {
    /// One JSON message if nothing is pushed before it, a stream of events otherwise.
    async fn answer(mut self) -> Answer {
        let keep_alive = self.service.options.keep_alive;
        // Most answers are there already, and need no clock.
        let first = match self.connection.take_output() {
            Some(segment) => Ok(Some(segment)),
            None => timeout(keep_alive, self.output()).await,
        };
        let first = match first {
            Ok(Some(segment)) if self.connection.is_over() && segment.count() == 1 => {
                return reply(status_of(segment.error_code()), segment);
            }
            Ok(None) => return empty(StatusCode::ACCEPTED),
            Ok(Some(segment)) => Some(segment),
            // Nothing for a while: a stream can show that it is alive, an answer cannot.
            Err(_) => None,
        };
        events(self.events(first))
    }

    fn events(self, first: Option<Segment>) -> impl Stream<Item = Bytes> + Send + 'static {
        let keep_alive = self.service.options.keep_alive;
        futures_util::stream::unfold((first, self), move |(first, mut alone)| async move {
            if let Some(first) = first {
                return Some((text_of(&first), (None, alone)));
            }
            let event = match timeout(keep_alive, alone.rest()).await {
                Ok(segment) => text_of(&segment?),
                Err(_) => sse::KEEP_ALIVE,
            };
            Some((event, (None, alone)))
        })
    }

    /// What comes next, or nothing when all is answered.
    async fn rest(&mut self) -> Option<Segment> {
        // Asked before looking for output: what is answered is in the queue by then.
        let over = self.connection.is_idle();
        match self.connection.take_output() {
            Some(segment) => Some(segment),
            None if over => None,
            None => self.output().await,
        }
    }

    /// What comes next. When the server ends, the request may finish, and whoever listens is told.
    async fn output(&mut self) -> Option<Segment> {
        loop {
            tokio::select! {
                biased;
                segment = self.connection.output() => return segment,
                () = self.service.ending.cancelled(), if !self.told => {
                    self.told = true;
                    self.connection.end_of_input();
                }
            }
        }
    }
}

fn text_of(segment: &Segment) -> Bytes {
    sse::messages(segment.messages())
}

/// The status that goes with a reply: some errors of the protocol have one of their own.
fn status_of(error: Option<i32>) -> StatusCode {
    match error {
        Some(-32601) => StatusCode::NOT_FOUND,
        Some(-32700 | -32600 | -32022..=-32020) => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    }
}
