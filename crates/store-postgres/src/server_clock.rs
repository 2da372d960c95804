//! Jumps of the server's clock, which leases are measured by.
//!
//! After a jump forward every lease would seem to have expired, though its node relies on it; after
//! a jump back those of dead nodes would seem to last. So nobody is expired for a while after one,
//! until all live nodes have renewed their leases by the new time.

use std::time::Duration;

use mcp_flow_session::store::LEASE;
use parking_lot::Mutex;
use tokio::time::Instant;

/// Clock of the server, compared with the monotonic clock of this process.
#[derive(Debug)]
pub(crate) struct ServerClock {
    /// Time that the clock of the server is compared with.
    start: Instant,
    observed: Mutex<Observed>,
}

#[derive(Debug, Default)]
struct Observed {
    /// Bounds of the difference between the clocks in milliseconds, by the last reply: the server
    /// read its clock at some time between the request and the reply.
    difference: Option<(i64, i64)>,
    /// Time from which leases can be relied on again after a jump.
    settled: Option<Instant>,
}

impl Default for ServerClock {
    fn default() -> Self {
        Self { start: Instant::now(), observed: Mutex::default() }
    }
}

impl ServerClock {
    /// Takes note of the server's time, received now in reply to what was sent then.
    pub(crate) fn observe(&self, server: i64, sent: Instant) {
        let at = Instant::now();
        let (least, most) = (server - millis(at - self.start), server - millis(sent - self.start));
        let mut observed = self.observed.lock();
        if let Some((least_before, most_before)) = observed.difference {
            // A slow reply says little, and so contradicts little.
            let off = (least - most_before).max(least_before - most);
            if off > millis(TOLERANCE) {
                tracing::warn!(milliseconds = off, "the clock of the database server has jumped");
                observed.settled = Some(at + SETTLING);
            }
        }
        observed.difference = Some((least, most));
    }

    /// Returns whether leases can be told from expired ones.
    pub(crate) fn is_steady(&self) -> bool {
        let observed = self.observed.lock();
        observed.difference.is_some()
            && observed.settled.is_none_or(|settled| settled <= Instant::now())
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// Difference between the clocks that is no jump: less than a lease lasts beyond what nodes rely on.
const TOLERANCE: Duration = Duration::from_millis(250);

/// Time in which every live node renews its lease.
const SETTLING: Duration = LEASE.saturating_add(Duration::from_millis(300));

#[cfg(test)]
mod tests {
    use super::{SETTLING, ServerClock, millis};
    use std::time::Duration;
    use tokio::time::{Instant, advance};

    /// A jump in either direction suspends the expiry of leases for a while, slow replies do not.
    #[tokio::test(start_paused = true)]
    async fn jumps_of_the_clock_suspend_expiry() {
        for (jump, reply, is_steady) in [
            (0, 0, true),
            (200, 0, true),
            (3_600_000, 0, false),
            (-60_000, 0, false),
            (800, 900, true),
            (3_600_000, 900, false),
        ] {
            let clock = ServerClock::default();
            assert!(!clock.is_steady(), "nothing is known of it");
            clock.observe(10_000, Instant::now());
            assert!(clock.is_steady());
            advance(Duration::from_millis(300)).await;
            let sent = Instant::now();
            advance(Duration::from_millis(reply)).await;
            clock.observe(10_300 + jump, sent);
            assert_eq!(clock.is_steady(), is_steady, "{jump}");
            advance(SETTLING).await;
            assert!(clock.is_steady(), "{jump}");
            // The next reply is fast, and tells nothing new.
            clock.observe(10_300 + jump + millis(SETTLING), Instant::now());
            assert!(clock.is_steady(), "{jump} after a reply of {reply} ms");
        }
    }
}
