//! `mcp-flow pack`: makes a bundle of a server for MCP hosts, and its entry for the MCP registry.

mod bundle;
mod files;
mod manifest;
mod program;
mod project;
mod registry;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use mcp_flow::client::RevisionPolicy;
use mcp_flow::client::host::DenyAll;
use serde_json::{Value, json};

use crate::client::connect::{self, ConnectionSettings, block_on, connect};
use crate::client::target::Spawn;
use crate::command::list::fetch_all;
use crate::exit::{Exit, Failure};
use crate::platform::set_mode;
use crate::terminal::output::{self, sanitize};
use bundle::Bundle;
use manifest::Manifest;
use project::{Overrides, Project};
use registry::RegistryEntry;

/// Make an MCPB bundle of a server, and its entry for the MCP registry
///
/// DIR is a crate, whose release build is packed, or a project of tool files, which is packed with
/// this program. The server is started once to list its tools. A `server.json` in DIR is completed;
/// without one, --name gives the name of the server in the registry.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: mcp-flow pack --name io.github.you/greeter")]
pub(crate) struct Pack {
    /// Directory of the project
    #[arg(value_name = "DIR", default_value = ".")]
    project: PathBuf,

    /// Program of the server; may be repeated with programs for other systems
    /// [default: the release build of a crate, or this program for tool files]
    #[arg(long = "binary", value_name = "FILE")]
    binaries: Vec<PathBuf>,

    /// Directory to write to [default: DIR/dist]
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,

    /// Name of the server in the registry, for example io.github.you/greeter
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// Address from which the bundle can be downloaded [default: a release of the repository]
    #[arg(long, value_name = "URL")]
    url: Option<String>,

    /// Description of the server, at most 100 characters
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,

    /// Author of the server
    #[arg(long, value_name = "NAME")]
    author: Option<String>,

    /// Do not start the server to list its tools
    #[arg(long)]
    no_start: bool,

    /// Arguments with which hosts start the program of a crate
    #[arg(last = true, value_name = "ARGUMENT")]
    arguments: Vec<String>,
}

impl Pack {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let overrides = Overrides {
            registry_name: self.name,
            description: self.description,
            author: self.author,
            arguments: self.arguments,
        };
        let output = self.output.unwrap_or_else(|| self.project.join("dist"));
        let mut project = Project::read(&self.project, overrides)?;
        let programs = program::read(&project, &self.binaries)?;
        let files = project.files(&output)?;
        let bundle_file = output.join(format!("{}-{}.mcpb", project.name, project.version));
        let entry_file = output.join("server.json");
        for file in [&bundle_file, &entry_file] {
            check_absent(file)?;
        }
        let mut entry = RegistryEntry::new(&project, self.url.as_deref(), &bundle_file)?;

        let mut bundle = Bundle::default();
        for program in &programs {
            bundle.add_program(program.path.clone(), program.path_in_bundle(&programs));
        }
        for (path, name) in files {
            bundle.add(path, format!("server/{name}"))?;
        }
        let local = programs.iter().find(|program| program.platform.is_local());
        if let Some(program) = local.filter(|_| !self.no_start) {
            let stage = tempfile::tempdir().context("cannot create a directory")?;
            bundle.copy_to(stage.path())?;
            let name = program.path_in_bundle(&programs);
            project.tools = list_tools(stage.path(), &name, &project.arguments)?;
        }
        let manifest = Manifest::new(&project, &programs);
        std::fs::create_dir_all(&output)
            .with_context(|| format!("cannot create {}", output.display()))?;
        let digest = bundle.write(&manifest.to_json(), &bundle_file)?;
        output::print(&format!("Created {}", bundle_file.display()))?;
        match &mut entry {
            Some(entry) => {
                entry.add_package(&digest);
                create(&entry_file, &entry.to_json())?;
                output::print(&format!("Created {}", entry_file.display()))?;
                eprintln!("The registry will say that the bundle is at {}", sanitize(entry.url()));
            }
            None => {
                let lack = match project.registry_entry.is_empty() {
                    true => "No server.json",
                    false => "server.json has no name",
                };
                eprintln!(
                    "{lack}: pass --name io.github.you/{} to describe the server to the MCP \
                     registry",
                    project.name
                );
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Starts the server as a host would, and lists its tools for the manifest.
fn list_tools(stage: &Path, program: &str, arguments: &[String]) -> anyhow::Result<Vec<Value>> {
    let folder = stage.to_string_lossy();
    let arguments = arguments.iter().map(|word| word.replace(manifest::FOLDER, &folder).into());
    let spawn = Spawn {
        program: stage.join(program).into(),
        arguments: arguments.collect(),
        folder: Some(folder.clone().into_owned()),
        ..Spawn::default()
    };
    let settings = ConnectionSettings {
        timeout: START_TIME,
        signing: None,
        speak: RevisionPolicy::Any,
        validate_output: true,
    };
    let mut tools = Vec::new();
    let work = async {
        let client = connect(Arc::new(connect::program(&spawn)), settings, DenyAll).await?;
        let listed = fetch_all(&client, "tools/list", "tools").await;
        client.close().await;
        tools = listed?;
        Ok(ExitCode::SUCCESS)
    };
    block_on(work).context(
        "the server does not start, so nothing was packed; give its arguments after `--`, or pass \
         --no-start",
    )?;
    let tool = |tool: &Value| match tool["description"].as_str() {
        Some(description) => json!({"name": tool["name"], "description": description}),
        None => json!({"name": tool["name"]}),
    };
    Ok(tools.iter().map(tool).collect())
}

/// Rejects a file that exists: nothing is ever overwritten.
fn check_absent(path: &Path) -> anyhow::Result<()> {
    match path.symlink_metadata() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        _ => {
            let message =
                format!("{} exists; remove it, or choose another --output", path.display());
            Err(Failure::new(Exit::Usage, message).into())
        }
    }
}

/// Creates a file at once; one that appeared meanwhile is not overwritten.
fn create(path: &Path, text: &str) -> anyhow::Result<()> {
    use std::io::Write as _;
    let cannot = || format!("cannot create {}", path.display());
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder).with_context(cannot)?;
    file.write_all(text.as_bytes()).with_context(cannot)?;
    publish(file, path)
}

/// Gives a finished file its name and the permissions of files that are not secret.
fn publish(file: tempfile::NamedTempFile, path: &Path) -> anyhow::Result<()> {
    let cannot = || format!("cannot create {}", path.display());
    set_mode(file.path(), 0o644).with_context(cannot)?;
    file.persist_noclobber(path).with_context(cannot)?;
    Ok(())
}

/// Usage error.
fn usage(message: impl Into<String>) -> anyhow::Error {
    Failure::new(Exit::Usage, message).into()
}

/// Time for the server to start, and for each of its responses.
const START_TIME: Duration = Duration::from_secs(30);
