//! Clean build of a server with one tool, compared with the official SDK.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
use serde::Serialize;

use super::{build, cargo, write};

/// The cost of the first build with a library.
#[derive(Debug, Serialize)]
pub(super) struct Scratch {
    pub(super) library: &'static str,
    /// Number of crates, including the program itself and build dependencies.
    pub(super) crates: usize,
    pub(super) debug_seconds: f64,
    pub(super) release_seconds: f64,
}

impl Scratch {
    pub(super) fn mcp_flow(results: &Path) -> anyhow::Result<Self> {
        Self::measure("mcp-flow", &results.join("hello-mcp-flow"), MCP_FLOW, &example())
    }

    pub(super) fn rmcp(results: &Path) -> anyhow::Result<Self> {
        Self::measure("rmcp", &results.join("hello-rmcp"), RMCP_DEPENDENCIES, RMCP)
    }

    fn measure(
        library: &'static str,
        folder: &Path,
        dependencies: &str,
        source: &str,
    ) -> anyhow::Result<Self> {
        write(folder, dependencies, source)?;
        // The same versions of shared crates for both.
        let lock = concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.lock");
        fs::copy(lock, folder.join("Cargo.lock")).context("cannot copy the lock file")?;
        // Downloads missing crates first, so that the build does not wait for them.
        let crates = count_crates(folder)?;
        let from_scratch = |profile: &[&str]| -> anyhow::Result<f64> {
            let target = folder.join("target");
            if target.exists() {
                fs::remove_dir_all(&target)?;
            }
            Ok(build(folder, profile)?.as_secs_f64())
        };
        let debug_seconds = from_scratch(&[])?;
        let release_seconds = from_scratch(&["--release"])?;
        Ok(Self { library, crates, debug_seconds, release_seconds })
    }
}

fn count_crates(folder: &Path) -> anyhow::Result<usize> {
    let tree = Command::new(cargo())
        .args(["tree", "--edges", "normal,build", "--prefix", "none"])
        .current_dir(folder)
        .output()
        .context("cannot run cargo")?;
    ensure!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    let tree = String::from_utf8(tree.stdout)?;
    Ok(tree.lines().map(|line| line.trim_end_matches(" (*)")).collect::<BTreeSet<_>>().len())
}

/// Returns the first example in the documentation of the library.
fn example() -> String {
    include_str!("../../../crates/mcp-flow/src/lib.rs")
        .lines()
        .skip_while(|line| !line.starts_with("//! ```"))
        .skip(1)
        .take_while(|line| !line.starts_with("//! ```"))
        .flat_map(|line| [line.trim_start_matches("//!"), "\n"])
        .collect()
}

/// The dependency on the library with default features.
pub(super) const MCP_FLOW: &str =
    concat!("mcp-flow = { path = \"", env!("CARGO_MANIFEST_DIR"), "/../crates/mcp-flow\" }");

const RMCP_DEPENDENCIES: &str = r#"rmcp = { version = "3.8", default-features = false, features = ["server", "macros", "transport-io"] }
serde = { version = "1", features = ["derive"] }
tokio = { version = "1", features = ["macros", "rt"] }"#;

const RMCP: &str = r#"use rmcp::handler::server::{router::tool::ToolRouter, wrapper::Parameters};
use rmcp::{ServerHandler, ServiceExt, schemars, tool, tool_handler, tool_router, transport};

struct Greeter {
    tool_router: ToolRouter<Self>,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Greeting {
    /// Name of the person to greet
    name: String,
}

#[tool_router]
impl Greeter {
    #[tool(description = "Greets someone by name")]
    fn greet(&self, Parameters(Greeting { name }): Parameters<Greeting>) -> String {
        format!("Hello, {name}!")
    }
}

#[tool_handler(router = self.tool_router)]
impl ServerHandler for Greeter {}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let greeter = Greeter { tool_router: Greeter::tool_router() };
    greeter.serve(transport::stdio()).await?.waiting().await?;
    Ok(())
}
"#;
