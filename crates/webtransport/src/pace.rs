//! How fast datagrams may go out: slower when the path loses packets (WT-070).

use std::time::Duration;

/// A rate that falls with loss and recovers without.
///
/// Nothing here looks at a clock: the caller tells how many packets were sent and lost in each
/// [`INTERVAL`](Pace::INTERVAL).
#[derive(Debug)]
pub(crate) struct Pace {
    /// Datagrams in a second.
    rate: f64,
    sent: u64,
    lost: u64,
}

impl Pace {
    /// How often the path is looked at.
    pub(crate) const INTERVAL: Duration = Duration::from_millis(200);
    const FASTEST: f64 = 20_000.0;
    const SLOWEST: f64 = 20.0;
    /// Fewer packets say nothing about the path.
    const FEW: u64 = 10;

    pub(crate) fn new() -> Self {
        Self { rate: Self::FASTEST, sent: 0, lost: 0 }
    }

    /// Takes note of how many packets were ever sent and lost, if it is enough to judge by. Returns
    /// whether sending became slower.
    pub(crate) fn observe(&mut self, sent: u64, lost: u64) -> bool {
        let (newly_sent, newly_lost) =
            (sent.saturating_sub(self.sent), lost.saturating_sub(self.lost));
        if newly_sent < Self::FEW {
            return false;
        }
        (self.sent, self.lost) = (sent, lost);
        // In thousandths, which is as precise as this gets.
        let loss = newly_lost.saturating_mul(1000) / newly_sent;
        let factor = match loss {
            0..=20 => 1.25,
            21..=100 => 1.0,
            _ => 0.5,
        };
        let before = self.rate;
        // From the top even a small step down would take long to be felt.
        let from = if factor < 1.0 { self.rate.min(1000.0) } else { self.rate };
        self.rate = (from * factor).clamp(Self::SLOWEST, Self::FASTEST);
        self.rate < before
    }

    /// How long to leave between two datagrams.
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

    /// WT-070: much loss slows down, at most to a trickle; none speeds up again; a little changes
    /// nothing, and so do too few packets to judge by.
    #[test]
    fn loss_slows_down() {
        let mut pace = Pace::new();
        assert_eq!(pace.gap(), Duration::ZERO);
        let (mut sent, mut lost) = (0, 0);
        let mut observe = |pace: &mut Pace, more_sent, more_lost| {
            sent += more_sent;
            lost += more_lost;
            pace.observe(sent, lost)
        };
        assert!(!observe(&mut pace, 100, 2));
        assert_eq!(pace.gap(), Duration::ZERO);
        assert!(observe(&mut pace, 100, 30));
        assert_eq!(pace.gap(), Duration::from_millis(2));
        assert!(!observe(&mut pace, 100, 8), "as it is");
        assert!(!observe(&mut pace, 9, 9), "too few");
        for _ in 0..20 {
            observe(&mut pace, 100, 30);
        }
        assert_eq!(pace.gap(), Duration::from_millis(50));
        for _ in 0..40 {
            observe(&mut pace, 100, 0);
        }
        assert_eq!(pace.gap(), Duration::ZERO);
    }
}
