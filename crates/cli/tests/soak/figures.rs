//! What is measured, and what must hold of it.

use std::fmt;
use std::time::{Duration, Instant};

use mcp_flow_testkit::usage::Usage;

use crate::soak::tally::Tally;

/// What is known of one run.
pub(crate) struct Figures {
    begun: Instant,
    start: Usage,
    /// How things were at each quiet moment.
    quiet: Vec<(Duration, Usage)>,
    pub(crate) tally: Tally,
    /// Clients that were started.
    pub(crate) clients: u64,
    /// Clients that were killed.
    pub(crate) kills: u64,
}

impl Figures {
    pub(crate) fn new(start: Usage) -> Self {
        let begun = Instant::now();
        Self { begun, start, quiet: Vec::new(), tally: Tally::default(), clients: 0, kills: 0 }
    }

    pub(crate) fn note(&mut self, usage: Usage) {
        self.quiet.push((self.begun.elapsed(), usage));
    }

    pub(crate) fn moments(&self) -> usize {
        self.quiet.len()
    }

    /// The last quiet moment, in words.
    pub(crate) fn last(&self) -> String {
        let Some((at, usage)) = self.quiet.last() else { return String::new() };
        line(*at, usage)
    }

    /// By which part memory has grown from the first quiet moment to the last.
    fn growth(&self) -> f64 {
        let resident = |moment: Option<&(Duration, Usage)>| {
            let kilobytes = moment.map_or(0, |(_, usage)| usage.resident);
            u32::try_from(kilobytes).map(f64::from).unwrap_or(f64::MAX)
        };
        resident(self.quiet.last()) / resident(self.quiet.first()) - 1.0
    }

    pub(crate) fn check(&self) {
        let Tally { replies, cancelled, progress, conversations, left, changes, bytes } =
            self.tally;
        let done = [replies, cancelled, progress, conversations, left, changes, bytes];
        assert!(!done.contains(&0), "something was never done: {}", self.tally);
        assert!(self.kills > 0, "nobody was killed");
        let growth = self.growth();
        assert!(growth <= MOST_GROWTH, "memory has grown by {:.1} %", growth * 100.0);
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { begun, start, quiet, tally, clients, kills } = self;
        writeln!(formatter, "{} s: {clients} clients, {kills} killed", begun.elapsed().as_secs())?;
        writeln!(formatter, "{tally}")?;
        writeln!(formatter, "{}, before anybody came", line(Duration::ZERO, start))?;
        for (at, usage) in quiet {
            writeln!(formatter, "{}", line(*at, usage))?;
        }
        let growth = self.growth() * 100.0;
        write!(formatter, "{growth:+.1} % from the first quiet moment to the last")
    }
}

fn line(at: Duration, usage: &Usage) -> String {
    let Usage { resident, threads, handles } = usage;
    let handles = handles.len();
    format!("{:>5} s {resident:>7} KiB {handles:>3} handles {threads:>3} threads", at.as_secs())
}

/// How much of its memory a server may gain.
const MOST_GROWTH: f64 = 0.05;
