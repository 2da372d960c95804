//! Pacing of datagrams by packet loss (WT-070).

use std::time::Duration;

/// A send rate that decreases with packet loss and recovers without.
///
/// Reads no clock: the caller reports the number of packets sent and lost in each
/// [`INTERVAL`](Pace::INTERVAL). A single bad interval changes nothing, because a large result
/// loses packets until congestion control has found the capacity of the path.
#[derive(Debug)]
pub(crate) struct Pace {
    /// Datagrams per second.
    rate: f64,
    sent: u64,
    lost: u64,
    /// The previous interval was bad too.
    was_bad: bool,
}

impl Pace {
    /// Sampling interval.
    pub(crate) const INTERVAL: Duration = Duration::from_millis(200);
    const FASTEST: f64 = 20_000.0;
    const SLOWEST: f64 = 20.0;
    /// Minimum number of packets to judge the path by.
    const MIN_PACKETS: u64 = 10;

    pub(crate) fn new() -> Self {
        Self { rate: Self::FASTEST, sent: 0, lost: 0, was_bad: false }
    }

    /// Takes a sample of the total numbers of packets sent and lost, if there are enough of them.
    /// Returns whether the rate decreased.
    pub(crate) fn observe(&mut self, sent: u64, lost: u64) -> bool {
        let (newly_sent, newly_lost) =
            (sent.saturating_sub(self.sent), lost.saturating_sub(self.lost));
        if newly_sent < Self::MIN_PACKETS {
            return false;
        }
        (self.sent, self.lost) = (sent, lost);
        // In thousandths.
        let loss = newly_lost.saturating_mul(1000) / newly_sent;
        let was_bad = std::mem::replace(&mut self.was_bad, loss > 100);
        let factor = match loss {
            0..=20 => 1.25,
            101.. if was_bad => 0.5,
            _ => 1.0,
        };
        let before = self.rate;
        // From the maximum, halving the rate would have no effect for too long.
        let from = if factor < 1.0 { self.rate.min(1000.0) } else { self.rate };
        self.rate = (from * factor).clamp(Self::SLOWEST, Self::FASTEST);
        self.rate < before
    }

    /// Returns the delay between two datagrams.
    pub(crate) fn gap(&self) -> Duration {
        if self.rate >= Self::FASTEST {
            Duration::ZERO
        } else {
            Duration::from_secs_f64(1.0 / self.rate)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Pace;
    use std::time::Duration;

    /// WT-070: lasting heavy loss slows down to a minimum rate; no loss speeds up again; light
    /// loss, a single burst and too few packets change nothing.
    #[test]
    fn lasting_packet_loss_reduces_the_rate() {
        const NONE: (u64, u64) = (100, 0);
        const LITTLE: (u64, u64) = (100, 8);
        const MUCH: (u64, u64) = (100, 30);
        const FEW: (u64, u64) = (9, 9);
        let milliseconds = Duration::from_millis;
        for (what, intervals, gap) in [
            ("nothing is known", &[][..], milliseconds(0)),
            ("a good path", &[NONE, NONE], milliseconds(0)),
            ("a little", &[LITTLE; 20], milliseconds(0)),
            ("a burst", &[MUCH], milliseconds(0)),
            ("a burst now and then", &[MUCH, NONE, MUCH, LITTLE, MUCH], milliseconds(0)),
            ("too few to judge by", &[FEW; 1], milliseconds(0)),
            ("loss that stays", &[MUCH, MUCH], milliseconds(2)),
            ("few packets in between", &[MUCH, FEW, MUCH], milliseconds(2)),
            ("it is less, and not gone", &[MUCH, MUCH, LITTLE], milliseconds(2)),
            ("and longer", &[MUCH, MUCH, MUCH], milliseconds(4)),
            ("never less than a trickle", &[MUCH; 20], milliseconds(50)),
            ("a path that recovers", &[&[MUCH; 20][..], &[NONE; 40]].concat(), milliseconds(0)),
        ] {
            let mut pace = Pace::new();
            let (mut sent, mut lost) = (0, 0);
            for (more_sent, more_lost) in intervals {
                let before = pace.gap();
                sent += more_sent;
                lost += more_lost;
                let slower = pace.observe(sent, lost);
                assert_eq!(slower, pace.gap() > before, "{what}");
            }
            assert_eq!(pace.gap(), gap, "{what}");
        }
    }
}
