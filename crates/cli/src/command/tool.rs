//! `mcp-flow tool`: creates, checks, tries and imports tool files.

pub(super) mod check;
mod import;
mod new;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::arguments::Arguments;
use crate::terminal::output::print;

/// Create, check, try and import tool files
#[derive(Debug, clap::Args)]
pub(crate) struct Tool {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Create a tool file from a template
    New {
        /// Name of the tool
        name: String,
        /// A tool that runs a command (the default)
        #[arg(long, group = "kind")]
        run: bool,
        /// A tool that sends an HTTP request
        #[arg(long, group = "kind")]
        http: bool,
        /// A tool that asks questions and calls other tools
        #[arg(long, group = "kind")]
        flow: bool,
        /// File to write [default: tools/NAME.yaml]
        #[arg(long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Check tool files; exits with 1 if one has errors
    Check {
        /// Tool files, or directories of them
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// Call a tool of a file, and answer its questions in the terminal
    ///
    /// Takes the options of `mcp-flow call`, such as --json and --answers.
    Try {
        /// Tool file, or a directory of them
        file: PathBuf,
        /// Name of the tool
        name: String,
        /// Arguments of the tool, and options of `mcp-flow call`
        #[arg(value_name = "KEY=VALUE", trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
    /// Print the JSON Schema of tool files
    Schema,
    /// Write a tool file from an OpenAPI 3.0 or 3.1 description
    ///
    /// Reports what was left out, and why, on standard error.
    Import {
        /// OpenAPI description, JSON or YAML
        spec: PathBuf,
        /// Import only operations whose id, path or "METHOD path" matches; * stands for any text;
        /// may be repeated
        #[arg(long, value_name = "PATTERN")]
        only: Vec<String>,
        /// File to write [default: standard output]
        #[arg(long, value_name = "FILE")]
        write: Option<PathBuf>,
        /// Prefix of the tool names, such as `github.`
        #[arg(long, value_name = "TEXT", default_value = "")]
        prefix: String,
        /// Base URL, in place of the first server of the description
        #[arg(long, value_name = "URL")]
        server: Option<String>,
    },
}

impl Tool {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        match self.action {
            Action::New { name, http, flow, output, .. } => new::run(&name, http, flow, output),
            Action::Check { files } => check::run(&files),
            Action::Schema => {
                print(mcp_flow_declarative::SCHEMA.trim_end())?;
                Ok(ExitCode::SUCCESS)
            }
            Action::Try { file, name, words } => try_tool(file, name, words),
            Action::Import { spec, only, write, prefix, server } => {
                import::run(&import::Import { spec, only, write, prefix, server })
            }
        }
    }
}

/// Calls the tool as a client of a server with this file only.
fn try_tool(file: PathBuf, name: String, words: Vec<String>) -> anyhow::Result<ExitCode> {
    let checked = check::problems_of(std::slice::from_ref(&file))?;
    if !check::are_valid(&checked)? {
        return Ok(ExitCode::FAILURE);
    }
    let name = check::find_tool(&file, &name)?;
    if check::print_missing(&name, &checked)? {
        return Ok(ExitCode::FAILURE);
    }
    let program = std::env::current_exe()?;
    let mut call = vec!["mcp-flow".into(), "call".into(), name.into()];
    call.extend(words.into_iter().map(Into::into));
    call.extend(["--".into(), program.into_os_string(), "stdio".into(), "--tools".into()]);
    call.push(file.into_os_string());
    call.extend(["--internal-tools", "--no-examples", "--store", "memory:"].map(Into::into));
    super::run(Arguments::try_parse_from(call).unwrap_or_else(|error| error.exit()))
}
