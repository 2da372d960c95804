//! Cost of the gateway: a small call over HTTP to a server, and to the same server behind a bridge, over
//! HTTP and over stdio, or behind rivals; memory for stopped upstreams, and while a gigabyte passes through.

mod kind;
mod memory;

use serde::Serialize;

use crate::{
    binary::Target,
    http::{Run, load::Load, sample::Sample},
    placement::Cores,
    report::{self, Environment, Threshold, megabytes, name},
};
use kind::Kind;

/// Compare calls through the gateway with direct calls
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    run: Run,
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
        let rivals = Kind::rivals();
        if rivals.is_empty() {
            eprintln!("no rivals: interop/install installs them");
        }
        let kinds = [&Kind::OWN[..], &rivals].concat();
        let mut samples = vec![Vec::new(); kinds.len()];
        let mut single = samples.clone();
        for round in 1..=rounds {
            for (index, kind) in kinds.iter().enumerate() {
                eprintln!("round {round} of {rounds}: {}", kind.label());
                samples[index].push(kind.measure(load, &target, &mcp_flow, placement)?);
                single[index].push(kind.measure(alone, &target, &mcp_flow, placement)?);
            }
        }
        let medians: Vec<_> = samples.iter().map(|samples| Sample::median_of(samples)).collect();
        let [direct, http] = [0, 1].map(|index| Sample::median_of(&single[index]));
        let (earlier, rivals) = (&samples[Kind::OWN.len() - 1], &samples[Kind::OWN.len()..]);
        let ahead = rivals.iter().map(|rival| Sample::speed(earlier, rival));
        let ahead = ahead.reduce(f64::min).map(|ahead| {
            Threshold::at_least("gateway to stdio: calls/s of the fastest rival", 1.0, ahead)
        });
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
            ]
            .into_iter()
            .chain(ahead)
            .collect(),
            kinds: kinds.iter().map(|kind| kind.label()).zip(medians).collect(),
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
    kinds: Vec<(String, Sample)>,
    holds: Vec<Threshold>,
}

impl Results {
    fn show(&self) -> String {
        let Load { connections, milliseconds } = self.load;
        let mut rows =
            vec![["way", "calls/s", "p50 us", "p99 us", "CPU us/call"].map(str::to_owned)];
        rows.extend(self.kinds.iter().map(|(label, sample)| {
            let number = |number: f64| format!("{number:.0}");
            [
                label.clone(),
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
