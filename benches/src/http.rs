//! A small call over HTTP, compared with a bare axum handler and the official SDK.

mod connection;
mod contest;
pub(crate) mod era;
pub(crate) mod load;
pub(crate) mod response;
pub(crate) mod sample;

use serde::Serialize;

use self::{
    contest::{Contest, LineUp, Measured, Trial},
    era::Era,
    load::Load,
    sample::Sample,
};
use crate::{
    binary::{McpFlow, Target},
    placement::Cores,
    report::{self, Environment, Threshold, name},
};

/// Compare a small call over HTTP with a bare axum handler and with rmcp
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    run: Run,
}

/// Options of all HTTP measurements.
#[derive(Debug, clap::Args)]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) load: Load,

    /// Rounds per server; medians of numbers and of the ratios within a round are shown
    #[arg(long, value_name = "N", default_value = "9")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,

    // On the driver's core, a call would include the cost of the driver. On several cores, a good
    // server is faster than the driver, and then all seem alike.
    /// Placement of the driver and the server
    #[arg(long, value_enum, default_value = "one-each")]
    pub(crate) cores: Cores,

    #[command(flatten)]
    pub(crate) mcp_flow: McpFlow,
}

impl Arguments {
    /// Measures, writes `http.json`, and returns the report.
    pub(crate) fn run(self) -> anyhow::Result<String> {
        let Run { load, rounds, cores, mcp_flow } = self.run;
        let target = Target::find()?;
        let mcp_flow = mcp_flow.locate(&target)?;
        // Queried before any thread is confined, because only allowed cores are counted.
        let environment = Environment::describe()?;
        let mut contest = Contest {
            target: &target,
            mcp_flow: &mcp_flow,
            load,
            placement: cores.place()?,
            trials: Vec::new(),
        };
        let mut line_ups = Vec::new();
        for era in Era::ALL {
            line_ups.push(contest.line_up(era)?);
        }
        contest.take_turns(rounds, &mut line_ups)?;
        let eras: Vec<_> = line_ups.into_iter().map(Comparison::of).collect();
        let results = Results {
            environment,
            load,
            rounds,
            cores,
            holds: eras.iter().flat_map(Comparison::holds).collect(),
            eras,
            trials: contest.trials,
        };
        let saved = report::save(&target, "http.json", &results)?;
        Ok(format!("{}\n{saved}", results.show()))
    }
}

/// The three servers in one era.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Comparison {
    era: Era,
    bare: Measured,
    rmcp: Measured,
    mcp_flow: Measured,
}

impl Comparison {
    fn of(LineUp { era, bare, rmcp, mcp_flow }: LineUp) -> Self {
        Self { era, bare: bare.finish(), rmcp: rmcp.finish(), mcp_flow: mcp_flow.finish() }
    }

    fn servers(&self) -> [&Measured; 3] {
        [&self.bare, &self.rmcp, &self.mcp_flow]
    }

    fn holds(&self) -> [Threshold; 3] {
        let Self { era, bare, rmcp, mcp_flow } = self;
        let p99 = |sample: &Sample| sample.p99_microseconds;
        let p99_ratio = Sample::ratio(&mcp_flow.samples, &rmcp.samples, p99);
        [
            Threshold::at_least(
                format!("{era}: mcp-flow / bare axum calls/s"),
                0.85,
                speed(mcp_flow, bare),
            ),
            Threshold::at_least(
                format!("{era}: mcp-flow / rmcp calls/s"),
                2.2,
                speed(mcp_flow, rmcp),
            ),
            Threshold::new(format!("{era}: mcp-flow / rmcp p99"), 1.0, p99_ratio),
        ]
    }

    fn rows(&self) -> [[String; 10]; 3] {
        let Self { era, bare, rmcp, .. } = self;
        self.servers().map(|server| {
            let Measured { label, median, .. } = server;
            [
                format!("{era} {label}"),
                format!("{:.0}", median.calls_per_second),
                format!("{:.0}", median.p50_microseconds),
                format!("{:.0}", median.p99_microseconds),
                format!("{:.1}", median.cpu_microseconds_per_call),
                format!("{:.1}", median.peak_rss_megabytes),
                format!("{:.0}%", median.driver_busy * 100.0),
                format!("{:.0}%", median.kept_waiting * 100.0),
                format!("{:.3}", speed(server, bare)),
                format!("{:.2}", speed(server, rmcp)),
            ]
        })
    }
}

fn speed(one: &Measured, other: &Measured) -> f64 {
    Sample::speed(&one.samples, &other.samples)
}

#[derive(Serialize)]
struct Results {
    environment: Environment,
    #[serde(flatten)]
    load: Load,
    rounds: u32,
    cores: Cores,
    eras: Vec<Comparison>,
    holds: Vec<Threshold>,
    trials: Vec<Trial>,
}

impl Results {
    fn show(&self) -> String {
        let Load { connections, milliseconds } = self.load;
        let mut rows = vec![HEADINGS.map(str::to_owned)];
        rows.extend(self.eras.iter().flat_map(Comparison::rows));
        let holds: Vec<String> = self.holds.iter().map(Threshold::to_string).collect();
        let trials =
            self.trials.iter().map(|Trial { era, label, cpu_microseconds_per_call: cpu }| {
                format!("tried {era} {label}: at best {cpu:.1} us/call")
            });
        format!(
            "tools/call over HTTP: {connections} connections, one call in flight on each, \
             {milliseconds} ms, {}, median of {} rounds\n{}\n\n{}\n{}\n{}",
            name(&self.cores),
            self.rounds,
            self.environment,
            report::table(&rows),
            holds.join("\n"),
            trials.collect::<Vec<_>>().join("\n"),
        ) + &self.caveats()
    }

    /// Returns warnings about conditions that make the numbers less meaningful.
    fn caveats(&self) -> String {
        let servers = self.eras.iter().flat_map(Comparison::servers);
        let medians: Vec<Sample> = servers.map(|server| server.median).collect();
        let most = |of: fn(&Sample) -> f64| medians.iter().map(of).fold(0.0, f64::max);
        let mut caveats = String::new();
        if most(|sample| sample.kept_waiting) > 0.05 {
            caveats += "\nnot to be relied on: other programs kept a server waiting for its core";
        }
        if most(|sample| sample.driver_busy) > 0.9 {
            caveats += "\nnot to be relied on: the driver was busy all the time and set the pace";
        }
        caveats
    }
}

const HEADINGS: [&str; 10] = [
    "server",
    "calls/s",
    "p50 us",
    "p99 us",
    "CPU us/call",
    "peak RSS MB",
    "driver busy",
    "kept waiting",
    "/ bare",
    "/ rmcp",
];
