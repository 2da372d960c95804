//! Concurrent calls by a client library, MCP Flow's and the official SDK's, to the same bare
//! server.

use std::fmt;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, ensure};
use rmcp::model::CallToolRequestParams;
use rmcp::transport::TokioChildProcess;
use rmcp::{ServiceExt, object};
use serde::Serialize;

use crate::{
    binary::Target,
    report::{self, Environment, Threshold, median},
};

/// Compare concurrent calls of the client library with rmcp's
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Number of concurrent calls
    #[arg(long, value_name = "N", default_value = "10000")]
    calls: u32,

    /// Rounds per client; medians are shown
    #[arg(long, value_name = "N", default_value = "5")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

/// Options of the rmcp client process.
#[derive(Debug, clap::Args)]
pub(crate) struct Calls {
    calls: u32,
}

impl Arguments {
    /// Measures, writes `client.json`, and returns the report.
    pub(crate) fn run(self) -> anyhow::Result<String> {
        let target = Target::find()?;
        let ours = target.build_example("pipelined")?;
        let environment = Environment::describe()?;
        let (mut flow, mut rmcp) = (Vec::new(), Vec::new());
        for round in 1..=self.rounds {
            eprintln!("round {round} of {}", self.rounds);
            let mut command = Command::new(&ours);
            command.arg(self.calls.to_string()).arg("--").arg(&target.benches).arg("serve-bare");
            flow.push(seconds(&mut command)?);
            rmcp.push(seconds(
                Command::new(&target.benches).args(["call-rmcp", &self.calls.to_string()]),
            )?);
        }
        let per_second = |samples: &[f64]| f64::from(self.calls) / median(samples.to_vec());
        let (flow_rate, rmcp_rate) = (per_second(&flow), per_second(&rmcp));
        let results = Results {
            environment,
            calls: self.calls,
            flow: flow_rate,
            rmcp: rmcp_rate,
            holds: vec![Threshold::at_least(
                "mcp-flow / rmcp calls per second",
                3.0,
                flow_rate / rmcp_rate,
            )],
        };
        let saved = report::save(&target, "client.json", &results)?;
        Ok(format!("{results}\n{saved}"))
    }
}

fn seconds(command: &mut Command) -> anyhow::Result<f64> {
    let output = command.stderr(Stdio::inherit()).output().context("cannot start a client")?;
    ensure!(output.status.success(), "{command:?} failed");
    String::from_utf8(output.stdout)?.trim().parse().context("a client prints its seconds")
}

/// Makes calls with rmcp's client to the bare server of this program.
#[tokio::main(flavor = "current_thread")]
pub(crate) async fn call_by_rmcp(Calls { calls }: Calls) -> anyhow::Result<f64> {
    let program = std::env::current_exe()?;
    let mut command = tokio::process::Command::new(program);
    command.arg("serve-bare");
    let service = ().serve(TokioChildProcess::new(command)?).await?;
    let begun = Instant::now();
    let mut running = tokio::task::JoinSet::new();
    for number in 0..calls {
        let peer = service.peer().clone();
        running.spawn(async move {
            let addend = number % 1000;
            let arguments = object!({"a": addend, "b": 3});
            let call = CallToolRequestParams::new("calculator.add").with_arguments(arguments);
            let result = peer.call_tool(call).await?;
            let text = result.content.first().and_then(|content| content.as_text());
            let text = text.map(|text| text.text.as_str()).unwrap_or_default();
            anyhow::ensure!(text.parse() == Ok(f64::from(addend + 3)), "a sum is wrong: {text}");
            Ok::<_, anyhow::Error>(())
        });
    }
    while let Some(ended) = running.join_next().await {
        ended??;
    }
    let taken = begun.elapsed().as_secs_f64();
    service.cancel().await?;
    Ok(taken)
}

#[derive(Debug, Serialize)]
struct Results {
    environment: Environment,
    calls: u32,
    flow: f64,
    rmcp: f64,
    holds: Vec<Threshold>,
}

impl fmt::Display for Results {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "{} calls at once on a bare loop over a pipe", self.calls)?;
        writeln!(formatter, "  mcp-flow  {:>10.0} calls/s", self.flow)?;
        writeln!(formatter, "  rmcp      {:>10.0} calls/s", self.rmcp)?;
        self.holds.iter().try_for_each(|hold| writeln!(formatter, "{hold}"))
    }
}
