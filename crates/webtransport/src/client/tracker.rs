//! Tracker of a client's requests in flight and the execution streams that belong to them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mcp_flow_proto::webtransport::{
    Arrival, Expired, Ledger, ServerTransport, StreamError, StreamHeader, StreamRejection,
    request_number,
};
use mcp_flow_proto::{Encoding, Incoming, Message, Raw, RequestId, Response, method};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::ConnectSettings;
use super::stream::{IncomingStream, StreamFailure};

/// The requests and streams of one session.
#[derive(Debug)]
pub(super) struct StreamTracker {
    inner: Mutex<Inner>,
    began: Instant,
    /// Notified when the next deadline may have moved.
    pub(super) changed: Notify,
    dropped: AtomicU64,
}

#[derive(Debug)]
struct Inner {
    ledger: Ledger,
    /// Streams whose result has not arrived.
    held: HashMap<StreamHeader, IncomingStream>,
    /// Failure slots of streams that have arrived and not ended.
    failures: HashMap<StreamHeader, StreamFailure>,
    encoding: Encoding,
    /// The `initialize` request, whose response sets the encoding.
    initialize: Option<RequestId>,
}

/// Effects of a received message.
#[derive(Debug, Default)]
pub(super) struct ReceiveEffects {
    /// The message is a result that may name streams.
    pub(super) names_streams: bool,
    /// Streams that can be read now.
    pub(super) ready: Vec<IncomingStream>,
    /// Errors to report to the server.
    pub(super) reports: Vec<StreamError>,
    /// A stream that will not arrive.
    pub(super) failed: Option<StreamError>,
}

/// The decision about a stream that has arrived.
#[derive(Debug)]
pub(super) enum StreamDecision {
    /// It can be read at once.
    Ready(IncomingStream),
    /// It is held until the result that names it arrives.
    Held,
    /// It is rejected, and the error is reported to the server.
    Rejected(IncomingStream, Option<StreamError>),
}

impl StreamTracker {
    pub(super) fn new(settings: &ConnectSettings) -> Self {
        let inner = Inner {
            ledger: Ledger::new(settings.max_streams as usize, settings.grace_period),
            held: HashMap::new(),
            failures: HashMap::new(),
            encoding: Encoding::Json,
            initialize: None,
        };
        Self {
            inner: Mutex::new(inner),
            began: Instant::now(),
            changed: Notify::new(),
            dropped: AtomicU64::new(0),
        }
    }

    pub(super) fn encoding(&self) -> Encoding {
        self.inner().encoding
    }

    /// Records a request that is about to be sent. Returns streams that are no longer wanted.
    pub(super) fn record_request(&self, id: &RequestId, method: &str) -> Vec<IncomingStream> {
        let mut inner = self.inner();
        if method == method::INITIALIZE {
            inner.initialize = Some(id.clone());
        }
        let Some(number) = request_number(id) else { return Vec::new() };
        inner.ledger.begin(number);
        inner.failures.retain(|stream, _| stream.request != number);
        // Streams held for an earlier request with this number are obsolete.
        let is_obsolete = |stream: &StreamHeader, _: &mut _| stream.request == number;
        inner.held.extract_if(is_obsolete).map(|(_, stream)| stream).collect()
    }

    /// Records the cancellation of a request. Returns streams that are no longer wanted.
    pub(super) fn record_cancel(&self, id: &RequestId) -> Vec<IncomingStream> {
        let Some(request) = request_number(id) else { return Vec::new() };
        let mut inner = self.inner();
        let tags = inner.ledger.cancel(request, self.began.elapsed());
        inner.failures.retain(|stream, _| stream.request != request);
        self.changed.notify_one();
        let streams = tags.into_iter().map(|tag| StreamHeader { request, tag });
        streams.filter_map(|stream| inner.held.remove(&stream)).collect()
    }

    /// Records a received message.
    pub(super) fn record_received(&self, incoming: &Incoming<'_>) -> ReceiveEffects {
        match incoming {
            Incoming::Message(Message::Response(response)) => self.record_response(response),
            Incoming::Message(Message::Notification(notice))
                if notice.method == method::STREAM_ERROR =>
            {
                let Some(error) = StreamError::from_params(notice.params) else {
                    return ReceiveEffects::default();
                };
                let mut inner = self.inner();
                if let Some(failure) = inner.failures.get(&error.stream) {
                    // The first reason counts.
                    let _ = failure.set(error.error);
                    return ReceiveEffects::default();
                }
                let failed = inner.ledger.give_up(error.stream).then_some(error);
                ReceiveEffects { failed, ..ReceiveEffects::default() }
            }
            _ => ReceiveEffects::default(),
        }
    }

    fn record_response(&self, response: &Response<'_>) -> ReceiveEffects {
        let result = response.outcome.ok().filter(|result| names_streams(*result));
        let tags = result.map(stream_tags).unwrap_or_default();
        let names_streams = result.is_some();
        let mut inner = self.inner();
        if inner.initialize.is_some() && inner.initialize == response.id {
            inner.initialize = None;
            inner.encoding = negotiated_encoding(response).unwrap_or(inner.encoding);
        }
        let Some(request) = response.id.as_ref().and_then(request_number) else {
            return ReceiveEffects { names_streams, ..ReceiveEffects::default() };
        };
        let settled = inner.ledger.settle(request, &tags, self.began.elapsed());
        self.changed.notify_one();
        let stream = |tag| StreamHeader { request, tag };
        let ready = settled.named.into_iter().map(stream);
        let ready = ready.filter_map(|stream| inner.held.remove(&stream)).collect();
        let too_many = settled.too_many.into_iter().map(stream);
        let reports = too_many.filter_map(|stream| stream_error(stream, StreamRejection::TooMany));
        ReceiveEffects { names_streams, ready, reports: reports.collect(), failed: None }
    }

    /// Decides about a stream that has arrived.
    pub(super) fn record_stream(&self, stream: IncomingStream) -> StreamDecision {
        let header = stream.header();
        let mut inner = self.inner();
        let arrival = match inner.ledger.arrive(header) {
            Ok(arrival) => arrival,
            Err(rejection) => {
                return StreamDecision::Rejected(stream, stream_error(header, rejection));
            }
        };
        inner.failures.insert(header, stream.failure());
        match arrival {
            Arrival::Named => StreamDecision::Ready(stream),
            Arrival::Held => {
                inner.held.insert(header, stream);
                StreamDecision::Held
            }
        }
    }

    pub(super) fn record_end(&self, stream: StreamHeader) {
        let mut inner = self.inner();
        inner.ledger.end(stream);
        inner.failures.remove(&stream);
    }

    /// Returns whether a datagram about this request is wanted. Counts those that are not.
    pub(super) fn wants_datagram(&self, request: u32) -> bool {
        let wanted = self.inner().ledger.is_in_flight(request);
        if !wanted {
            self.count_dropped();
        }
        wanted
    }

    pub(super) fn count_dropped(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Returns the next deadline for giving up streams.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.inner().ledger.next_deadline().map(|deadline| self.began + deadline)
    }

    /// Gives up streams that did not arrive in time. Returns the errors to report and the streams
    /// to reject.
    pub(super) fn expire(&self) -> (Vec<StreamError>, Vec<IncomingStream>) {
        let mut inner = self.inner();
        // One millisecond more, because timers are coarser than the clock.
        let expired = inner.ledger.expire(self.began.elapsed() + Duration::from_millis(1));
        let mut unwanted = Vec::new();
        for Expired { stream, .. } in &expired {
            inner.failures.remove(stream);
            unwanted.extend(inner.held.remove(stream));
        }
        let reports = expired
            .into_iter()
            .filter_map(|Expired { stream, rejection }| stream_error(stream, rejection));
        (reports.collect(), unwanted)
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }
}

fn stream_error(stream: StreamHeader, rejection: StreamRejection) -> Option<StreamError> {
    let (kind, details) = rejection.report()?;
    Some(StreamError::of_kind(stream, kind, details))
}

/// Reads the encoding from the response to `initialize`.
fn negotiated_encoding(response: &Response<'_>) -> Option<Encoding> {
    let [transport] = response.outcome.ok()?.members(["transport"]).ok()?;
    let transport: ServerTransport = transport?.decode().ok()?;
    Some(transport.encoding)
}

/// Returns whether a result may name streams. Nearly all name none, which a byte search shows
/// without decoding them.
fn names_streams(result: Raw<'_>) -> bool {
    result.bytes().windows(STREAM_TYPE.len()).any(|window| window == STREAM_TYPE.as_bytes())
}

/// Returns the tags of the streams that a result names.
fn stream_tags(result: Raw<'_>) -> Vec<u32> {
    let mut tags = Vec::new();
    let Ok(lists) = result.members(["content", "contents"]) else { return tags };
    for list in lists.into_iter().flatten() {
        let _ = list.each_element(|item| {
            let [kind, tag] = item.members(["type", "streamTag"])?;
            if kind.and_then(Raw::as_text).is_some_and(|kind| kind == STREAM_TYPE) {
                tags.extend(tag.and_then(|tag| tag.decode::<u32>().ok()));
            }
            Ok::<_, mcp_flow_proto::DecodeError>(())
        });
    }
    tags
}

/// The type of content that names a stream.
pub(super) const STREAM_TYPE: &str = "ref/stream";
