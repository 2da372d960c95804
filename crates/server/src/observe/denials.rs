//! Telling of those who are not let in, without their filling a log.

use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Somebody was not let in by a transport, before there was a connection of theirs.
#[derive(Clone, Copy, Debug)]
pub struct Denial<'a> {
    /// The kind of transport.
    pub transport: &'static str,
    /// Where they came from, if that is known.
    pub peer: Option<SocketAddr>,
    /// What was wrong, in a word or two; nothing they have sent.
    pub reason: &'a str,
    /// How many others were not let in since the last one that was told of.
    pub others: u64,
}

/// Those who were not let in; one in a second is told of, with the number of the others.
#[derive(Debug, Default)]
pub(crate) struct Denials(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    last: Option<Instant>,
    untold: u64,
}

impl Denials {
    /// Counts one. If it is to be told of, how many were not.
    pub(crate) fn count(&self, now: Instant) -> Option<u64> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.last.is_some_and(|last| now.saturating_duration_since(last) < PAUSE) {
            state.untold += 1;
            return None;
        }
        state.last = Some(now);
        Some(std::mem::take(&mut state.untold))
    }
}

const PAUSE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::Denials;

    /// INT-111: whoever is not let in is told of, and cannot fill the log.
    #[test]
    fn one_in_a_second_is_told_of() {
        let (denials, start) = (Denials::default(), Instant::now());
        let told = [0, 1, 999, 1000, 1001, 5000]
            .map(|milliseconds| denials.count(start + Duration::from_millis(milliseconds)));
        assert_eq!(told, [Some(0), None, None, Some(2), None, Some(1)]);
    }
}
