//! Cost of authentication, permissions, rate limits, metrics, telemetry and recording: a small call over
//! HTTP to the same program with and without them.

use std::{fs, path::Path};

use serde::Serialize;

use crate::{
    binary::Target,
    collector::Collector,
    http::{
        Run,
        era::Era,
        load::{Load, measure},
        sample::Sample,
    },
    listening::{Program, SERVE},
    placement::{Cores, Placement},
    report::{self, Environment, Threshold, name},
};

/// Compare calls to a server with access control, metrics, telemetry or recording with calls to one without
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    run: Run,
}

/// The configuration of a server.
#[derive(Clone, Copy)]
enum Kind {
    /// No access control, no metrics.
    Plain,
    /// Metrics only, the default.
    Watched,
    /// Tokens, permissions and a rate limit, no metrics.
    Guarded,
    /// Metrics, and telemetry that is configured and off.
    Disabled,
    /// Metrics, and all telemetry exported over OTLP.
    Exported,
    /// Metrics, and all messages recorded.
    Recorded,
}

impl Kind {
    const ALL: [Self; 6] =
        [Self::Plain, Self::Watched, Self::Guarded, Self::Disabled, Self::Exported, Self::Recorded];

    fn label(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Watched => "metrics and logs as by default",
            Self::Guarded => "token, permissions, rates",
            Self::Disabled => "telemetry off",
            Self::Exported => "telemetry over OTLP",
            Self::Recorded => "all messages recorded",
        }
    }

    fn configuration(self, collector: &Collector) -> String {
        let text = match self {
            Self::Plain => "[metrics]\ncalls = false\n",
            Self::Watched | Self::Recorded => "",
            Self::Exported => {
                return format!("[telemetry]\nendpoint = {:?}\n", collector.endpoint);
            }
            Self::Disabled => {
                let off = "traces = false\nmetrics = false\nlogs = false\n";
                return format!("[telemetry]\nendpoint = {:?}\n{off}", collector.endpoint);
            }
            Self::Guarded => {
                "[metrics]\ncalls = false\n\
                 [limits]\nrequests_per_second = 1e9\nrequest_burst = 1000000000\n\
                 session_requests_per_second = 1e9\nsession_request_burst = 1000000000\n\
                 [[identity.tokens]]\nname = \"bench\"\ntoken_file = \"token\"\n\
                 [[permissions]]\nprincipals = [\"*\"]\ntools = [\"wh40k.*\", \"calculator.*\"]\n"
            }
        };
        text.to_owned()
    }

    fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Recorded => &["--config", "flow.toml", "--record", "recorded"],
            _ => &["--config", "flow.toml"],
        }
    }

    fn token(self) -> Option<&'static str> {
        matches!(self, Self::Guarded).then_some(TOKEN)
    }

    /// Starts a server in this configuration and puts the load on it.
    fn measure(
        self,
        load: Load,
        target: &Target,
        mcp_flow: &Path,
        placement: Placement,
        collector: &Collector,
    ) -> anyhow::Result<Sample> {
        let folder = target.scratch()?;
        fs::write(folder.join("flow.toml"), self.configuration(collector))?;
        fs::write(folder.join("token"), TOKEN)?;
        let arguments: Vec<_> =
            SERVE.iter().chain(self.arguments()).map(|word| (*word).to_owned()).collect();
        let program = Program { path: mcp_flow, arguments: &arguments, folder: &folder };
        measure(program, Era::Stateless, load, placement, self.token())
    }
}

impl Arguments {
    /// Measures, writes `guarded.json`, and returns the report.
    pub(crate) fn run(self) -> anyhow::Result<String> {
        let Run { load, rounds, cores, mcp_flow } = self.run;
        let target = Target::find()?;
        let mcp_flow = mcp_flow.locate(&target)?;
        let environment = Environment::describe()?;
        let placement = cores.place()?;
        let collector = Collector::start()?;
        let mut samples = Kind::ALL.map(|_| Vec::new());
        for round in 1..=rounds {
            for (kind, samples) in Kind::ALL.into_iter().zip(&mut samples) {
                eprintln!("round {round} of {rounds}: {}", kind.label());
                samples.push(kind.measure(load, &target, &mcp_flow, placement, &collector)?);
            }
        }
        anyhow::ensure!(collector.bytes() > 0, "no telemetry was exported");
        let [plain, watched, guarded, disabled, exported, recorded] = &samples;
        let results = Results {
            environment,
            load,
            rounds,
            cores,
            holds: [
                Threshold::at_least(
                    "metrics and logs: calls/s",
                    0.95,
                    Sample::speed(watched, plain),
                ),
                Threshold::at_least(
                    "token, permissions, rates: calls/s",
                    0.95,
                    Sample::speed(guarded, plain),
                ),
                // Nothing measurable: less than runs differ.
                Threshold::at_least(
                    "telemetry off: calls/s",
                    0.98,
                    Sample::speed(disabled, watched),
                ),
                Threshold::at_least(
                    "telemetry over OTLP: calls/s",
                    0.95,
                    Sample::speed(exported, watched),
                ),
                Threshold::at_least(
                    "all messages recorded: calls/s",
                    0.87,
                    Sample::speed(recorded, watched),
                ),
            ],
            kinds: Kind::ALL.map(|kind| (kind.label(), Sample::median_of(&samples[kind as usize]))),
        };
        let saved = report::save(&target, "guarded.json", &results)?;
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
    kinds: [(&'static str, Sample); 6],
    holds: [Threshold; 5],
}

impl Results {
    fn show(&self) -> String {
        let Load { connections, milliseconds } = self.load;
        let mut rows =
            vec![["server", "calls/s", "p50 us", "p99 us", "CPU us/call"].map(str::to_owned)];
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

const TOKEN: &str = "bench-0123456789abcdef0123456789abcdef";
