//! Cost of the gateway: a small call over HTTP to a server, and to the same server behind a bridge, over
//! HTTP and over stdio; memory for stopped upstreams, and while a gigabyte passes through.

mod memory;

use std::path::Path;

use serde::Serialize;

use crate::{
    binary::Target,
    http::{
        Run,
        era::Era,
        load::{Load, measure},
        sample::Sample,
    },
    listening::{Listening, Program, SERVE},
    placement::{Cores, Placement},
    report::{self, Environment, Threshold, megabytes, name},
};

/// Compare calls through the gateway with direct calls
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    run: Run,
}

/// The way of a call.
#[derive(Clone, Copy)]
enum Kind {
    Direct,
    /// To a server over Streamable HTTP.
    Http,
    /// To a server that the gateway starts.
    Stdio,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Direct, Self::Http, Self::Stdio];

    fn label(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Http => "gateway to HTTP",
            Self::Stdio => "gateway to stdio",
        }
    }

    /// Starts the servers, and puts the load on the one that clients see.
    fn measure(
        self,
        load: Load,
        target: &Target,
        mcp_flow: &Path,
        placement: Placement,
    ) -> anyhow::Result<Sample> {
        let folder = target.scratch()?;
        let words =
            |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let serve = words(&[&SERVE[..], &["--store", "memory:"]].concat());
        let bridge = words(&["bridge", "--listen", "127.0.0.1:0", "--json"]);
        let program = |arguments| Program { path: mcp_flow, arguments, folder: &folder };
        match self {
            Self::Direct => measure(program(&serve), Era::Stateless, load, placement, None),
            Self::Http => {
                let upstream = Listening::start(program(&serve), placement)?;
                let mut arguments = bridge;
                arguments.push(format!("http://{}/mcp", upstream.address));
                measure(program(&arguments), Era::Stateless, load, placement, None)
            }
            Self::Stdio => {
                let mut arguments = bridge;
                arguments.push("--".to_owned());
                arguments.push(mcp_flow.display().to_string());
                arguments.extend(words(&["stdio", "--store", "memory:"]));
                measure(program(&arguments), Era::Stateless, load, placement, None)
            }
        }
    }
}

impl Arguments {
    /// Measures, writes `gateway.json`, and returns the report.
    pub(crate) fn run(self) -> anyhow::Result<String> {
        let Run { load, rounds, cores, mcp_flow } = self.run;
        let target = Target::find()?;
        let mcp_flow = mcp_flow.locate(&target)?;
        let environment = Environment::describe()?;
        let placement = cores.place()?;
        let alone = Load { connections: 1, ..load };
        let mut samples = Kind::ALL.map(|_| Vec::new());
        let mut single = Kind::ALL.map(|_| Vec::new());
        for round in 1..=rounds {
            for kind in Kind::ALL {
                eprintln!("round {round} of {rounds}: {}", kind.label());
                samples[kind as usize].push(kind.measure(load, &target, &mcp_flow, placement)?);
                single[kind as usize].push(kind.measure(alone, &target, &mcp_flow, placement)?);
            }
        }
        let medians = Kind::ALL.map(|kind| Sample::median_of(&samples[kind as usize]));
        let [direct, http, _] = Kind::ALL.map(|kind| Sample::median_of(&single[kind as usize]));
        let added = http.p50_microseconds - direct.p50_microseconds;
        let cost = medians[2].cpu_microseconds_per_call - medians[0].cpu_microseconds_per_call;
        let folder = target.scratch()?;
        let stopped = memory::of_stopped_upstreams(&mcp_flow, &folder)? / 1024.0;
        let growth = megabytes(memory::of_a_gigabyte(&mcp_flow, &folder)?);
        let results = Results {
            environment,
            load,
            rounds,
            cores,
            holds: [
                Threshold::new("gateway to HTTP, one connection: added p50 us", 40.0, added),
                Threshold::at_least(
                    "gateway to HTTP: calls/s",
                    0.5,
                    Sample::speed(&samples[1], &samples[0]),
                ),
                Threshold::new("gateway to stdio: added CPU us per call", 15.0, cost),
                Threshold::new("gateway with a gigabyte: growth in MB", 32.0, growth),
                Threshold::new("gateway: KB for a stopped upstream", 100.0, stopped),
            ],
            kinds: Kind::ALL.map(|kind| (kind.label(), medians[kind as usize])),
        };
        let saved = report::save(&target, "gateway.json", &results)?;
        Ok(format!("{}\n{saved}", results.show()))
    }
}

#[derive(Serialize)]
struct Results {
    environment: Environment,
    #[serde(flatten)]
    load: Load,
    rounds: u32,
    cores: Cores,
    kinds: [(&'static str, Sample); 3],
    holds: [Threshold; 5],
}

impl Results {
    fn show(&self) -> String {
        let Load { connections, milliseconds } = self.load;
        let mut rows =
            vec![["way", "calls/s", "p50 us", "p99 us", "CPU us/call"].map(str::to_owned)];
        rows.extend(self.kinds.iter().map(|(label, sample)| {
            let number = |number: f64| format!("{number:.0}");
            [
                (*label).to_owned(),
                number(sample.calls_per_second),
                number(sample.p50_microseconds),
                number(sample.p99_microseconds),
                format!("{:.1}", sample.cpu_microseconds_per_call),
            ]
        }));
        let holds: Vec<String> = self.holds.iter().map(Threshold::to_string).collect();
        format!(
            "tools/call over HTTP: {connections} connections, one call in flight on each, \
             {milliseconds} ms, {}, median of {} rounds\n{}\n\n{}\n{}",
            name(&self.cores),
            self.rounds,
            self.environment,
            report::table(&rows),
            holds.join("\n"),
        )
    }
}
