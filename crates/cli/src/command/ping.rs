//! `mcp-flow ping`: is it there, what is it, and how fast does it answer?

use std::process::ExitCode;
use std::time::Instant;

use mcp_flow::client::host::Nobody;
use serde_json::json;

use crate::fault::explain;
use crate::reach::Reach;
use crate::show::{self, Format, neutral};

/// Ask a server whether it is there
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "mcp-flow ping [OPTIONS] TARGET\n       mcp-flow ping [OPTIONS] -- COMMAND..."
)]
pub(crate) struct Ping {
    /// The server: an address, or its name in the configuration
    #[arg(value_name = "TARGET")]
    target: Vec<String>,

    #[command(flatten)]
    reach: Reach,
}

impl Ping {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let (target, rest) = self.reach.find(&self.target)?;
        super::nothing_more(rest)?;
        self.reach.with_client(&target, Nobody, async |client| {
            let server = client.server().await.map_err(explain)?;
            let begun = Instant::now();
            client.ping().await.map_err(explain)?;
            let milliseconds = begun.elapsed().as_secs_f64() * 1000.0;
            let (name, version) = (&server.implementation.name, &server.implementation.version);
            let revision = server.revision.name();
            match self.reach.format {
                Format::Json => show::print_json(&json!({
                    "server": {"name": name, "version": version},
                    "protocolVersion": revision,
                    "milliseconds": milliseconds,
                }))?,
                _ => show::print(&neutral(&format!(
                    "{name} {version} speaks {revision} and answered in {milliseconds:.1} ms"
                )))?,
            }
            Ok(ExitCode::SUCCESS)
        })
    }
}
