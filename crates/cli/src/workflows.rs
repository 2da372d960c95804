//! Where workflows come from, and what is served of them.

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

/// Where workflows come from.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Directories {
    /// Add the workflows in this directory; may be repeated, later ones win
    ///
    /// Before it come those of the program, of ~/.config/mcp-flow/workflows and of ./workflows.
    #[arg(long = "workflows", value_name = "DIR", global = true)]
    named: Vec<PathBuf>,
}

/// The options about workflows.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Workflows {
    #[command(flatten)]
    directories: Directories,

    /// How many days the outputs of a run are kept after its end [default: 30]
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(1..=36_500))]
    keep_runs: Option<u32>,

    /// How tools/call says that there is no such workflow or step
    #[arg(long, value_enum, default_value_t, value_name = "FORM")]
    tool_errors: Told,

    /// Which tools can also be called as methods of their own, as in {"method": "workflow_list"}
    ///
    /// The params are the arguments, the result is the tool's output, and a failure is an error.
    /// Permissions, schemas, audit and metrics are those of tools/call.
    #[arg(long, value_enum, default_value_t, value_name = "TOOLS")]
    direct_methods: Direct,
}

/// How a fault is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Told {
    /// As a result a model can read
    #[default]
    Results,
    /// As an error of the protocol
    Protocol,
}

/// Which tools are methods as well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Direct {
    /// The four workflow tools
    #[default]
    Workflow,
    /// Every tool
    All,
    /// None; where the workflowlookup document is followed, the four of it all the same
    None,
}

impl Directories {
    /// The usual ones, and these.
    pub(crate) fn named(named: Vec<PathBuf>) -> Self {
        Self { named }
    }

    /// All workflows there are.
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

impl Workflows {
    /// Adds directories of a file; those of the command line win.
    pub(crate) fn add(&mut self, directories: Vec<PathBuf>) {
        self.directories.named.splice(..0, directories);
    }

    /// The tools for them.
    pub(crate) fn tools(&self, form: DefinitionForm) -> anyhow::Result<LookupTools> {
        let tools =
            LookupTools::new(self.directories.library()?, form).errors(match self.tool_errors {
                Told::Results => ToolErrors::Results,
                Told::Protocol => ToolErrors::Protocol,
            });
        let switched_off = self.direct_methods == Direct::None && form == DefinitionForm::Standard;
        Ok(if switched_off { tools.without_methods() } else { tools })
    }

    /// Has every tool be a method, if that is wanted.
    pub(crate) fn direct(&self, server: ServerBuilder) -> ServerBuilder {
        match self.direct_methods {
            Direct::All => server.all_direct_methods(),
            Direct::Workflow | Direct::None => server,
        }
    }

    /// Runs of these workflows, with tokens that are sealed with these keys; confirmed where the
    /// agent is told, as the person is told.
    pub(crate) fn runs(&self, tools: &LookupTools, keys: KeyRing, told: [String; 2]) -> Runs {
        let [agent, person] = told;
        let runs = Runs::new(tools.library().clone(), keys);
        let runs = runs.confirmed_at(agent).confirmed_by(person);
        match self.keep_runs {
            Some(days) => runs.retention(DAY * days),
            None => runs,
        }
    }
}

/// Where a user keeps workflows of their own.
pub(crate) fn user_directory() -> Option<PathBuf> {
    let named = |name| std::env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from);
    let config = named("XDG_CONFIG_HOME").or_else(|| Some(named("HOME")?.join(".config")))?;
    Some(config.join("mcp-flow/workflows"))
}

/// Has a server follow the files of its workflows, for as long as the result is kept.
pub(crate) fn follow(workflows: &LookupTools, server: &Server) -> Option<LibraryWatcher> {
    workflows
        .follow(server)
        .inspect_err(|error| tracing::warn!(error, "changes of workflows will not be seen"))
        .ok()
}

/// Answers the first request with what keeps the server from starting, and ends (WFL-050, WFL-056).
///
/// A client that goes away without asking anything is told all the same.
#[expect(clippy::disallowed_methods, reason = "the client is spoken to here, by nobody else")]
pub(crate) fn refuse(cause: &anyhow::Error) -> anyhow::Result<ExitCode> {
    eprintln!("mcp-flow: {cause:#}");
    let mut lines = std::io::stdin().lock().take(LONGEST_REQUEST).lines();
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

/// How much is read to find the first request.
const LONGEST_REQUEST: u64 = 1024 * 1024;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
