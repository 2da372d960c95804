//! Compile time of a crate with a hundred tools without its dependencies, and of a server with one
//! tool including them.

mod scratch;

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use std::{env, fs};

use anyhow::{Context, ensure};
use serde::Serialize;

use crate::binary::Target;
use crate::report::{self, Environment, Threshold};
use scratch::Scratch;

/// Measure the compile time of a crate with many tools, and of a minimal server from scratch
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Number of tools
    #[arg(long, default_value_t = 100)]
    tools: usize,

    /// Number of builds; the median is shown
    #[arg(long, default_value_t = 3)]
    rounds: usize,
}

#[derive(Debug, Serialize)]
struct Report {
    environment: Environment,
    tools: usize,
    seconds: Vec<f64>,
    scratch: [Scratch; 2],
    holds: [Threshold; 3],
}

impl Arguments {
    pub(crate) fn run(self) -> anyhow::Result<String> {
        let target = Target::find()?;
        let folder = target.results().join("many-tools");
        write_crate(&folder, self.tools)?;
        // The first build includes the dependencies and is not counted.
        build(&folder, &[])?;
        let mut seconds = Vec::new();
        for round in 0..self.rounds {
            let source = folder.join("src/main.rs");
            let text = fs::read_to_string(&source)?;
            fs::write(&source, format!("{text}// round {round}\n"))?;
            seconds.push(build(&folder, &[])?.as_secs_f64());
        }
        let what = format!("seconds to compile {} tools", self.tools);
        let many = Threshold::new(what, 15.0, report::median(seconds.clone()));
        let ours = Scratch::mcp_flow(&target.results())?;
        let scratch = [ours, Scratch::rmcp(&target.results())?];
        let [ours, _] = &scratch;
        let holds = [
            many,
            Threshold::new("seconds to build one tool from scratch", 75.0, ours.debug_seconds),
            Threshold::new("crates behind one tool", 90.0, ours.crates as f64),
        ];
        let environment = Environment::describe()?;
        let report = Report { environment, tools: self.tools, seconds, scratch, holds };
        let saved = report::save(&target, "compile.json", &report)?;
        let mut rows = vec![["one tool", "crates", "debug s", "release s"].map(str::to_owned)];
        rows.extend(report.scratch.iter().map(|one| {
            let seconds = |seconds: f64| format!("{seconds:.1}");
            let (debug, release) = (seconds(one.debug_seconds), seconds(one.release_seconds));
            [one.library.to_owned(), one.crates.to_string(), debug, release]
        }));
        let holds = report.holds.each_ref().map(ToString::to_string).join("\n");
        Ok(format!("{}\n{}{holds}\n{saved}", report.environment, report::table(&rows)))
    }
}

fn build(folder: &Path, profile: &[&str]) -> anyhow::Result<Duration> {
    let start = Instant::now();
    let status = Command::new(cargo())
        .args(["build", "--quiet"])
        .args(profile)
        .current_dir(folder)
        .env("CARGO_TARGET_DIR", folder.join("target"))
        .status()
        .context("cannot run cargo")?;
    ensure!(status.success(), "the crate does not compile; look into {}", folder.display());
    Ok(start.elapsed())
}

fn cargo() -> OsString {
    env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// Writes a crate whose tools take three arguments each and return text, a struct or an error.
fn write_crate(folder: &Path, tools: usize) -> anyhow::Result<()> {
    let mut source = String::from("use mcp_flow::prelude::*;\n");
    for number in 0..tools {
        let (result, value) = match number % 3 {
            0 => ("String", "format!(\"{name} {count} {factor}\")".to_owned()),
            1 => {
                let definition =
                    format!("\n#[data]\nstruct Result{number} {{ name: String, sum: f64 }}\n");
                source += &definition;
                ("", format!("Result{number} {{ name, sum: f64::from(count) * factor }}"))
            }
            _ => (
                "Result<f64, Failure>",
                "Ok(f64::from(count) * factor + name.parse::<f64>()?)".to_owned(),
            ),
        };
        let result = if result.is_empty() { format!("Result{number}") } else { result.to_owned() };
        write!(
            source,
            "\n/// Tool number {number}\n#[tool]\nasync fn tool_{number}(\n    /// A name\n    \
             name: String,\n    /// How many\n    #[param(default = 1, range = 1..=100)]\n    \
             count: u32,\n    factor: f64,\n) -> {result} {{\n    {value}\n}}\n"
        )?;
    }
    source += "\nfn main() -> std::result::Result<(), Box<dyn std::error::Error>> {\n";
    source += "    let server = Server::builder(\"many\", \"1\")";
    for number in 0..tools {
        write!(source, "\n        .tools(tools![tool_{number}])")?;
    }
    source += "\n        .build()?;\n    mcp_flow::stdio::run(&server)?;\n    Ok(())\n}\n";
    write(folder, scratch::MCP_FLOW, &source)
}

/// Writes a crate that is its own workspace.
fn write(folder: &Path, dependencies: &str, source: &str) -> anyhow::Result<()> {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let manifest = format!(
        "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n\
         [dependencies]\n{dependencies}\n\n[workspace]\n"
    );
    fs::create_dir_all(folder.join("src"))?;
    fs::write(folder.join("Cargo.toml"), manifest)?;
    fs::write(folder.join("src/main.rs"), source)?;
    Ok(())
}
