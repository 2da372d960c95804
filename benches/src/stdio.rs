//! A small call over a pipe, compared with a bare loop and the official SDK.

use std::{ffi::OsString, path::Path, process::Command};

use serde::Serialize;

use crate::{
    binary::{McpFlow, Target},
    driver::{Load, Sample, measure},
    placement::{Cores, Placement},
    report::{self, Environment, Threshold, median, name},
    servers::rmcp::Settings,
};

/// Compare a small call over stdio with a bare loop and with rmcp
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    load: Load,

    /// Rounds per server; medians are shown
    #[arg(long, value_name = "N", default_value = "3")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// Placement of the driver and the server
    #[arg(long, value_enum, default_value = "one-core")]
    cores: Cores,

    #[command(flatten)]
    mcp_flow: McpFlow,
}

impl Arguments {
    /// Measures, writes `stdio.json`, and returns the report.
    pub(crate) fn run(self) -> anyhow::Result<String> {
        let target = Target::find()?;
        let mcp_flow = self.mcp_flow.locate(&target)?;
        // Queried before any thread is confined, because only allowed cores are counted.
        let environment = Environment::describe()?;
        let placement = self.cores.place()?;
        let (settings, rmcp_trials) = choose_settings(&target.benches, self.load, placement)?;
        let contestants = [
            Contestant::new("bare loop", &target.benches, ["serve-bare"]),
            rmcp(&target.benches, settings),
            Contestant::new("mcp-flow", &mcp_flow, ["stdio"]),
        ];
        let servers = self.measure_in_turn(contestants, placement)?;
        let [bare, rmcp, flow] = servers.each_ref().map(|s| s.median.cpu_microseconds_per_call);
        let results = Results {
            environment,
            load: self.load,
            cores: self.cores,
            rounds: self.rounds,
            holds: vec![
                Threshold::new("mcp-flow / bare loop CPU", 2.0, flow / bare),
                Threshold::new("mcp-flow / rmcp CPU", 0.10, flow / rmcp),
            ],
            servers,
            rmcp_trials,
        };
        let saved = report::save(&target, "stdio.json", &results)?;
        Ok(format!("{}\n{saved}", results.show()))
    }

    /// Alternates between servers, so that other load on the machine affects all of them alike.
    fn measure_in_turn<const N: usize>(
        &self,
        contestants: [Contestant; N],
        placement: Placement,
    ) -> anyhow::Result<[Measured; N]> {
        let mut samples = [const { Vec::new() }; N];
        for round in 1..=self.rounds {
            for (contestant, samples) in contestants.iter().zip(&mut samples) {
                eprintln!("round {round} of {}: {}", self.rounds, contestant.label);
                samples.push(contestant.measure(self.load, placement)?);
            }
        }
        let mut samples = samples.into_iter();
        Ok(contestants.map(|contestant| {
            let samples = samples.next().expect("there are samples for each contestant");
            Measured { label: contestant.label, median: median_of(&samples), samples }
        }))
    }
}

/// Tries every configuration of the SDK and keeps the one with the least CPU time.
fn choose_settings(
    benches: &Path,
    load: Load,
    placement: Placement,
) -> anyhow::Result<(Settings, Vec<Trial>)> {
    let load = Load { calls: load.calls.div_ceil(4), ..load };
    let mut trials = Vec::new();
    for settings in Settings::all() {
        let contestant = rmcp(benches, settings);
        eprintln!("trying {}", contestant.label);
        let sample = contestant.measure(load, placement)?;
        trials.push((settings, Trial { label: contestant.label, sample }));
    }
    let cost = |trial: &Trial| trial.sample.cpu_microseconds_per_call;
    let best = trials.iter().min_by(|(_, a), (_, b)| cost(a).total_cmp(&cost(b)));
    let (settings, _) = best.expect("there are settings to try");
    Ok((*settings, trials.into_iter().map(|(_, trial)| trial).collect()))
}

fn rmcp(benches: &Path, settings: Settings) -> Contestant {
    let [runtime, transport] = settings.to_arguments();
    let label = format!("rmcp 3.8 ({settings})");
    Contestant::new(label, benches, ["serve-rmcp".to_owned(), runtime, transport])
}

/// A server and its command.
struct Contestant {
    label: String,
    program: OsString,
    arguments: Vec<OsString>,
}

impl Contestant {
    fn new<const N: usize>(
        label: impl Into<String>,
        program: &Path,
        arguments: [impl Into<OsString>; N],
    ) -> Self {
        let arguments = arguments.map(Into::into).into();
        Self { label: label.into(), program: program.into(), arguments }
    }

    fn measure(&self, load: Load, placement: Placement) -> anyhow::Result<Sample> {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments);
        measure(command, load, placement)
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Results {
    environment: Environment,
    #[serde(flatten)]
    load: Load,
    rounds: u32,
    cores: Cores,
    servers: [Measured; 3],
    holds: Vec<Threshold>,
    rmcp_trials: Vec<Trial>,
}

#[derive(Serialize)]
struct Measured {
    label: String,
    median: Sample,
    samples: Vec<Sample>,
}

#[derive(Serialize)]
struct Trial {
    label: String,
    sample: Sample,
}

impl Results {
    fn show(&self) -> String {
        let Load { calls, in_flight } = self.load;
        let [bare, rmcp, _] = self.servers.each_ref().map(|s| s.median.cpu_microseconds_per_call);
        let mut rows = vec![HEADINGS.map(str::to_owned)];
        rows.extend(self.servers.iter().map(|Measured { label, median, .. }| {
            let cpu = median.cpu_microseconds_per_call;
            [
                label.clone(),
                format!("{:.0}", median.calls_per_second),
                format!("{cpu:.2}"),
                format!("{:.1}", median.peak_rss_megabytes),
                format!("{:.1}", median.idle_rss_megabytes),
                format!("{:.2}", cpu / bare),
                format!("{:.3}", cpu / rmcp),
            ]
        }));
        let holds: Vec<String> = self.holds.iter().map(Threshold::to_string).collect();
        format!(
            "tools/call over stdio: {calls} calls, {in_flight} in flight, {}, median of {} rounds\n\
             {}\n\n{}\n{}\n",
            name(&self.cores),
            self.rounds,
            self.environment,
            report::table(&rows),
            holds.join("\n"),
        ) + &self.show_trials()
    }

    fn show_trials(&self) -> String {
        let trials = self.rmcp_trials.iter().map(|Trial { label, sample }| {
            format!("tried {label}: {:.2} us/call", sample.cpu_microseconds_per_call)
        });
        trials.collect::<Vec<_>>().join("\n")
    }
}

const HEADINGS: [&str; 7] =
    ["server", "calls/s", "CPU us/call", "peak RSS MB", "idle RSS MB", "CPU / bare", "CPU / rmcp"];

fn median_of(samples: &[Sample]) -> Sample {
    let of = |field: fn(&Sample) -> f64| median(samples.iter().map(field).collect());
    Sample {
        calls_per_second: of(|sample| sample.calls_per_second),
        cpu_microseconds_per_call: of(|sample| sample.cpu_microseconds_per_call),
        peak_rss_megabytes: of(|sample| sample.peak_rss_megabytes),
        idle_rss_megabytes: of(|sample| sample.idle_rss_megabytes),
    }
}
