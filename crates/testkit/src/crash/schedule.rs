//! Random choice of the moments at which the program is killed.

use std::fmt;
use std::time::Duration;

use super::effects::Effects;

/// Source of random choices, with a count of kills.
pub(super) struct Schedule {
    generator: fastrand::Rng,
    seed: u64,
    points: usize,
    left: usize,
    starting: usize,
    /// Typical duration of an undisturbed exchange.
    exchange: Duration,
    /// Typical duration of an undisturbed start.
    start: Duration,
}

impl Schedule {
    pub(super) fn from_environment(points: usize) -> Self {
        let read =
            |name| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
        let seed = read("MCP_FLOW_CRASH_SEED").unwrap_or_else(|| fastrand::u64(..));
        eprintln!("repeat these choices with MCP_FLOW_CRASH_SEED={seed}");
        let given = read("MCP_FLOW_CRASH_POINTS").map(usize::try_from);
        let points = given.map_or(points, |given| given.expect("a number of points"));
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

    /// Returns whether more kills are due.
    pub(super) fn has_more(&self) -> bool {
        self.left > 0
    }

    /// Draws a number below `end`.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.generator.u64(..end)
    }

    /// Draws the fault of the next exchange. Everything but `None` counts as a kill.
    pub(super) fn fault(&mut self) -> InjectedFault {
        // Drawn in any case, so that the choices do not depend on timing.
        let (kind, part) = (self.generator.u32(..10), self.generator.f64());
        if self.left == 0 {
            return InjectedFault::None;
        }
        let fault = match kind {
            0..3 => return InjectedFault::None,
            3 => InjectedFault::AfterReply,
            4..8 => InjectedFault::After(self.exchange.mul_f64(2.0 * part)),
            _ => InjectedFault::AtEffect,
        };
        self.left -= 1;
        fault
    }

    /// Draws the delay after which the next start is killed, if it is.
    pub(super) fn start_fault(&mut self) -> Option<Duration> {
        let (kind, part) = (self.generator.u32(..6), self.generator.f64());
        if kind > 0 || self.left == 0 {
            return None;
        }
        self.left -= 1;
        self.starting += 1;
        Some(self.start.mul_f64(part))
    }

    /// Records the duration of an exchange.
    pub(super) fn record_exchange(&mut self, time: Duration) {
        self.exchange = (self.exchange * 7 + time) / 8;
    }

    /// Records the duration of a start.
    pub(super) fn record_start(&mut self, time: Duration) {
        self.start = (self.start * 7 + time) / 8;
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, points, left, starting, exchange, .. } = self;
        let (killed, usual) = (points - left, exchange.as_millis());
        write!(
            formatter,
            "seed {seed}, an exchange takes {usual} ms: {killed} kills, {starting} of them while starting"
        )
    }
}

/// Fault injected into an exchange.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum InjectedFault {
    /// No kill.
    None,
    /// Kill after this time, or after the reply if that is earlier.
    After(Duration),
    /// Kill when a step has left its effect, or after the reply if it leaves none.
    AtEffect,
    /// Kill after the reply.
    AfterReply,
}

impl InjectedFault {
    /// Waits for the moment of the kill; forever if that is not before the reply.
    pub(super) async fn until_kill(self, effects: &Effects) {
        match self {
            Self::None | Self::AfterReply => std::future::pending().await,
            Self::After(time) => pause(time).await,
            Self::AtEffect => {
                let length = effects.length();
                while effects.length() == length {
                    pause(GLANCE).await;
                }
            }
        }
    }
}

/// Waits with a precision below a millisecond, which is that of the runtime's clock.
pub(super) async fn pause(time: Duration) {
    let slept = tokio::task::spawn_blocking(move || std::thread::sleep(time)).await;
    slept.expect("sleeping does not panic");
}

const GLANCE: Duration = Duration::from_micros(200);
