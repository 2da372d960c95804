//! CBOR compared with JSON: a list of 200 tools, encoded and decoded by the code of the transports.
//!
//! That code enables features of its dependencies that would slow down the reference servers in
//! this binary, so it is measured in a separate program.

use std::{env, process::Command};

use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};

use crate::{
    binary::Target,
    report::{self, Environment, Threshold},
};

/// Compare CBOR with JSON
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {}

#[derive(Serialize)]
struct Results {
    environment: Environment,
    #[serde(flatten)]
    measured: Measured,
    holds: [Threshold; 2],
}

#[derive(Clone, Copy, Deserialize, Serialize)]
struct Measured {
    json: Cost,
    cbor: Cost,
}

/// Size in bytes, and times in nanoseconds.
#[derive(Clone, Copy, Deserialize, Serialize)]
struct Cost {
    bytes: f64,
    encode: f64,
    decode: f64,
}

impl Arguments {
    /// Measures, writes `cbor.json`, and returns the report.
    pub(crate) fn run(self) -> anyhow::Result<String> {
        let target = Target::find()?;
        let output = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
            .args(["bench", "--quiet", "-p", "mcp-flow-proto", "--bench", "encodings"])
            .arg("--target-dir")
            .arg(target.directory())
            .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
            .stderr(std::process::Stdio::inherit())
            .output()
            .context("cannot run cargo")?;
        ensure!(output.status.success(), "the measurement failed; cargo says why above");
        let measured: Measured = serde_json::from_slice(&output.stdout)
            .context("the measurement says something else")?;
        let Measured { json, cbor } = measured;
        let time = (cbor.encode + cbor.decode) / (json.encode + json.decode);
        let results = Results {
            environment: Environment::describe()?,
            measured,
            holds: [
                Threshold::new("encode + decode, CBOR / JSON", 1.0, time),
                Threshold::new("bytes, CBOR / JSON", 0.9, cbor.bytes / json.bytes),
            ],
        };
        let saved = report::save(&target, "cbor.json", &results)?;
        Ok(format!("{}\n{saved}", results.show()))
    }
}

impl Results {
    fn show(&self) -> String {
        let row = |name: &str, cost: Cost| {
            let microseconds = |nanoseconds: f64| format!("{:.1}", nanoseconds / 1000.0);
            let bytes = format!("{:.0}", cost.bytes);
            [name.to_owned(), bytes, microseconds(cost.encode), microseconds(cost.decode)]
        };
        let rows = [
            ["encoding", "bytes", "encode us", "decode us"].map(str::to_owned),
            row("JSON", self.measured.json),
            row("CBOR", self.measured.cbor),
        ];
        let holds: Vec<String> = self.holds.iter().map(Threshold::to_string).collect();
        let table = report::table(&rows);
        format!("a list of 200 tools, {}\n\n{table}\n{}", self.environment, holds.join("\n"))
    }
}
