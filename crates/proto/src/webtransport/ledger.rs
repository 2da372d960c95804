//! Ledger of execution streams by request, on the reading side (C-16).
//!
//! Streams and messages arrive in any order. A request is in flight until it is settled and every
//! stream its result names has ended. A stream that arrives before its result is held. A stream
//! that belongs to no request is rejected. A stream that does not arrive is given up after a grace
//! period. The ledger reads no clock: callers pass the age of the session as `now`.

use std::collections::HashMap;
use std::time::Duration;

use super::StreamHeader;
use crate::error::{
    INVALID_STREAM_REFERENCE, RpcErrorKind, STREAM_INJECTION, STREAM_LIMIT_EXCEEDED,
};

/// The execution streams of one session.
///
/// ```
/// use mcp_flow_proto::webtransport::{Arrival, Ledger, StreamRejection, StreamHeader};
/// use std::time::Duration;
///
/// let mut ledger = Ledger::new(8, Duration::from_secs(5));
/// let stream = StreamHeader { request: 42, tag: 1 };
/// assert_eq!(ledger.arrive(stream), Err(StreamRejection::Injected));
///
/// ledger.begin(42);
/// assert_eq!(ledger.arrive(stream), Ok(Arrival::Held));
/// let settled = ledger.settle(42, &[1], Duration::ZERO);
/// assert_eq!(settled.named, [1]);
/// ledger.end(stream);
/// assert!(ledger.is_empty());
/// ```
#[derive(Debug)]
pub struct Ledger {
    requests: HashMap<u32, Request>,
    /// The number of streams that have arrived and not ended.
    open: usize,
    limit: usize,
    grace: Duration,
}

#[derive(Debug, Default)]
struct Request {
    streams: HashMap<u32, Stage>,
    /// Time at which unsettled streams are given up; set when the request is settled.
    deadline: Option<Duration>,
    cancelled: bool,
}

/// The state of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Named by the result, not arrived yet.
    Awaited,
    /// Arrived, not named by a result yet.
    Held,
    /// Arrived and named.
    Open,
    /// Read to its end.
    Ended,
}

/// The decision about a stream that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The result names it: read it.
    Named,
    /// The result has not arrived: hold the stream.
    Held,
}

/// The reason a stream is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamRejection {
    /// It names no request in flight, or duplicates an earlier stream (-32002).
    Injected,
    /// Too many streams are open (-32000).
    TooMany,
    /// The result names it, but it has not arrived (-32001).
    Missing,
    /// Its request was cancelled by this end while the stream was in flight. Not a protocol
    /// violation.
    Cancelled,
}

impl StreamRejection {
    /// Returns the error to report to the peer, if the peer caused it.
    pub fn report(self) -> Option<(RpcErrorKind, &'static str)> {
        match self {
            Self::Injected => Some((STREAM_INJECTION, "it belongs to no request in flight")),
            Self::TooMany => Some((STREAM_LIMIT_EXCEEDED, "too many streams are open")),
            Self::Missing => Some((INVALID_STREAM_REFERENCE, "the stream has not arrived")),
            Self::Cancelled => None,
        }
    }
}

/// The streams settled by the response to a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// Held streams that can be read now.
    pub named: Vec<u32>,
    /// Streams over the limit, which are not waited for.
    pub too_many: Vec<u32>,
}

/// A stream whose grace period has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expired {
    /// The stream.
    pub stream: StreamHeader,
    /// The reason it is given up.
    pub rejection: StreamRejection,
}

impl Ledger {
    /// Creates a ledger with a limit on open streams and a grace period for unsettled ones.
    pub fn new(limit: usize, grace: Duration) -> Self {
        Self { requests: HashMap::new(), open: 0, limit, grace }
    }

    /// Records that a request is sent. It replaces an earlier request with the same number.
    pub fn begin(&mut self, request: u32) {
        self.remove(request);
        self.requests.insert(request, Request::default());
    }

    /// Decides about a stream that has arrived.
    pub fn arrive(&mut self, stream: StreamHeader) -> Result<Arrival, StreamRejection> {
        let request = self.requests.get_mut(&stream.request).ok_or(StreamRejection::Injected)?;
        if request.cancelled {
            return Err(StreamRejection::Cancelled);
        }
        let stage = request.streams.get(&stream.tag).copied();
        let (stage, arrival) = match stage {
            Some(Stage::Awaited) => (Stage::Open, Arrival::Named),
            None => (Stage::Held, Arrival::Held),
            Some(_) => return Err(StreamRejection::Injected),
        };
        if self.open >= self.limit {
            return Err(StreamRejection::TooMany);
        }
        self.open += 1;
        request.streams.insert(stream.tag, stage);
        Ok(arrival)
    }

    /// Records the response to a request and the stream tags it names.
    pub fn settle(&mut self, request: u32, tags: &[u32], now: Duration) -> Settled {
        let mut settled = Settled::default();
        let (limit, grace) = (self.limit, self.grace);
        let entry = self.requests.get_mut(&request).filter(|entry| !entry.cancelled);
        let Some(entry) = entry else { return settled };
        entry.deadline = Some(now + grace);
        for &tag in tags {
            match entry.streams.get(&tag) {
                Some(Stage::Held) => {
                    entry.streams.insert(tag, Stage::Open);
                    settled.named.push(tag);
                }
                Some(_) => {}
                None if entry.streams.len() >= limit => settled.too_many.push(tag),
                None => {
                    entry.streams.insert(tag, Stage::Awaited);
                }
            }
        }
        self.remove_if_settled(request);
        settled
    }

    /// Records that a stream was read to its end, or is no longer read.
    pub fn end(&mut self, stream: StreamHeader) {
        if let Some(request) = self.requests.get_mut(&stream.request)
            && let Some(stage) = request.streams.get_mut(&stream.tag)
            && matches!(stage, Stage::Held | Stage::Open)
        {
            *stage = Stage::Ended;
            self.open -= 1;
            self.remove_if_settled(stream.request);
        }
    }

    /// Records that the peer has given up a stream. Returns whether a reader may be waiting for it:
    /// it has not arrived, and the response names it or may still do so.
    pub fn give_up(&mut self, stream: StreamHeader) -> bool {
        let request = self.requests.get_mut(&stream.request);
        let Some(request) = request.filter(|request| !request.cancelled) else { return false };
        match request.streams.get(&stream.tag) {
            Some(Stage::Awaited) => {}
            None if request.deadline.is_none() && request.streams.len() < self.limit => {}
            Some(_) | None => return false,
        }
        request.streams.insert(stream.tag, Stage::Ended);
        self.remove_if_settled(stream.request);
        true
    }

    /// Records that this end cancelled a request. Returns its streams that have arrived. Streams
    /// that arrive during the grace period were already in flight.
    pub fn cancel(&mut self, request: u32, now: Duration) -> Vec<u32> {
        let Some(entry) = self.requests.get_mut(&request) else { return Vec::new() };
        let streams = std::mem::take(&mut entry.streams);
        entry.cancelled = true;
        entry.deadline = Some(now + self.grace);
        let mut arrived: Vec<_> =
            streams.iter().filter(|(_, stage)| has_arrived(**stage)).map(|(tag, _)| *tag).collect();
        self.open -= arrived.len();
        arrived.sort_unstable();
        arrived
    }

    /// Returns whether datagrams about a request are wanted (WT-061). 0 is the whole session.
    pub fn is_in_flight(&self, request: u32) -> bool {
        request == 0 || self.requests.get(&request).is_some_and(|request| !request.cancelled)
    }

    /// Returns the time at which [`expire`](Self::expire) has something to report.
    pub fn next_deadline(&self) -> Option<Duration> {
        self.requests
            .values()
            .filter(|request| request.is_unsettled())
            .filter_map(|request| request.deadline)
            .min()
    }

    /// Gives up streams that did not arrive in time or were never named.
    pub fn expire(&mut self, now: Duration) -> Vec<Expired> {
        let mut expired = Vec::new();
        let mut closed = 0;
        self.requests.retain(|&request, entry| {
            if entry.deadline.is_none_or(|deadline| deadline > now) {
                return true;
            }
            entry.streams.retain(|&tag, stage| {
                let rejection = match stage {
                    Stage::Awaited => StreamRejection::Missing,
                    Stage::Held => StreamRejection::Injected,
                    Stage::Open | Stage::Ended => return true,
                };
                closed += usize::from(*stage == Stage::Held);
                expired.push(Expired { stream: StreamHeader { request, tag }, rejection });
                false
            });
            entry.streams.values().any(|stage| *stage == Stage::Open)
        });
        self.open -= closed;
        expired.sort_unstable_by_key(|expired| expired.stream);
        expired
    }

    /// Returns the number of streams that have arrived and not ended.
    pub fn open(&self) -> usize {
        self.open
    }

    /// Returns whether no request is in flight.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    fn remove(&mut self, request: u32) {
        if let Some(entry) = self.requests.remove(&request) {
            self.open -= entry.streams.values().filter(|stage| has_arrived(**stage)).count();
        }
    }

    /// Removes a request that has nothing left to wait for.
    fn remove_if_settled(&mut self, request: u32) {
        let is_over = self.requests.get(&request).is_some_and(|entry| {
            let is_settled = entry.streams.values().all(|stage| *stage == Stage::Ended);
            entry.deadline.is_some() && !entry.cancelled && is_settled
        });
        if is_over {
            self.requests.remove(&request);
        }
    }
}

impl Request {
    /// Returns whether the end of the grace period changes anything.
    fn is_unsettled(&self) -> bool {
        let waits = |stage: &Stage| matches!(stage, Stage::Awaited | Stage::Held);
        self.cancelled || self.streams.values().any(waits)
    }
}

fn has_arrived(stage: Stage) -> bool {
    matches!(stage, Stage::Held | Stage::Open)
}

#[cfg(test)]
mod tests {
    use super::{Arrival, Expired, Ledger, StreamRejection};
    use crate::webtransport::StreamHeader;
    use std::time::Duration;

    /// WT-055, WT-056: stream and response may arrive in either order.
    #[test]
    fn the_order_of_stream_and_response_does_not_matter() {
        let mut ledger = ledger();
        ledger.begin(1);
        assert_eq!(ledger.arrive(stream(1, 1)), Ok(Arrival::Held));
        assert_eq!(ledger.settle(1, &[1, 2], NOW).named, [1]);
        assert_eq!(ledger.arrive(stream(1, 2)), Ok(Arrival::Named));
        ledger.end(stream(1, 1));
        assert!(ledger.is_in_flight(1), "a stream still runs");
        ledger.end(stream(1, 2));
        assert!(ledger.is_empty() && !ledger.is_in_flight(1));
    }

    /// A short stream may end before its response arrives.
    #[test]
    fn a_stream_may_end_before_its_response() {
        let mut ledger = ledger();
        ledger.begin(1);
        ledger.arrive(stream(1, 1)).unwrap();
        ledger.end(stream(1, 1));
        assert_eq!(ledger.open(), 0);
        ledger.settle(1, &[1], NOW);
        assert!(ledger.is_empty());
    }

    /// WT-047, WT-045: unsolicited, duplicate and surplus streams are rejected.
    #[test]
    fn unsolicited_streams_are_rejected() {
        let mut ledger = ledger();
        assert_eq!(ledger.arrive(stream(999, 1)), Err(StreamRejection::Injected));
        ledger.begin(1);
        ledger.settle(1, &[], NOW);
        assert_eq!(ledger.arrive(stream(1, 1)), Err(StreamRejection::Injected), "it is over");
        ledger.begin(2);
        assert_eq!(ledger.arrive(stream(2, 1)), Ok(Arrival::Held));
        assert_eq!(ledger.arrive(stream(2, 1)), Err(StreamRejection::Injected), "it is here");
        assert_eq!(ledger.arrive(stream(2, 2)), Ok(Arrival::Held));
        assert_eq!(ledger.arrive(stream(2, 3)), Err(StreamRejection::TooMany));
        ledger.end(stream(2, 1));
        assert_eq!(ledger.arrive(stream(2, 3)), Ok(Arrival::Held));
        assert_eq!(ledger.settle(2, &[2, 3, 7, 8], NOW).too_many, [7, 8]);
    }

    /// WT-046: streams that do not arrive or are never named are given up after the grace period.
    #[test]
    fn unsettled_streams_expire_after_the_grace_period() {
        let mut ledger = ledger();
        ledger.begin(1);
        ledger.begin(2);
        ledger.arrive(stream(2, 5)).unwrap();
        assert_eq!(ledger.next_deadline(), None, "an unanswered request takes its time");
        ledger.settle(1, &[9], NOW);
        ledger.settle(2, &[], NOW);
        assert_eq!(ledger.next_deadline(), Some(NOW + GRACE));
        assert_eq!(ledger.expire(NOW), []);
        let expired = [
            Expired { stream: stream(1, 9), rejection: StreamRejection::Missing },
            Expired { stream: stream(2, 5), rejection: StreamRejection::Injected },
        ];
        assert_eq!(ledger.expire(NOW + GRACE), expired);
        assert!(ledger.is_empty() && ledger.open() == 0);
    }

    /// WT-049: a stream given up by the peer is not waited for, before or after the response that
    /// names it.
    #[test]
    fn abandoned_streams_are_not_waited_for() {
        let mut ledger = ledger();
        assert!(!ledger.give_up(stream(1, 1)), "there is no such request");
        ledger.begin(1);
        assert!(ledger.give_up(stream(1, 1)));
        assert!(!ledger.give_up(stream(1, 1)), "once is enough");
        ledger.settle(1, &[1, 2], NOW);
        assert!(!ledger.give_up(stream(1, 9)), "the answer does not name it");
        assert!(ledger.give_up(stream(1, 2)));
        assert!(ledger.is_empty());
        ledger.begin(2);
        ledger.arrive(stream(2, 1)).unwrap();
        assert!(!ledger.give_up(stream(2, 1)), "it is here");
        assert_eq!(ledger.open(), 1);
    }

    /// WT-061: a cancelled request has no streams and no datagrams, and streams in flight are not
    /// reported.
    #[test]
    fn a_cancelled_request_has_no_streams() {
        let mut ledger = ledger();
        ledger.begin(1);
        ledger.arrive(stream(1, 1)).unwrap();
        assert_eq!(ledger.cancel(1, NOW), [1]);
        assert_eq!(ledger.open(), 0);
        assert_eq!(ledger.arrive(stream(1, 2)), Err(StreamRejection::Cancelled));
        assert!(!ledger.is_in_flight(1) && ledger.is_in_flight(0));
        ledger.settle(1, &[], NOW);
        assert_eq!(ledger.expire(NOW + GRACE), []);
        assert_eq!(ledger.arrive(stream(1, 3)), Err(StreamRejection::Injected));
    }

    const NOW: Duration = Duration::from_secs(100);
    const GRACE: Duration = Duration::from_secs(5);

    fn ledger() -> Ledger {
        Ledger::new(2, GRACE)
    }

    fn stream(request: u32, tag: u32) -> StreamHeader {
        StreamHeader { request, tag }
    }
}
