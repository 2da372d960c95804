//! `mcp-flow tools` compared with `curl`, which fetches the same bytes and ignores them.

use std::{
    path::Path,
    process::{Command, Stdio},
    time::Instant,
};

use anyhow::{Context, ensure};
use clap::builder::RangedU64ValueParser;
use serde::Serialize;
use serde_json::json;

use crate::{
    binary::{McpFlow, Target},
    listening::{Listening, Program, SERVE},
    placement::Cores,
    report::{self, Environment, Threshold, median},
};

/// Compare `mcp-flow tools` with `curl`
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Number of alternating runs of each program
    #[arg(long, value_name = "N", default_value = "50")]
    #[arg(value_parser = RangedU64ValueParser::<usize>::new().range(1..=10_000))]
    rounds: usize,

    #[command(flatten)]
    mcp_flow: McpFlow,
}

impl Arguments {
    /// Measures, writes `cli.json`, and returns the report.
    pub(crate) fn run(self) -> anyhow::Result<String> {
        let target = Target::find()?;
        let mcp_flow = self.mcp_flow.locate(&target)?;
        let folder = target.scratch()?;
        let arguments = SERVE.map(str::to_owned);
        let server = Program { path: &mcp_flow, arguments: &arguments, folder: &folder };
        let server = Listening::start(server, Cores::Free.place()?)?;
        let url = format!("http://{}/mcp", server.address);
        let (mut curl, mut ours) = (Vec::new(), Vec::new());
        for _ in 0..self.rounds {
            curl.push(timed(&mut by_curl(&url), &folder)?);
            ours.push(timed(Command::new(&mcp_flow).args(["tools", &url]), &folder)?);
        }
        let (curl, ours) = (median(curl), median(ours));
        let results = Results {
            environment: Environment::describe()?,
            rounds: self.rounds,
            curl_ms: curl,
            mcp_flow_ms: ours,
            hold: Threshold::new("mcp-flow tools - curl, ms", 15.0, ours - curl),
        };
        let saved = report::save(&target, "cli.json", &results)?;
        Ok(format!("{}\n{saved}", results.show()))
    }
}

/// Returns the single request that lists the tools of a server of the newest revision.
fn by_curl(url: &str) -> Command {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }}});
    let mut command = Command::new("curl");
    command.args(["--silent", "--fail", url, "--data", &body.to_string()]);
    for header in [
        "Content-Type: application/json",
        "Accept: application/json, text/event-stream",
        "MCP-Protocol-Version: 2026-07-28",
        "Mcp-Method: tools/list",
    ] {
        command.args(["--header", header]);
    }
    command
}

/// Runs a program and returns its run time in milliseconds.
fn timed(command: &mut Command, folder: &Path) -> anyhow::Result<f64> {
    command.current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null());
    let begun = Instant::now();
    let status = command.status();
    let took = begun.elapsed().as_secs_f64() * 1000.0;
    let name = command.get_program().to_string_lossy().into_owned();
    let status = status.with_context(|| format!("{name} cannot be started; is it installed?"))?;
    ensure!(status.success(), "{name} failed, so there is nothing to measure");
    Ok(took)
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Results {
    environment: Environment,
    rounds: usize,
    curl_ms: f64,
    mcp_flow_ms: f64,
    hold: Threshold,
}

impl Results {
    fn show(&self) -> String {
        let rows = [
            ["program".to_owned(), "ms".to_owned()],
            ["curl".to_owned(), format!("{:.1}", self.curl_ms)],
            ["mcp-flow tools".to_owned(), format!("{:.1}", self.mcp_flow_ms)],
        ];
        format!(
            "the tools of a local server, {} times in turns, {}\n\n{}\n{}",
            self.rounds,
            self.environment,
            report::table(&rows),
            self.hold,
        )
    }
}
