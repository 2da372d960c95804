//! Workflow directories, and the tools that serve workflows.

use std::io::{BufRead, Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::ValueEnum;
use mcp_flow::seal::KeyRing;
use mcp_flow::workflow::runs::Runs;
use mcp_flow::workflow::{
    DefinitionForm, Library, LibraryWatcher, LookupTools, Origin, SERVER_ERROR, ToolErrors,
};
use mcp_flow::{Revision, RpcError, Server, ServerBuilder};
use serde_json::{Value, json};

use crate::platform::home;

/// Directories with workflow files.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct WorkflowDirectories {
    /// Directory of workflow files; may be repeated, later ones take precedence
    ///
    /// The built-in workflows, ~/.config/mcp-flow/workflows and ./workflows are always included.
    #[arg(long = "workflows", value_name = "DIR", global = true, help_heading = "Workflows")]
    named: Vec<PathBuf>,
}

/// Workflow options.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct WorkflowOptions {
    #[command(flatten)]
    directories: WorkflowDirectories,

    /// Days to keep the outputs of a run after its end [default: 30]
    #[arg(long = "run-retention-days", alias = "keep-runs", value_name = "DAYS", value_parser = clap::value_parser!(u32).range(1..=36_500))]
    #[arg(help_heading = "Workflows")]
    run_retention_days: Option<u32>,

    /// Form of errors for unknown workflows and steps in tools/call
    #[arg(long, value_enum, default_value_t, value_name = "FORM")]
    #[arg(help_heading = "Workflows")]
    tool_errors: ToolErrorForm,

    /// Tools that can also be called as JSON-RPC methods, as in {"method": "workflow_list"}
    ///
    /// The params are the arguments, the result is the tool's output, and a failure is an error.
    /// Permissions, validation, audit and metrics are those of tools/call.
    #[arg(long, value_enum, default_value_t, value_name = "TOOLS")]
    #[arg(help_heading = "Workflows")]
    direct_methods: DirectMethods,
}

/// Form of tool errors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum ToolErrorForm {
    /// A tool result with isError, which a model can read
    #[default]
    Results,
    /// A JSON-RPC error
    Protocol,
}

/// Tools that are methods as well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum DirectMethods {
    /// The four workflow tools
    #[default]
    Workflow,
    /// Every tool
    All,
    /// None (the workflowlookup profile still has its four)
    None,
}

impl WorkflowDirectories {
    /// Adds directories to the default ones.
    pub(crate) fn named(named: Vec<PathBuf>) -> Self {
        Self { named }
    }

    /// Loads all workflows.
    pub(crate) fn library(&self) -> anyhow::Result<Library> {
        let own = [(Origin::User, user_directory()), (Origin::Project, Some("workflows".into()))];
        let there = own.into_iter().filter_map(|(origin, path)| {
            let path = path.filter(|path| path.is_dir())?;
            Some((origin, path))
        });
        let named = self.named.iter().map(|path| (Origin::Named, path.clone()));
        Ok(Library::open(there.chain(named))?)
    }
}

impl WorkflowOptions {
    /// Adds directories of the configuration file; those of the command line take precedence.
    pub(crate) fn add(&mut self, directories: Vec<PathBuf>) {
        self.directories.named.splice(..0, directories);
    }

    /// Creates the workflow tools.
    pub(crate) fn tools(&self, form: DefinitionForm) -> anyhow::Result<LookupTools> {
        let tools =
            LookupTools::new(self.directories.library()?, form).errors(match self.tool_errors {
                ToolErrorForm::Results => ToolErrors::Results,
                ToolErrorForm::Protocol => ToolErrors::Protocol,
            });
        let switched_off =
            self.direct_methods == DirectMethods::None && form == DefinitionForm::Standard;
        Ok(if switched_off { tools.without_methods() } else { tools })
    }

    /// Makes every tool a method, if configured.
    pub(crate) fn add_direct_methods(&self, server: ServerBuilder) -> ServerBuilder {
        match self.direct_methods {
            DirectMethods::All => server.all_direct_methods(),
            DirectMethods::Workflow | DirectMethods::None => server,
        }
    }

    /// Creates the runs of these workflows, with tokens sealed by these keys. `instructions` say how
    /// a run is confirmed: to the agent, and to the person.
    pub(crate) fn runs(
        &self,
        tools: &LookupTools,
        keys: KeyRing,
        instructions: [String; 2],
    ) -> Runs {
        let [agent, person] = instructions;
        let runs = Runs::new(tools.library().clone(), keys);
        let runs = runs.confirmed_at(agent).confirmed_by(person);
        match self.run_retention_days {
            Some(days) => runs.retention(DAY * days),
            None => runs,
        }
    }
}

/// Returns the user's own directory of workflows.
pub(crate) fn user_directory() -> Option<PathBuf> {
    let named = |name| std::env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from);
    let config = named("XDG_CONFIG_HOME").or_else(|| Some(home()?.join(".config")))?;
    Some(config.join("mcp-flow/workflows"))
}

/// Watches workflow files for changes, until the result is dropped.
pub(crate) fn watch_files(workflows: &LookupTools, server: &Server) -> Option<LibraryWatcher> {
    workflows
        .follow(server)
        .inspect_err(|error| {
            tracing::warn!(error, "cannot watch workflow files; changes need a restart");
        })
        .ok()
}

/// Answers the first request with the reason the server cannot start, and exits (WFL-050, WFL-056).
///
/// The error is written even if the client disconnects without a request.
#[expect(clippy::disallowed_methods, reason = "no server writes to the client here")]
pub(crate) fn answer_with_startup_error(cause: &anyhow::Error) -> anyhow::Result<ExitCode> {
    eprintln!("mcp-flow: {cause:#}");
    let mut lines = std::io::stdin().lock().take(MAX_REQUEST_LENGTH).lines();
    let request = lines.find_map(|line| {
        let message: Value = serde_json::from_str(&line.ok()?).ok()?;
        message.get("method").is_some().then_some(message)
    });
    let id = request.map(|request| request["id"].clone()).unwrap_or_default();
    let error = RpcError::new(SERVER_ERROR).details(format!("{cause:#}"));
    let error = serde_json::to_value(error.wire(Revision::V2024_11_05))?;
    let mut out = std::io::stdout();
    writeln!(out, "{}", json!({"jsonrpc": "2.0", "id": id, "error": error}))?;
    out.flush()?;
    Ok(ExitCode::FAILURE)
}

/// Number of bytes that are read to find the first request.
const MAX_REQUEST_LENGTH: u64 = 1024 * 1024;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
