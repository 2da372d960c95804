//! `mcp-flow ping`: connectivity, version and latency of a server.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap_complete::engine::ArgValueCompleter;
use mcp_flow::client::host::DenyAll;
use serde_json::json;

use crate::client::connect::ConnectOptions;
use crate::client::error::explain;
use crate::client::target::Target;
use crate::command::completions;
use crate::exit::{Exit, Failure};
use crate::terminal::output::{self, Format, sanitize};

/// Check connectivity and latency of a server
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "mcp-flow ping [OPTIONS] TARGET\n       mcp-flow ping [OPTIONS] -- COMMAND..."
)]
pub(crate) struct Ping {
    /// Server: an address, or a name in the configuration
    #[arg(value_name = "TARGET", add = ArgValueCompleter::new(completions::words))]
    target: Vec<String>,

    /// Wait for up to this time until the server can be reached
    #[arg(long, value_name = "SECONDS")]
    wait: Option<u64>,

    #[command(flatten)]
    connect: ConnectOptions,
}

impl Ping {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let (target, rest) = self.connect.find_target(&self.target)?;
        super::reject_extra_arguments(rest)?;
        let until = self.wait.map(|seconds| Instant::now() + Duration::from_secs(seconds));
        loop {
            let outcome = self.ping(&target);
            let is_unreachable = |error| matches!(Failure::exit_of(error), Exit::Unreachable);
            if !outcome.as_ref().is_err_and(is_unreachable)
                || until.is_none_or(|until| Instant::now() >= until)
            {
                return outcome;
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn ping(&self, target: &Target) -> anyhow::Result<ExitCode> {
        self.connect.with_client(target, DenyAll, async |client| {
            let server = client.server().await.map_err(explain)?;
            let start = Instant::now();
            client.ping().await.map_err(explain)?;
            let milliseconds = start.elapsed().as_secs_f64() * 1000.0;
            let (name, version) = (&server.implementation.name, &server.implementation.version);
            let revision = server.revision.name();
            let website = server.implementation.website_url.as_ref();
            let website = website.map(|url| format!("\n{url}")).unwrap_or_default();
            match self.connect.format {
                Format::Json => output::print_json(&json!({
                    "server": server.implementation,
                    "protocolVersion": revision,
                    "milliseconds": milliseconds,
                }))?,
                _ => output::print(&sanitize(&format!(
                    "{name} {version}, MCP {revision}: {milliseconds:.1} ms{website}"
                )))?,
            }
            Ok(ExitCode::SUCCESS)
        })
    }
}

/// Time between two attempts.
const PAUSE: Duration = Duration::from_millis(100);
