//! Rate-limited reports of rejected clients, so that they cannot flood a log.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// A client that a transport rejected before it had a connection.
#[derive(Clone, Copy, Debug)]
pub struct Denial<'a> {
    /// The kind of transport.
    pub transport: &'static str,
    /// The client's address, if known.
    pub peer: Option<SocketAddr>,
    /// The reason, in a word or two; nothing the client sent.
    pub reason: &'a str,
    /// Rejections since the last reported one.
    pub others: u64,
}

/// Counts rejections and reports at most one per second.
#[derive(Debug, Default)]
pub(crate) struct Denials(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    last: Option<Instant>,
    unreported: u64,
}

impl Denials {
    /// Counts one. Returns the number left out since the last report, if this one is to be
    /// reported.
    pub(crate) fn count(&self, now: Instant) -> Option<u64> {
        let mut state = self.0.lock();
        if state.last.is_some_and(|last| now.saturating_duration_since(last) < PAUSE) {
            state.unreported += 1;
            return None;
        }
        state.last = Some(now);
        Some(std::mem::take(&mut state.unreported))
    }
}

const PAUSE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::Denials;

    /// INT-111: rejected clients are reported, and cannot flood the log.
    #[test]
    fn one_rejection_a_second_is_reported() {
        let (denials, start) = (Denials::default(), Instant::now());
        let reported = [0, 1, 999, 1000, 1001, 5000]
            .map(|milliseconds| denials.count(start + Duration::from_millis(milliseconds)));
        assert_eq!(reported, [Some(0), None, None, Some(2), None, Some(1)]);
    }
}
