//! When the program is killed.

use std::fmt;
use std::time::Duration;

use super::book::Book;

/// Draws what happens, and counts it.
pub(super) struct Chance {
    generator: fastrand::Rng,
    seed: u64,
    points: usize,
    left: usize,
    starting: usize,
    /// How long an exchange takes that is left alone, about.
    exchange: Duration,
    /// How long a start takes that is left alone, about.
    start: Duration,
}

impl Chance {
    pub(super) fn from_environment() -> Self {
        let read =
            |name| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
        let seed = read("MCP_FLOW_CRASH_SEED").unwrap_or_else(|| fastrand::u64(..));
        eprintln!("repeat these choices with MCP_FLOW_CRASH_SEED={seed}");
        let points = read("MCP_FLOW_CRASH_POINTS").map(usize::try_from);
        let points = points.map_or(POINTS, |points| points.expect("a number of points"));
        Self {
            generator: fastrand::Rng::with_seed(seed),
            seed,
            points,
            left: points,
            starting: 0,
            exchange: Duration::from_millis(10),
            start: Duration::from_millis(50),
        }
    }

    pub(super) fn points(&self) -> usize {
        self.points
    }

    /// Whether someone is still to be killed.
    pub(super) fn is_left(&self) -> bool {
        self.left > 0
    }

    /// A number below another.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.generator.u64(..end)
    }

    /// What is to happen to the next exchange. Whatever is not spared counts as a kill.
    pub(super) fn fate(&mut self) -> Fate {
        // Drawn in any case, so that the choices do not depend on how long anything took.
        let (kind, part) = (self.generator.u32(..10), self.generator.f64());
        if self.left == 0 {
            return Fate::Spared;
        }
        let fate = match kind {
            0..3 => return Fate::Spared,
            3 => Fate::AfterReply,
            4..8 => Fate::After(self.exchange.mul_f64(2.0 * part)),
            _ => Fate::AtEffect,
        };
        self.left -= 1;
        fate
    }

    /// How long the next start is left alone, if it is to be killed.
    pub(super) fn start_fate(&mut self) -> Option<Duration> {
        let (kind, part) = (self.generator.u32(..6), self.generator.f64());
        if kind > 0 || self.left == 0 {
            return None;
        }
        self.left -= 1;
        self.starting += 1;
        Some(self.start.mul_f64(part))
    }

    /// Notes how long an exchange has taken.
    pub(super) fn took(&mut self, time: Duration) {
        self.exchange = (self.exchange * 7 + time) / 8;
    }

    /// Notes how long a start has taken.
    pub(super) fn started_in(&mut self, time: Duration) {
        self.start = (self.start * 7 + time) / 8;
    }
}

impl fmt::Display for Chance {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, points, left, starting, exchange, .. } = self;
        let (killed, usual) = (points - left, exchange.as_millis());
        write!(
            formatter,
            "seed {seed}, an exchange takes {usual} ms: {killed} kills, {starting} of them while starting"
        )
    }
}

/// What happens to an exchange.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Fate {
    /// Nothing.
    Spared,
    /// A kill after so long, or after the reply if that is earlier.
    After(Duration),
    /// A kill when a step has left its trace, or after the reply if it leaves none.
    AtEffect,
    /// A kill when the reply is there.
    AfterReply,
}

impl Fate {
    /// Waits for the moment of the kill; for ever if that is not before the reply.
    pub(super) async fn strikes(self, book: &Book) {
        match self {
            Self::Spared | Self::AfterReply => std::future::pending().await,
            Self::After(time) => pause(time).await,
            Self::AtEffect => {
                let length = book.length();
                while book.length() == length {
                    pause(GLANCE).await;
                }
            }
        }
    }
}

/// Waits, to less than a millisecond, which is as exact as the runtime's own clock is.
pub(super) async fn pause(time: Duration) {
    let slept = tokio::task::spawn_blocking(move || std::thread::sleep(time)).await;
    slept.expect("sleeping does not panic");
}

const POINTS: usize = 200;
const GLANCE: Duration = Duration::from_micros(200);
