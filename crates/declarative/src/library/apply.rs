//! Tools in effect, and their registration with a server.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use mcp_flow_server::{BadTool, Context, Tool};
use mcp_flow_workflow::document::Severity;
use serde_json::{Map, Value};

use super::{Attached, DUPLICATE, Effective, State, ToolLibrary, cycles, find_cycles};
use crate::command::find_program;
use crate::model::{Action, DeclaredTool, OutputForm, alias};
use crate::output::{Produced, Progress, ToolResult};
use crate::read::problems_of_tools;
use crate::sandbox::Launcher;
use crate::secret::MaskedReader;
use crate::{command, flow, output};

/// Tools that need a sandbox which this system does not have.
#[derive(Debug, thiserror::Error)]
#[error("the tool {tool} in {path} needs a sandbox: {reason}")]
pub struct UnsupportedSandbox {
    tool: String,
    path: String,
    reason: String,
}

impl ToolLibrary {
    /// Checks that this system has what the sandboxes of the tools need. To be called at the start:
    /// without them, no server should start that promises them.
    pub fn check_sandboxes(&self) -> Result<(), UnsupportedSandbox> {
        let state = self.inner.state.lock();
        for (path, file) in &state.files {
            for tool in file.good.iter().flat_map(|file| &file.tools) {
                if let Err(reason) = check_sandbox(tool, self.inner.launcher.as_ref()) {
                    let (tool, path) = (tool.name.to_string(), path.display().to_string());
                    return Err(UnsupportedSandbox { tool, path, reason });
                }
            }
        }
        Ok(())
    }

    /// Decides which tools are in effect.
    pub(super) fn update(&self) {
        let mut state = self.inner.state.lock();
        let State { files, tools } = &mut *state;
        let mut effective: BTreeMap<Box<str>, Effective> = BTreeMap::new();
        let mut unavailable: BTreeMap<Arc<Path>, Vec<(Box<str>, String)>> = BTreeMap::new();
        // Aliases with underscores must be unique as well.
        let mut names: HashSet<String> = HashSet::new();
        for (path, file) in files.iter() {
            let Some(good) = &file.good else { continue };
            let hash: Arc<str> = good.hash.as_str().into();
            for tool in &good.tools {
                let problem = match names.contains(&alias(&tool.name)) {
                    true => Some(DUPLICATE.to_owned()),
                    false => check_system(tool, self.inner.launcher.as_ref()).err(),
                };
                match problem {
                    Some(message) => {
                        let message = format!("{} is not available: {message}", tool.name);
                        let messages = unavailable.entry(path.clone()).or_default();
                        messages.push((tool.name.clone(), message));
                    }
                    None => {
                        names.insert(alias(&tool.name));
                        let (tool, path, hash) = (tool.clone(), path.clone(), hash.clone());
                        effective.insert(tool.name.clone(), Effective { tool, path, hash });
                    }
                }
            }
        }
        let found = find_cycles(effective.values().map(|one| &*one.tool));
        let cyclic: Vec<(Box<str>, String)> =
            found.iter().map(|cycle| (cycle[0].into(), cycles::describe(cycle))).collect();
        for (name, message) in cyclic {
            if let Some(removed) = effective.remove(&name) {
                unavailable.entry(removed.path).or_default().push((name, message));
            }
        }
        for (path, file) in files.iter_mut() {
            let messages = unavailable.remove(path).unwrap_or_default();
            file.unavailable = match &file.good {
                Some(good) => problems_of_tools(path, good, Severity::Error, messages),
                None => Vec::new(),
            };
        }
        // Unchanged tools stay registered.
        for (name, now) in &mut effective {
            if let Some(before) = tools.get(name)
                && before.path == now.path
                && before.tool.source == now.tool.source
            {
                now.tool = before.tool.clone();
            }
        }
        *tools = effective;
    }

    /// Registers the tools in effect with the server, and removes those that are no longer.
    pub(super) fn register_all(&self) {
        let Some(Attached { server, interaction }) = self.inner.attached.get() else { return };
        let Some(server) = server.upgrade() else { return };
        let wanted: Vec<(Arc<DeclaredTool>, Arc<Path>)> = {
            let state = self.inner.state.lock();
            let serves_internal = self.inner.serves_internal;
            let tools = state.tools.values().filter(|one| serves_internal || !one.tool.internal);
            tools.map(|one| (one.tool.clone(), one.path.clone())).collect()
        };
        let mut registered = self.inner.registered.lock();
        let unchanged: HashSet<_> = wanted.iter().map(|(tool, _)| Arc::as_ptr(tool)).collect();
        registered.retain(|name, tool| {
            let stays = unchanged.contains(&Arc::as_ptr(tool));
            if !stays {
                match tool.action {
                    Action::Flow(_) => interaction.remove_flow(&server, name),
                    _ => server.remove_tool(name),
                };
            }
            stays
        });
        let mut added = Vec::new();
        for (tool, path) in wanted {
            if registered.contains_key(&tool.name) {
                continue;
            }
            let result = match &tool.action {
                Action::Flow(_) => interaction
                    .add_flow(&server, flow::offer(self, &tool))
                    .map_err(|e| e.to_string()),
                _ => match self.tool(&tool) {
                    Ok(built) if server.find_tool(&tool.name).is_none() => {
                        added.push(built);
                        Ok(())
                    }
                    Ok(_) => Err("the server has a tool of this name already".to_owned()),
                    Err(error) => Err(error.to_string()),
                },
            };
            match result {
                Ok(()) => {
                    registered.insert(tool.name.clone(), tool);
                }
                Err(error) => {
                    let message = format!("{} is not available: {error}", tool.name);
                    let mut state = self.inner.state.lock();
                    state.tools.remove(&tool.name);
                    if let Some(file) = state.files.get_mut(&path)
                        && let Some(good) = &file.good
                    {
                        let messages = vec![(tool.name.clone(), message)];
                        let problems = problems_of_tools(&path, good, Severity::Error, messages);
                        file.unavailable.extend(problems);
                    }
                }
            }
        }
        if let Err(error) = server.add_tools(added) {
            tracing::warn!(%error, "tools of files cannot be added");
        }
    }

    fn tool(&self, declared: &Arc<DeclaredTool>) -> Result<Tool, BadTool> {
        let mut builder = Tool::builder(declared.name.to_string())
            .input_schema(Value::Object(declared.closed_input()));
        if let Some(title) = &declared.title {
            builder = builder.title(title.to_string());
        }
        if let Some(description) = &declared.description {
            builder = builder.description(description.to_string());
        }
        if let Some(annotations) = &declared.annotations {
            builder = builder.annotations(annotations.clone());
        }
        if let Some(schema) = &declared.output.schema {
            builder = builder.output_schema(schema.clone());
        }
        let (library, declared) = (self.clone(), declared.clone());
        builder.handler(move |context: Context, arguments: Map<String, Value>| {
            let (library, declared) = (library.clone(), declared.clone());
            async move {
                let progress = |number: f64, line: &str| context.progress(number, None, Some(line));
                ToolResult(library.run(&declared, arguments, &progress).await)
            }
        })
    }

    /// Runs a tool with arguments that conform to its schema.
    pub(super) async fn run(
        &self,
        tool: &DeclaredTool,
        arguments: Map<String, Value>,
        progress: Progress<'_>,
    ) -> Result<Produced, mcp_flow_server::tool::Failure> {
        let variables = tool.variables(arguments);
        match &tool.action {
            Action::Run(run) => {
                let form = tool.output.form.unwrap_or(OutputForm::Text);
                let (launcher, is_file) = (self.inner.launcher.as_ref(), form == OutputForm::File);
                let prepared = command::prepare(run, &variables, launcher, is_file)?;
                let reader = prepared.start().map_err(|error| {
                    let message = format!("{} cannot be run: {error}", run.program);
                    mcp_flow_server::tool::Failure::new("UNAVAILABLE", message)
                })?;
                let masker = reader.masker();
                output::read(MaskedReader::new(reader, masker), tool, form, None, progress).await
            }
            Action::Http(http) => self.inner.http.call(tool, http, &variables, progress).await,
            Action::Flow(_) => {
                let message = format!("{} is a flow and runs as a session", tool.name);
                Err(mcp_flow_server::tool::Failure::new("FAILED", message))
            }
        }
    }
}

/// Checks that a tool can run here: its program, its secrets and its sandbox.
pub(super) fn check_system(tool: &DeclaredTool, launcher: Option<&Launcher>) -> Result<(), String> {
    for secret in tool.secrets() {
        secret.read()?;
    }
    if let Action::Run(run) = &tool.action {
        find_program(run)?;
        if let Some(cwd) = &run.cwd
            && !cwd.is_dir()
        {
            return Err(format!("the directory {} does not exist", cwd.display()));
        }
        let listed = run.sandbox.iter().flat_map(|rules| rules.read.iter().chain(&rules.write));
        if let Some(path) = listed.into_iter().find(|path| !path.exists()) {
            return Err(format!("{}, which the sandbox lists, does not exist", path.display()));
        }
    }
    check_sandbox(tool, launcher)
}

fn check_sandbox(tool: &DeclaredTool, launcher: Option<&Launcher>) -> Result<(), String> {
    match &tool.action {
        Action::Run(run) => match (&run.sandbox, launcher) {
            (None, _) => Ok(()),
            (Some(rules), Some(launcher)) => launcher.check(rules),
            (Some(_), None) => Err("this program cannot start sandboxes".to_owned()),
        },
        Action::Http(_) | Action::Flow(_) => Ok(()),
    }
}
