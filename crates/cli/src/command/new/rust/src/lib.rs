//! An MCP server with a tool, a resource and a durable flow.

use std::error::Error;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use mcp_flow::Interaction;
use mcp_flow::prelude::*;
use mcp_flow::question::{choice, confirm};
use mcp_flow::store_sqlite::SqliteStore;

/// Greet someone by name
#[tool(quick)]
pub fn greet(
    /// Name of the person to greet
    name: String,
) -> String {
    format!("Hello, {name}!")
}

/// Purpose of this server
#[resource("about:purpose", mime_type = "text/plain", quick)]
fn purpose() -> &'static str {
    "Greets people and deploys services."
}

/// Deploy a service, after asking where to
#[flow(waits = "7d")]
async fn deploy(
    flow: Flow,
    /// Name of the service
    service: String,
) -> FlowResult<String> {
    let stage = flow
        .ask("stage", choice("Where to?", &["staging", "production"]))
        .await?;
    if !flow
        .ask("sure", confirm(format!("Deploy {service} to {stage}?")))
        .await?
    {
        return flow.decline("Nothing was deployed");
    }
    // The result of a step is recorded: when the program is killed and started again, the flow
    // continues after the last step that finished.
    let line = format!("{service} to {stage}");
    flow.step("deploy", || async move { record(&line) }).await
}

/// Appends a line to `deployments.log`; replace it by what your service needs.
fn record(line: &str) -> io::Result<String> {
    let mut log = OpenOptions::new()
        .append(true)
        .create(true)
        .open("deployments.log")?;
    writeln!(log, "{line}")?;
    Ok(format!("Deployed {line}"))
}

/// Builds the server. Its sessions are kept in the file `journal`.
pub fn server(journal: &Path) -> Result<Server, Box<dyn Error>> {
    let store = Arc::new(SqliteStore::open(journal)?);
    let flows = Interaction::builder()
        .flows(flows![deploy])
        .store(store)
        .build();
    let server = Server::builder(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"))
        .tools(tools![greet])
        .resources(resources![purpose]);
    Ok(flows.add_to(server).build()?)
}
