//! Measurements of a run, and their limits.

use std::fmt;
use std::time::{Duration, Instant};

use mcp_flow_testkit::usage::Usage;

use crate::soak::counts::Counts;

/// Counts and resource usage of one run.
pub(crate) struct Measurements {
    begun: Instant,
    start: Usage,
    /// Resource usage at each idle point.
    idle: Vec<(Duration, Usage)>,
    pub(crate) counts: Counts,
    /// Clients started.
    pub(crate) clients: u64,
    /// Clients killed.
    pub(crate) kills: u64,
}

impl Measurements {
    pub(crate) fn new(start: Usage) -> Self {
        let begun = Instant::now();
        Self { begun, start, idle: Vec::new(), counts: Counts::default(), clients: 0, kills: 0 }
    }

    pub(crate) fn note(&mut self, usage: Usage) {
        self.idle.push((self.begun.elapsed(), usage));
    }

    pub(crate) fn idle_points(&self) -> usize {
        self.idle.len()
    }

    /// Describes the last idle point.
    pub(crate) fn last(&self) -> String {
        let Some((at, usage)) = self.idle.last() else { return String::new() };
        line(*at, usage)
    }

    /// The relative growth of memory from the first idle point to the last.
    fn growth(&self) -> f64 {
        let resident = |point: Option<&(Duration, Usage)>| {
            let kilobytes = point.map_or(0, |(_, usage)| usage.resident);
            u32::try_from(kilobytes).map(f64::from).unwrap_or(f64::MAX)
        };
        resident(self.idle.last()) / resident(self.idle.first()) - 1.0
    }

    pub(crate) fn check(&self) {
        let Counts { replies, cancelled, progress, sessions, abandoned, changes, bytes } =
            self.counts;
        let done = [replies, cancelled, progress, sessions, abandoned, changes, bytes];
        assert!(!done.contains(&0), "something was never done: {}", self.counts);
        assert!(self.kills > 0, "no client was killed");
        let growth = self.growth();
        assert!(growth <= MAX_GROWTH, "memory has grown by {:.1} %", growth * 100.0);
    }
}

impl fmt::Display for Measurements {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { begun, start, idle, counts, clients, kills } = self;
        writeln!(formatter, "{} s: {clients} clients, {kills} killed", begun.elapsed().as_secs())?;
        writeln!(formatter, "{counts}")?;
        writeln!(formatter, "{}, before the first client", line(Duration::ZERO, start))?;
        for (at, usage) in idle {
            writeln!(formatter, "{}", line(*at, usage))?;
        }
        let growth = self.growth() * 100.0;
        write!(formatter, "{growth:+.1} % from the first idle point to the last")
    }
}

fn line(at: Duration, usage: &Usage) -> String {
    let Usage { resident, threads, handles } = usage;
    let handles = handles.len();
    format!("{:>5} s {resident:>7} KiB {handles:>3} handles {threads:>3} threads", at.as_secs())
}

/// The share by which the memory of a server may grow.
const MAX_GROWTH: f64 = 0.05;
