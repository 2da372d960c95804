//! Results as ratios to quinn alone.

use std::time::Duration;

use serde::Serialize;

use super::{
    idle::{Flood, Idle},
    slow::Slow,
};
use crate::report::{self, Environment, Threshold, median};

/// The sample of one server in one round.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Sample {
    pub(super) pings_per_second: f64,
    pub(super) pings_per_second_64_in_flight: f64,
    pub(super) megabytes_per_second: f64,
    pub(super) megabytes_per_second_8_streams: f64,
    pub(super) ping_in_bulk_p50_ms: f64,
    pub(super) ping_in_bulk_p99_ms: f64,
    pub(super) datagrams_per_second: f64,
}

impl Sample {
    fn numbers(&self) -> [f64; 7] {
        [
            self.pings_per_second,
            self.pings_per_second_64_in_flight,
            self.megabytes_per_second,
            self.megabytes_per_second_8_streams,
            self.ping_in_bulk_p50_ms,
            self.ping_in_bulk_p99_ms,
            self.datagrams_per_second,
        ]
    }
}

/// The samples of all servers in one round.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Round {
    pub(super) flow: Sample,
    pub(super) raw: Sample,
    pub(super) http1_megabytes_per_second: f64,
    pub(super) http2_megabytes_per_second: f64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Results {
    environment: Environment,
    megabytes: u64,
    rounds: Vec<Round>,
    slow: Option<Slow>,
    idle: Option<[Idle; 2]>,
    flood: Option<Flood>,
    holds: Vec<Threshold>,
}

impl Results {
    pub(super) fn of(
        environment: Environment,
        megabytes: u64,
        rounds: Vec<Round>,
        slow: Option<Slow>,
        idle: Option<[Idle; 2]>,
        flood: Option<Flood>,
    ) -> Self {
        let mut results =
            Self { environment, megabytes, rounds, slow, idle, flood, holds: Vec::new() };
        results.holds = results.holds();
        results
    }

    fn holds(&self) -> Vec<Threshold> {
        let ratio = |of: fn(&Sample) -> f64| {
            median(self.rounds.iter().map(|round| of(&round.flow) / of(&round.raw)).collect())
        };
        let mut holds = vec![
            Threshold::at_least(
                "one stream MB/s, mcp-flow / quinn",
                0.9,
                ratio(|sample| sample.megabytes_per_second),
            ),
            Threshold::at_least(
                "eight streams MB/s, mcp-flow / quinn",
                0.9,
                ratio(|sample| sample.megabytes_per_second_8_streams),
            ),
            Threshold::new(
                "ping p99 in bulk, mcp-flow / quinn",
                1.5,
                ratio(|sample| sample.ping_in_bulk_p99_ms),
            ),
        ];
        if let Some(slow) = &self.slow {
            let what =
                |end| format!("{end} RSS growth, {} MB to a slow reader, MB", slow.megabytes);
            holds.push(Threshold::new(what("server"), 32.0, slow.server_growth_megabytes));
            holds.push(Threshold::new(what("reader"), 32.0, slow.reader_growth_megabytes));
        }
        if let Some([flow, _]) = &self.idle {
            let what = format!("KB for each of {} idle connections", flow.connections);
            holds.push(Threshold::new(what, 64.0, flow.kilobytes_each));
        }
        if let Some(flood) = &self.flood {
            let what = format!("RSS growth while {} streams are opened, MB", flood.streams);
            holds.push(Threshold::new(what, 32.0, flood.growth_megabytes));
        }
        holds
    }

    pub(super) fn show(&self) -> String {
        let number = |value: f64| {
            if value < 100.0 { format!("{value:.2}") } else { format!("{value:.0}") }
        };
        let middle = |of: &dyn Fn(&Round) -> f64| median(self.rounds.iter().map(of).collect());
        let server = |label: &str, of: fn(&Round) -> &Sample| {
            let cell = |column: usize| number(middle(&|round| of(round).numbers()[column]));
            std::array::from_fn(|at| if at == 0 { label.to_owned() } else { cell(at - 1) })
        };
        let ratio: [String; 8] = std::array::from_fn(|at| {
            let of = |round: &Round| round.flow.numbers()[at - 1] / round.raw.numbers()[at - 1];
            if at == 0 { "mcp-flow / quinn".to_owned() } else { format!("{:.2}", middle(&of)) }
        });
        let http = |label: &str, of: fn(&Round) -> f64| {
            let speed = number(middle(&of));
            let cells = [label, "-", "-", &speed, "-", "-", "-", "-"];
            cells.map(str::to_owned)
        };
        let rows = [
            HEADINGS.map(str::to_owned),
            server("mcp-flow", |round| &round.flow),
            server("quinn", |round| &round.raw),
            ratio,
            http("mcp-flow, HTTP/1.1", |round| round.http1_megabytes_per_second),
            http("mcp-flow, HTTP/2", |round| round.http2_megabytes_per_second),
        ];
        let idle = self.idle.as_ref().map_or_else(String::new, |[flow, raw]| {
            let (ours, reference) = (flow.kilobytes_each, raw.kilobytes_each);
            format!("an idle connection: {ours:.1} KB, with quinn alone {reference:.1} KB\n")
        });
        let holds: Vec<String> = self.holds.iter().map(Threshold::to_string).collect();
        format!(
            "{} MB over WebTransport, median of {} rounds, {}\n\n{}\n{idle}{}",
            self.megabytes,
            self.rounds.len(),
            self.environment,
            report::table(&rows),
            holds.join("\n"),
        )
    }
}

/// Returns the median and the 99th percentile, in milliseconds.
pub(super) fn percentiles(mut times: Vec<Duration>) -> (f64, f64) {
    times.sort_unstable();
    let at = |part: f64| {
        #[expect(clippy::cast_possible_truncation, reason = "an index of a list that exists")]
        let index = ((times.len() - 1) as f64 * part).round() as usize;
        times[index].as_secs_f64() * 1000.0
    };
    (at(0.5), at(0.99))
}

const HEADINGS: [&str; 8] = [
    "server",
    "pings/s",
    "64 in flight/s",
    "1 stream MB/s",
    "8 streams MB/s",
    "ping in bulk p50 ms",
    "p99 ms",
    "datagrams in/s",
];
