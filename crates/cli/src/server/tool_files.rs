//! Tool files: the library, and its registration with the server.

use std::path::PathBuf;

use mcp_flow::{Interaction, Server};
use mcp_flow_declarative::document::FolderWatcher;
use mcp_flow_declarative::sandbox::Launcher;
use mcp_flow_declarative::{ToolLibrary, Trust};
use serde_json::{Value, json};

/// Opens the tool files; `None` if none are named. Fails if a tool needs a sandbox that this system
/// does not have.
pub(crate) fn open(paths: &[PathBuf]) -> anyhow::Result<Option<ToolLibrary>> {
    if paths.is_empty() {
        return Ok(None);
    }
    let library = ToolLibrary::open(paths.iter().cloned(), launcher(), Trust::System)?;
    library.check_sandboxes()?;
    Ok(Some(library))
}

/// Returns this program, which starts others in a sandbox.
pub(crate) fn launcher() -> Option<Launcher> {
    std::env::current_exe().ok().map(Launcher::new)
}

/// Describes the files for the console: their tools and their problems.
pub(crate) fn describe(library: &ToolLibrary) -> Value {
    let files = library.files().into_iter().map(|file| {
        let tools = file.tools.iter().map(|(name, kind)| json!({"name": name, "kind": kind}));
        let problems = file.problems.iter().map(|problem| {
            json!({
                "severity": if problem.is_error() { "error" } else { "warning" },
                "line": problem.position.line,
                "column": problem.position.column,
                "message": problem.message,
            })
        });
        json!({
            "path": file.path.display().to_string(),
            "tools": tools.collect::<Vec<_>>(),
            "problems": problems.collect::<Vec<_>>(),
            "isOutdated": file.is_outdated,
        })
    });
    files.collect()
}

/// Tool files of a server that is being built.
#[derive(Debug)]
pub(crate) struct ToolFiles {
    pub(crate) library: ToolLibrary,
    pub(crate) flows: Interaction,
}

impl ToolFiles {
    /// Serves the tools, and follows changes of their files until the result is dropped.
    pub(crate) fn attach(&self, server: &Server) -> Option<FolderWatcher> {
        self.library.attach(server, &self.flows);
        self.library
            .watch()
            .inspect_err(|error| {
                tracing::warn!(error, "cannot watch tool files; changes need a restart");
            })
            .ok()
    }
}
