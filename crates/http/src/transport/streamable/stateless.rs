//! Stateless requests (2026-07-28): each has a connection of its own until it is answered. Closing
//! the response stream cancels it.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::Stream;
use hyper::StatusCode;
use mcp_flow_proto::{Incoming, Message, Revision};
use mcp_flow_server::connection::DecodedFrame;
use mcp_flow_server::{Connection, Principal, Segment};
use tokio::time::timeout;

use super::{Posted, bad_request, mirrored_headers};
use crate::response::{HttpResponse, empty, events, rejection, rejection_of, reply};
use crate::service::Service;
use crate::transport::sse;

/// Handles a POST.
pub(super) async fn handle_post(
    service: &Arc<Service>,
    posted: &Posted<'_>,
    frame: DecodedFrame<'_>,
    principal: Principal,
) -> HttpResponse {
    let headers = &posted.head.headers;
    let request = match frame.incoming() {
        Incoming::Message(Message::Request(request)) => request,
        // There is no state that a notification could change.
        Incoming::Message(Message::Notification(_)) => return empty(StatusCode::ACCEPTED),
        _ => return bad_request("a client of this revision sends requests and notifications only"),
    };
    if let Err(error) = mirrored_headers::check(&service.server, &principal, headers, request) {
        let (id, status) = (Some(&request.id), StatusCode::BAD_REQUEST);
        return rejection_of(status, id, &error, Revision::V2026_07_28);
    }
    let connection = match service.connect("http", None, principal, headers) {
        Ok(connection) => connection,
        Err(rejection) => return rejection,
    };
    if let Err(error) = connection.receive_decoded(frame, posted.arrival) {
        return rejection(StatusCode::FORBIDDEN, &error);
    }
    SingleRequest { service: service.clone(), connection, is_ending: false }.respond().await
}

/// Connection of one request.
struct SingleRequest {
    service: Arc<Service>,
    connection: Connection,
    /// Set once the connection knows that the server is draining.
    is_ending: bool,
}

impl SingleRequest {
    /// Builds the response: one JSON message if the reply comes first, an event stream otherwise.
    async fn respond(mut self) -> HttpResponse {
        let keep_alive = self.service.options.keep_alive;
        // Most replies are ready at once and need no timer.
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
            // No reply for a while: only an event stream can carry keep-alives.
            Err(_) => None,
        };
        events(self.events(first))
    }

    fn events(self, first: Option<Segment>) -> impl Stream<Item = Bytes> + Send + 'static {
        let keep_alive = self.service.options.keep_alive;
        futures_util::stream::unfold((first, self), move |(first, mut request)| async move {
            if let Some(first) = first {
                return Some((encode(&first), (None, request)));
            }
            let event = match timeout(keep_alive, request.next_segment()).await {
                Ok(segment) => encode(&segment?),
                Err(_) => sse::KEEP_ALIVE,
            };
            Some((event, (None, request)))
        })
    }

    /// Returns the next output, or `None` once everything is answered.
    async fn next_segment(&mut self) -> Option<Segment> {
        // Checked before taking output: if the connection is idle, its replies are queued.
        let over = self.connection.is_idle();
        match self.connection.take_output() {
            Some(segment) => Some(segment),
            None if over => None,
            None => self.output().await,
        }
    }

    /// Waits for output. When the server drains, the request may finish and subscriptions end.
    async fn output(&mut self) -> Option<Segment> {
        loop {
            tokio::select! {
                biased;
                segment = self.connection.output() => return segment,
                () = self.service.tasks.draining().cancelled(), if !self.is_ending => {
                    self.is_ending = true;
                    self.connection.end_of_input();
                }
            }
        }
    }
}

fn encode(segment: &Segment) -> Bytes {
    sse::messages(segment.messages())
}

/// Returns the status of a reply: the specification assigns one to some errors.
fn status_of(error: Option<i32>) -> StatusCode {
    match error {
        Some(-32601) => StatusCode::NOT_FOUND,
        Some(-32700 | -32600 | -32022..=-32020) => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    }
}
