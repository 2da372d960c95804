//! Selection of the servers to compare, each in its fastest configuration, and alternating rounds.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::{
    era::Era,
    load::{Load, measure},
    sample::Sample,
};
use crate::{
    binary::Target,
    listening::{Program, SERVE},
    placement::Placement,
    servers::{axum, rmcp_http},
};

/// The common parameters of all measurements of one run.
pub(crate) struct Contest<'a> {
    pub(crate) target: &'a Target,
    pub(crate) mcp_flow: &'a Path,
    pub(crate) load: Load,
    pub(crate) placement: Placement,
    pub(crate) trials: Vec<Trial>,
}

/// The three servers compared in one era.
pub(crate) struct LineUp {
    pub(crate) era: Era,
    pub(crate) bare: Contestant,
    pub(crate) rmcp: Contestant,
    pub(crate) mcp_flow: Contestant,
}

impl Contest<'_> {
    /// Selects the servers of one era by trying all candidates.
    pub(crate) fn line_up(&mut self, era: Era) -> anyhow::Result<LineUp> {
        // First, so that a program without `serve` fails early.
        let mcp_flow = self.fastest([Contestant {
            label: "mcp-flow".to_owned(),
            era,
            program: self.mcp_flow.to_owned(),
            arguments: SERVE.map(str::to_owned).into(),
            samples: Vec::new(),
        }])?;
        let bare = axum::Settings::all().map(|settings| {
            let label = format!("bare axum ({settings})");
            self.reference(label, era, "serve-axum", settings.to_arguments())
        });
        let bare: Vec<_> = bare.collect();
        let rmcp = rmcp_http::Settings::all(era).map(|settings| {
            let label = format!("rmcp 3.8 ({settings})");
            self.reference(label, era, "serve-rmcp-http", settings.to_arguments())
        });
        let rmcp: Vec<_> = rmcp.collect();
        Ok(LineUp { era, bare: self.fastest(bare)?, rmcp: self.fastest(rmcp)?, mcp_flow })
    }

    /// Alternates between servers, so that other load on the machine affects all of them alike.
    pub(crate) fn take_turns(&self, rounds: u32, line_ups: &mut [LineUp]) -> anyhow::Result<()> {
        for round in 1..=rounds {
            for LineUp { bare, rmcp, mcp_flow, .. } in &mut *line_ups {
                // MCP Flow runs between the two, because measurements close in time are the most
                // alike.
                for contestant in [bare, mcp_flow, rmcp] {
                    let Contestant { label, era, .. } = contestant;
                    eprintln!("round {round} of {rounds}, {era}: {label}");
                    let sample = self.measure(contestant, self.load)?;
                    contestant.samples.push(sample);
                }
            }
        }
        Ok(())
    }

    fn reference(
        &self,
        label: String,
        era: Era,
        subcommand: &str,
        settings: Vec<String>,
    ) -> Contestant {
        let program = self.target.benches.clone();
        let arguments = [vec![subcommand.to_owned()], settings].concat();
        Contestant { label, era, program, arguments, samples: Vec::new() }
    }

    /// Tries all candidates a few times in turn. Returns the one with the least CPU time, which on
    /// a core of its own is the fastest.
    ///
    /// The best run of each counts, because other load on the machine only ever slows it down.
    fn fastest(
        &mut self,
        candidates: impl IntoIterator<Item = Contestant>,
    ) -> anyhow::Result<Contestant> {
        let mut candidates: Vec<_> = candidates.into_iter().collect();
        let load = Load { milliseconds: TRIAL_MILLISECONDS, ..self.load };
        for _ in 0..TRIALS {
            for candidate in &mut candidates {
                eprintln!("trying {}: {}", candidate.era, candidate.label);
                let sample = self.measure(candidate, load)?;
                candidate.samples.push(sample);
            }
        }
        let tried = candidates.into_iter().map(|mut candidate| {
            let costs = candidate.samples.drain(..).map(|sample| sample.cpu_microseconds_per_call);
            (costs.fold(f64::INFINITY, f64::min), candidate)
        });
        let tried: Vec<_> = tried.collect();
        self.trials.extend(tried.iter().map(|(cost, Contestant { label, era, .. })| Trial {
            era: *era,
            label: label.clone(),
            cpu_microseconds_per_call: *cost,
        }));
        let best = tried.into_iter().min_by(|(one, _), (other, _)| one.total_cmp(other));
        let (_, contestant) = best.expect("there are candidates to try");
        Ok(contestant)
    }

    fn measure(&self, contestant: &Contestant, load: Load) -> anyhow::Result<Sample> {
        let Contestant { era, program, arguments, .. } = contestant;
        let program = Program { path: program, arguments, folder: &self.target.scratch()? };
        measure(program, *era, load, self.placement, None)
    }
}

/// A server, its command, and its samples.
pub(crate) struct Contestant {
    label: String,
    era: Era,
    program: PathBuf,
    arguments: Vec<String>,
    samples: Vec<Sample>,
}

impl Contestant {
    /// Summarises at least one sample.
    pub(crate) fn finish(self) -> Measured {
        let Self { label, samples, .. } = self;
        Measured { label, median: Sample::median_of(&samples), samples }
    }
}

/// The summary of a server.
#[derive(Serialize)]
pub(crate) struct Measured {
    pub(crate) label: String,
    pub(crate) median: Sample,
    /// One sample per round, so that samples of the same round can be compared.
    pub(crate) samples: Vec<Sample>,
}

/// One candidate and its best sample.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Trial {
    pub(crate) era: Era,
    pub(crate) label: String,
    pub(crate) cpu_microseconds_per_call: f64,
}

const TRIALS: usize = 3;
const TRIAL_MILLISECONDS: u64 = 400;
