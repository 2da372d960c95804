//! The same tool, served by the official SDK in the fastest documented way.
//!
//! The router is kept in a field: by default, `#[tool_handler]` rebuilds it for every call. No
//! tracing subscriber is installed, so nothing is logged.

use std::fmt;

use clap::ValueEnum;
use rmcp::{
    ServerHandler, ServiceExt,
    handler::server::{router::tool::ToolRouter, wrapper::Parameters},
    schemars, tool, tool_handler, tool_router, transport,
};

use super::Runtime;
use crate::report::name;

/// The configuration the SDK leaves to its user.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Settings {
    #[arg(long, value_enum)]
    pub(crate) runtime: Runtime,
    #[arg(long, value_enum)]
    pub(crate) transport: Transport,
}

/// The SDK's two stdio transports.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Transport {
    /// Blocking reads and writes on tokio's blocking threads
    Stdio,
    /// Non-blocking reads and writes on tokio's reactor
    StdioPipes,
}

pub(crate) fn serve(settings: Settings) -> anyhow::Result<()> {
    settings.runtime.build()?.block_on(async {
        let calculator = Calculator::default();
        let service = match settings.transport {
            Transport::Stdio => calculator.serve(transport::stdio()).await?,
            Transport::StdioPipes => calculator.serve(transport::stdio_pipes()).await?,
        };
        service.waiting().await?;
        Ok(())
    })
}

impl Settings {
    /// Iterates over all configurations, to find the fastest on this machine.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        Runtime::value_variants().iter().flat_map(|&runtime| {
            Transport::value_variants().iter().map(move |&transport| Self { runtime, transport })
        })
    }

    /// Returns the arguments that `benches serve-rmcp` parses to these settings.
    pub(crate) fn to_arguments(self) -> [String; 2] {
        [
            format!("--runtime={}", name(&self.runtime)),
            format!("--transport={}", name(&self.transport)),
        ]
    }
}

impl fmt::Display for Settings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}, {}", name(&self.runtime), name(&self.transport))
    }
}

/// The SDK's server for either transport.
pub(crate) struct Calculator {
    tool_router: ToolRouter<Self>,
}

impl Default for Calculator {
    fn default() -> Self {
        Self { tool_router: Self::tool_router() }
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Addends {
    a: f64,
    b: f64,
}

#[tool_router]
impl Calculator {
    #[tool(name = "calculator.add", description = "Add two numbers")]
    fn add(&self, Parameters(Addends { a, b }): Parameters<Addends>) -> String {
        (a + b).to_string()
    }
}

#[tool_handler(router = self.tool_router)]
impl ServerHandler for Calculator {}
