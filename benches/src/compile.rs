//! How long a crate with a hundred tools takes to compile, after its dependencies.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use std::{env, fs};

use anyhow::{Context, ensure};
use serde::Serialize;

use crate::binary::Target;
use crate::report::{self, Environment, Hold};

/// Compile a crate with many tools, in debug, after its dependencies
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How many tools it has
    #[arg(long, default_value_t = 100)]
    tools: usize,

    /// How often it is compiled; the median counts
    #[arg(long, default_value_t = 3)]
    rounds: usize,
}

#[derive(Debug, Serialize)]
struct Report {
    environment: Environment,
    tools: usize,
    seconds: Vec<f64>,
    hold: Hold,
}

impl Arguments {
    pub(crate) fn run(self) -> anyhow::Result<String> {
        let target = Target::find()?;
        let folder = target.results().join("many-tools");
        write_crate(&folder, self.tools)?;
        // The first time brings the dependencies with it and does not count.
        build(&folder)?;
        let mut seconds = Vec::new();
        for round in 0..self.rounds {
            let source = folder.join("src/main.rs");
            let text = fs::read_to_string(&source)?;
            fs::write(&source, format!("{text}// round {round}\n"))?;
            seconds.push(build(&folder)?.as_secs_f64());
        }
        let what = format!("seconds to compile {} tools", self.tools);
        let hold = Hold::new(what, 15.0, report::median(seconds.clone()));
        let report =
            Report { environment: Environment::describe()?, tools: self.tools, seconds, hold };
        let saved = report::save(&target, "compile.json", &report)?;
        Ok(format!("{}\n{}\n{saved}", report.environment, report.hold))
    }
}

fn build(folder: &Path) -> anyhow::Result<Duration> {
    let start = Instant::now();
    let status = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["build", "--quiet"])
        .current_dir(folder)
        .env("CARGO_TARGET_DIR", folder.join("target"))
        .status()
        .context("cannot run cargo")?;
    ensure!(status.success(), "the crate does not compile; look into {}", folder.display());
    Ok(start.elapsed())
}

/// Writes a crate whose tools take three arguments each and return text, a struct or a failure.
fn write_crate(folder: &Path, tools: usize) -> anyhow::Result<()> {
    let library = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../crates/mcp-flow");
    let manifest = format!(
        "[package]\nname = \"many-tools\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n\
         [dependencies]\nmcp-flow = {{ path = {library:?} }}\n\n[workspace]\n"
    );
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
    fs::create_dir_all(folder.join("src"))?;
    fs::write(folder.join("Cargo.toml"), manifest)?;
    fs::write(folder.join("src/main.rs"), source)?;
    Ok(())
}
