//! Which streams belong to which request, on the side that reads them (C-16).
//!
//! Neither streams nor messages come in any order relative to each other. A request is in flight
//! until it is answered and until every stream its result names has ended. A stream that comes
//! before its result is held; one that belongs to nothing is refused; what does not come is given
//! up after a time of grace. Time is an argument: how long the session has lasted.

use std::collections::HashMap;
use std::time::Duration;

use super::StreamHeader;
use crate::error::{Fault, INVALID_STREAM_REFERENCE, STREAM_INJECTION, STREAM_LIMIT_EXCEEDED};

/// The streams of one session.
///
/// ```
/// use mcp_flow_proto::webtransport::{Arrival, Ledger, StreamFault, StreamHeader};
/// use std::time::Duration;
///
/// let mut ledger = Ledger::new(8, Duration::from_secs(5));
/// let stream = StreamHeader { request: 42, tag: 1 };
/// assert_eq!(ledger.arrive(stream), Err(StreamFault::Injected));
///
/// ledger.begin(42);
/// assert_eq!(ledger.arrive(stream), Ok(Arrival::Held));
/// let answered = ledger.answer(42, &[1], Duration::ZERO);
/// assert_eq!(answered.named, [1]);
/// ledger.end(stream);
/// assert!(ledger.is_empty());
/// ```
#[derive(Debug)]
pub struct Ledger {
    requests: HashMap<u32, Request>,
    /// Streams that have come and not ended.
    open: usize,
    limit: usize,
    grace: Duration,
}

#[derive(Debug, Default)]
struct Request {
    streams: HashMap<u32, Stage>,
    /// When what is unsettled is given up; set once it is answered.
    deadline: Option<Duration>,
    cancelled: bool,
}

/// How far a stream has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The result names it; it has not come.
    Awaited,
    /// It has come; no result names it yet.
    Held,
    /// It has come and is named.
    Open,
    /// It was read to its end.
    Ended,
}

/// What to do with a stream that has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Its result names it: it can be read.
    Named,
    /// Its result has not come yet: keep it.
    Held,
}

/// Why a stream is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamFault {
    /// It names no request in flight, or a stream that has come before (-32002).
    Injected,
    /// There are too many (-32000).
    TooMany,
    /// The result names it and it has not come (-32001).
    Missing,
    /// Its request was cancelled here, so it was on its way for nothing. Nobody is to blame.
    Cancelled,
}

impl StreamFault {
    /// What to report to the other end, if it is to blame.
    pub fn report(self) -> Option<(Fault, &'static str)> {
        match self {
            Self::Injected => Some((STREAM_INJECTION, "it belongs to no request in flight")),
            Self::TooMany => Some((STREAM_LIMIT_EXCEEDED, "too many streams are open")),
            Self::Missing => Some((INVALID_STREAM_REFERENCE, "the stream has not come")),
            Self::Cancelled => None,
        }
    }
}

/// What the answer to a request settles.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answered {
    /// Streams that were held and can be read now.
    pub named: Vec<u32>,
    /// Streams that are more than may be open, and will not be waited for.
    pub too_many: Vec<u32>,
}

/// A stream whose time is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expired {
    /// Which.
    pub stream: StreamHeader,
    /// Why.
    pub fault: StreamFault,
}

impl Ledger {
    /// Lets so many streams be open at once, and waits so long for what is unsettled.
    pub fn new(limit: usize, grace: Duration) -> Self {
        Self { requests: HashMap::new(), open: 0, limit, grace }
    }

    /// Notes that a request is sent. One that uses the number of another anew takes its place.
    pub fn begin(&mut self, request: u32) {
        self.forget(request);
        self.requests.insert(request, Request::default());
    }

    /// Decides about a stream that has come.
    pub fn arrive(&mut self, stream: StreamHeader) -> Result<Arrival, StreamFault> {
        let request = self.requests.get_mut(&stream.request).ok_or(StreamFault::Injected)?;
        if request.cancelled {
            return Err(StreamFault::Cancelled);
        }
        let stage = request.streams.get(&stream.tag).copied();
        let (stage, arrival) = match stage {
            Some(Stage::Awaited) => (Stage::Open, Arrival::Named),
            None => (Stage::Held, Arrival::Held),
            Some(_) => return Err(StreamFault::Injected),
        };
        if self.open >= self.limit {
            return Err(StreamFault::TooMany);
        }
        self.open += 1;
        request.streams.insert(stream.tag, stage);
        Ok(arrival)
    }

    /// Notes the answer to a request, and the streams it names.
    pub fn answer(&mut self, request: u32, tags: &[u32], now: Duration) -> Answered {
        let mut answered = Answered::default();
        let (limit, grace) = (self.limit, self.grace);
        let entry = self.requests.get_mut(&request).filter(|entry| !entry.cancelled);
        let Some(entry) = entry else { return answered };
        entry.deadline = Some(now + grace);
        for &tag in tags {
            match entry.streams.get(&tag) {
                Some(Stage::Held) => {
                    entry.streams.insert(tag, Stage::Open);
                    answered.named.push(tag);
                }
                Some(_) => {}
                None if entry.streams.len() >= limit => answered.too_many.push(tag),
                None => {
                    entry.streams.insert(tag, Stage::Awaited);
                }
            }
        }
        self.tidy(request);
        answered
    }

    /// Notes that a stream was read to its end, or is not read any more.
    pub fn end(&mut self, stream: StreamHeader) {
        if let Some(request) = self.requests.get_mut(&stream.request)
            && let Some(stage) = request.streams.get_mut(&stream.tag)
            && matches!(stage, Stage::Held | Stage::Open)
        {
            *stage = Stage::Ended;
            self.open -= 1;
            self.tidy(stream.request);
        }
    }

    /// Notes that a stream will not come, because the other end says so. Returns whether somebody
    /// may be waiting for it: it has not come, and the answer names it or may still do so.
    pub fn give_up(&mut self, stream: StreamHeader) -> bool {
        let request = self.requests.get_mut(&stream.request);
        let Some(request) = request.filter(|request| !request.cancelled) else { return false };
        match request.streams.get(&stream.tag) {
            Some(Stage::Awaited) => {}
            None if request.deadline.is_none() && request.streams.len() < self.limit => {}
            Some(_) | None => return false,
        }
        request.streams.insert(stream.tag, Stage::Ended);
        self.tidy(stream.request);
        true
    }

    /// Notes that a request is cancelled here. Returns the streams that have come; what else comes
    /// within the time of grace was on its way already.
    pub fn cancel(&mut self, request: u32, now: Duration) -> Vec<u32> {
        let Some(entry) = self.requests.get_mut(&request) else { return Vec::new() };
        let streams = std::mem::take(&mut entry.streams);
        entry.cancelled = true;
        entry.deadline = Some(now + self.grace);
        let mut come: Vec<_> =
            streams.iter().filter(|(_, stage)| is_here(**stage)).map(|(tag, _)| *tag).collect();
        self.open -= come.len();
        come.sort_unstable();
        come
    }

    /// Whether datagrams about a request are wanted (WT-061). 0 is the whole session.
    pub fn is_in_flight(&self, request: u32) -> bool {
        request == 0 || self.requests.get(&request).is_some_and(|request| !request.cancelled)
    }

    /// When [`expire`](Self::expire) will have something to say.
    pub fn due(&self) -> Option<Duration> {
        self.requests
            .values()
            .filter(|request| request.is_unsettled())
            .filter_map(|request| request.deadline)
            .min()
    }

    /// Gives up what has not come in time, or was never named.
    pub fn expire(&mut self, now: Duration) -> Vec<Expired> {
        let mut expired = Vec::new();
        let mut closed = 0;
        self.requests.retain(|&request, entry| {
            if entry.deadline.is_none_or(|deadline| deadline > now) {
                return true;
            }
            entry.streams.retain(|&tag, stage| {
                let fault = match stage {
                    Stage::Awaited => StreamFault::Missing,
                    Stage::Held => StreamFault::Injected,
                    Stage::Open | Stage::Ended => return true,
                };
                closed += usize::from(*stage == Stage::Held);
                expired.push(Expired { stream: StreamHeader { request, tag }, fault });
                false
            });
            entry.streams.values().any(|stage| *stage == Stage::Open)
        });
        self.open -= closed;
        expired.sort_unstable_by_key(|expired| expired.stream);
        expired
    }

    /// How many streams have come and not ended.
    pub fn open(&self) -> usize {
        self.open
    }

    /// Whether nothing is in flight.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    fn forget(&mut self, request: u32) {
        if let Some(entry) = self.requests.remove(&request) {
            self.open -= entry.streams.values().filter(|stage| is_here(**stage)).count();
        }
    }

    /// Forgets a request with nothing left to happen.
    fn tidy(&mut self, request: u32) {
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
    /// Whether the end of its time of grace changes anything.
    fn is_unsettled(&self) -> bool {
        let waits = |stage: &Stage| matches!(stage, Stage::Awaited | Stage::Held);
        self.cancelled || self.streams.values().any(waits)
    }
}

fn is_here(stage: Stage) -> bool {
    matches!(stage, Stage::Held | Stage::Open)
}

#[cfg(test)]
mod tests {
    use super::{Arrival, Expired, Ledger, StreamFault};
    use crate::webtransport::StreamHeader;
    use std::time::Duration;

    /// WT-055, WT-056: stream and answer in either order come to the same.
    #[test]
    fn the_order_of_stream_and_answer_does_not_matter() {
        let mut ledger = ledger();
        ledger.begin(1);
        assert_eq!(ledger.arrive(stream(1, 1)), Ok(Arrival::Held));
        assert_eq!(ledger.answer(1, &[1, 2], NOW).named, [1]);
        assert_eq!(ledger.arrive(stream(1, 2)), Ok(Arrival::Named));
        ledger.end(stream(1, 1));
        assert!(ledger.is_in_flight(1), "a stream still runs");
        ledger.end(stream(1, 2));
        assert!(ledger.is_empty() && !ledger.is_in_flight(1));
    }

    /// A short stream may be over before its answer comes.
    #[test]
    fn a_stream_may_end_before_its_answer() {
        let mut ledger = ledger();
        ledger.begin(1);
        ledger.arrive(stream(1, 1)).unwrap();
        ledger.end(stream(1, 1));
        assert_eq!(ledger.open(), 0);
        ledger.answer(1, &[1], NOW);
        assert!(ledger.is_empty());
    }

    /// WT-047, WT-045: what belongs to nothing, comes twice or is too much is refused.
    #[test]
    fn strangers_are_refused() {
        let mut ledger = ledger();
        assert_eq!(ledger.arrive(stream(999, 1)), Err(StreamFault::Injected));
        ledger.begin(1);
        ledger.answer(1, &[], NOW);
        assert_eq!(ledger.arrive(stream(1, 1)), Err(StreamFault::Injected), "it is over");
        ledger.begin(2);
        assert_eq!(ledger.arrive(stream(2, 1)), Ok(Arrival::Held));
        assert_eq!(ledger.arrive(stream(2, 1)), Err(StreamFault::Injected), "it is here");
        assert_eq!(ledger.arrive(stream(2, 2)), Ok(Arrival::Held));
        assert_eq!(ledger.arrive(stream(2, 3)), Err(StreamFault::TooMany));
        ledger.end(stream(2, 1));
        assert_eq!(ledger.arrive(stream(2, 3)), Ok(Arrival::Held));
        assert_eq!(ledger.answer(2, &[2, 3, 7, 8], NOW).too_many, [7, 8]);
    }

    /// WT-046: what does not come is given up after a time of grace, and what was never named.
    #[test]
    fn grace_ends() {
        let mut ledger = ledger();
        ledger.begin(1);
        ledger.begin(2);
        ledger.arrive(stream(2, 5)).unwrap();
        assert_eq!(ledger.due(), None, "an unanswered request takes its time");
        ledger.answer(1, &[9], NOW);
        ledger.answer(2, &[], NOW);
        assert_eq!(ledger.due(), Some(NOW + GRACE));
        assert_eq!(ledger.expire(NOW), []);
        let expired = [
            Expired { stream: stream(1, 9), fault: StreamFault::Missing },
            Expired { stream: stream(2, 5), fault: StreamFault::Injected },
        ];
        assert_eq!(ledger.expire(NOW + GRACE), expired);
        assert!(ledger.is_empty() && ledger.open() == 0);
    }

    /// WT-049: a stream that the other end gives up is not waited for, whether or not the answer
    /// that names it has come.
    #[test]
    fn what_is_given_up_is_not_waited_for() {
        let mut ledger = ledger();
        assert!(!ledger.give_up(stream(1, 1)), "there is no such request");
        ledger.begin(1);
        assert!(ledger.give_up(stream(1, 1)));
        assert!(!ledger.give_up(stream(1, 1)), "once is enough");
        ledger.answer(1, &[1, 2], NOW);
        assert!(!ledger.give_up(stream(1, 9)), "the answer does not name it");
        assert!(ledger.give_up(stream(1, 2)));
        assert!(ledger.is_empty());
        ledger.begin(2);
        ledger.arrive(stream(2, 1)).unwrap();
        assert!(!ledger.give_up(stream(2, 1)), "it is here");
        assert_eq!(ledger.open(), 1);
    }

    /// WT-061: a cancelled request has no streams and no datagrams, and nobody is blamed for what
    /// was on its way.
    #[test]
    fn a_cancelled_request_is_over() {
        let mut ledger = ledger();
        ledger.begin(1);
        ledger.arrive(stream(1, 1)).unwrap();
        assert_eq!(ledger.cancel(1, NOW), [1]);
        assert_eq!(ledger.open(), 0);
        assert_eq!(ledger.arrive(stream(1, 2)), Err(StreamFault::Cancelled));
        assert!(!ledger.is_in_flight(1) && ledger.is_in_flight(0));
        ledger.answer(1, &[], NOW);
        assert_eq!(ledger.expire(NOW + GRACE), []);
        assert_eq!(ledger.arrive(stream(1, 3)), Err(StreamFault::Injected));
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
