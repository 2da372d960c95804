//! What a client knows of its calls: which are in flight, and which streams belong to them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mcp_flow_proto::model::CancelParams;
use mcp_flow_proto::webtransport::{
    Arrival, Expired, Ledger, ServerTransport, StreamError, StreamFault, StreamHeader,
    request_number,
};
use mcp_flow_proto::{Encoding, Incoming, Message, Raw, RequestId, Response, method};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::Settings;
use super::stream::{IncomingStream, StreamFailure};

/// The books of one session.
#[derive(Debug)]
pub(super) struct Books {
    inner: Mutex<Inner>,
    began: Instant,
    /// Something may have to be given up sooner than before.
    pub(super) changed: Notify,
    dropped: AtomicU64,
}

#[derive(Debug)]
struct Inner {
    ledger: Ledger,
    /// Streams whose result has not come.
    held: HashMap<StreamHeader, IncomingStream>,
    /// How streams that have come, and not ended, learn that they have failed.
    failures: HashMap<StreamHeader, StreamFailure>,
    encoding: Encoding,
    /// The request that the encoding is agreed on by.
    initialize: Option<RequestId>,
}

/// Effects of a received message.
#[derive(Debug, Default)]
pub(super) struct Received {
    /// Streams that can be read now.
    pub(super) ready: Vec<IncomingStream>,
    /// Messages to send to the server.
    pub(super) reports: Vec<StreamError>,
    /// A stream that has not come and will not.
    pub(super) failed: Option<StreamError>,
}

/// What becomes of a stream that has come.
#[derive(Debug)]
pub(super) enum Noted {
    /// It can be read at once.
    Ready(IncomingStream),
    /// It waits for the result that names it.
    Held,
    /// It is refused, and the server told.
    Refused(IncomingStream, Option<StreamError>),
}

impl Books {
    pub(super) fn new(settings: &Settings) -> Self {
        let inner = Inner {
            ledger: Ledger::new(settings.streams as usize, settings.grace),
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

    /// Takes note of a message that is about to be sent. Returns streams that are not wanted any
    /// more.
    pub(super) fn note_sent(&self, message: &[u8]) -> Vec<IncomingStream> {
        let mut inner = self.inner();
        let Ok(Incoming::Message(message)) = Incoming::decode(message, inner.encoding) else {
            return Vec::new();
        };
        match message {
            Message::Request(request) => {
                if request.method == method::INITIALIZE {
                    inner.initialize = Some(request.id.clone());
                }
                if let Some(number) = request_number(&request.id) {
                    inner.ledger.begin(number);
                    inner.failures.retain(|stream, _| stream.request != number);
                    // What was held for another of this number is of no use to anyone.
                    let of_another = |stream: &StreamHeader, _: &mut _| stream.request == number;
                    return inner.held.extract_if(of_another).map(|(_, stream)| stream).collect();
                }
            }
            Message::Notification(notice)
                if [method::CANCEL, method::CANCELLED].contains(&&*notice.method) =>
            {
                let cancelled = CancelParams::from_params(notice.params);
                if let Some(request) =
                    cancelled.and_then(|cancel| request_number(&cancel.request_id))
                {
                    let tags = inner.ledger.cancel(request, self.began.elapsed());
                    inner.failures.retain(|stream, _| stream.request != request);
                    self.changed.notify_one();
                    let streams = tags.into_iter().map(|tag| StreamHeader { request, tag });
                    return streams.filter_map(|stream| inner.held.remove(&stream)).collect();
                }
            }
            Message::Notification(_) | Message::Response(_) => {}
        }
        Vec::new()
    }

    /// Takes note of a message that has come.
    pub(super) fn note_received(&self, message: &[u8]) -> Received {
        let mut inner = self.inner();
        match Incoming::decode(message, inner.encoding) {
            Ok(Incoming::Message(Message::Response(response))) => {
                self.note_answer(&mut inner, &response, message)
            }
            Ok(Incoming::Message(Message::Notification(notice)))
                if notice.method == method::STREAM_ERROR =>
            {
                let Some(error) = StreamError::from_params(notice.params) else {
                    return Received::default();
                };
                if let Some(failure) = inner.failures.get(&error.stream) {
                    // The first reason counts.
                    let _ = failure.set(error.error);
                    return Received::default();
                }
                let failed = inner.ledger.give_up(error.stream).then_some(error);
                Received { failed, ..Received::default() }
            }
            _ => Received::default(),
        }
    }

    fn note_answer(&self, inner: &mut Inner, response: &Response<'_>, message: &[u8]) -> Received {
        if inner.initialize.is_some() && inner.initialize == response.id {
            inner.initialize = None;
            inner.encoding = agreed(response).unwrap_or(inner.encoding);
        }
        let Some(request) = response.id.as_ref().and_then(request_number) else {
            return Received::default();
        };
        let tags = response.outcome.map(|result| named(result, message)).unwrap_or_default();
        let answered = inner.ledger.answer(request, &tags, self.began.elapsed());
        self.changed.notify_one();
        let stream = |tag| StreamHeader { request, tag };
        let ready = answered.named.into_iter().map(stream);
        let ready = ready.filter_map(|stream| inner.held.remove(&stream)).collect();
        let too_many = answered.too_many.into_iter().map(stream);
        let too_many = too_many.filter_map(|stream| report(stream, StreamFault::TooMany)).collect();
        Received { ready, reports: too_many, failed: None }
    }

    /// Decides about a stream that has come.
    pub(super) fn note_stream(&self, stream: IncomingStream) -> Noted {
        let header = stream.header();
        let mut inner = self.inner();
        let arrival = match inner.ledger.arrive(header) {
            Ok(arrival) => arrival,
            Err(fault) => return Noted::Refused(stream, report(header, fault)),
        };
        inner.failures.insert(header, stream.failure());
        match arrival {
            Arrival::Named => Noted::Ready(stream),
            Arrival::Held => {
                inner.held.insert(header, stream);
                Noted::Held
            }
        }
    }

    pub(super) fn note_end(&self, stream: StreamHeader) {
        let mut inner = self.inner();
        inner.ledger.end(stream);
        inner.failures.remove(&stream);
    }

    /// Whether a datagram about this request is wanted. Counts those that are not.
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

    /// When something is to be given up.
    pub(super) fn due(&self) -> Option<Instant> {
        self.inner().ledger.due().map(|due| self.began + due)
    }

    /// Gives up what has not come in time. Returns what to report, and streams nobody wants.
    pub(super) fn expire(&self) -> (Vec<StreamError>, Vec<IncomingStream>) {
        let mut inner = self.inner();
        // A moment more, since clocks are finer than what is counted in.
        let expired = inner.ledger.expire(self.began.elapsed() + Duration::from_millis(1));
        let mut unwanted = Vec::new();
        for Expired { stream, .. } in &expired {
            inner.failures.remove(stream);
            unwanted.extend(inner.held.remove(stream));
        }
        let reports =
            expired.into_iter().filter_map(|Expired { stream, fault }| report(stream, fault));
        (reports.collect(), unwanted)
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn report(stream: StreamHeader, fault: StreamFault) -> Option<StreamError> {
    let (fault, details) = fault.report()?;
    Some(StreamError::fault(stream, fault, details))
}

/// The encoding that the answer to `initialize` says.
fn agreed(response: &Response<'_>) -> Option<Encoding> {
    let [transport] = response.outcome.ok()?.members(["transport"]).ok()?;
    let transport: ServerTransport = transport?.decode().ok()?;
    Some(transport.encoding)
}

/// The streams that a result names.
fn named(result: Raw<'_>, message: &[u8]) -> Vec<u32> {
    // Nearly all results name none, which is seen without decoding them.
    const NAME: &[u8] = b"ref/stream";
    if !message.windows(NAME.len()).any(|window| window == NAME) {
        return Vec::new();
    }
    let mut tags = Vec::new();
    let Ok(lists) = result.members(["content", "contents"]) else { return tags };
    for list in lists.into_iter().flatten() {
        let _ = list.each_element(|item| {
            let [kind, tag] = item.members(["type", "streamTag"])?;
            if kind.and_then(Raw::as_text).is_some_and(|kind| kind.as_bytes() == NAME) {
                tags.extend(tag.and_then(|tag| tag.decode::<u32>().ok()));
            }
            Ok::<_, mcp_flow_proto::DecodeError>(())
        });
    }
    tags
}
