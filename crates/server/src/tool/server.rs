//! Registration of tools with a server.

use std::sync::Arc;

use mcp_flow_proto::model::Topics;

use super::{BadTool, IntoTools, Tool, ToolNames};
use crate::connections::Change;
use crate::registry::RegisterError;
use crate::server::{Server, ServerBuilder};

impl Server {
    /// Adds tools while the server runs, all of them or none. Subscribed clients are notified, once
    /// for all changes within a short interval.
    ///
    /// ```
    /// use mcp_flow_server::{Context, Server, Tool};
    /// use serde_json::Value;
    ///
    /// let server = Server::builder("growing", "1.0.0").build().unwrap();
    /// server.add_tools(Tool::builder("late").quick(|_: &Context, _: Value| "here")).unwrap();
    /// assert!(server.remove_tool("late"));
    /// ```
    pub fn add_tools(&self, tools: impl IntoTools) -> Result<(), AddToolsError> {
        let tools = tools.into_tools()?;
        if !tools.is_empty() {
            let names: Vec<_> =
                tools.iter().map(|tool| (tool.kind(), tool.definition().name.clone())).collect();
            let has_apps = tools.iter().any(Tool::has_app_metadata);
            let added = self.tools_mut().add(tools);
            added.map_err(|(error, _unused)| error)?;
            self.declare_tools();
            if has_apps {
                self.declare_apps();
            }
            for (kind, name) in &names {
                self.announce(&Change { topics: TOOLS, names: Some((*kind, vec![name])) });
            }
        }
        Ok(())
    }

    /// Removes a tool while the server runs, by its name or alias; running calls of it continue.
    /// Returns whether it existed.
    pub fn remove_tool(&self, name: &str) -> bool {
        // Dropped after the lock is released: dropping a tool may call the server again.
        let removed = self.tools_mut().remove(name);
        if let Some(tool) = &removed {
            let names = Some((tool.kind(), vec![&*tool.definition().name]));
            self.announce(&Change { topics: TOOLS, names });
        }
        removed.is_some()
    }

    /// The tool with this name or alias, if it exists.
    pub fn find_tool(&self, name: &str) -> Option<Arc<Tool>> {
        self.tools().find(name).cloned()
    }
}

impl ServerBuilder {
    /// Adds tools: one, or several in a tuple or list, listed in this order. [`build`](Self::build)
    /// reports errors.
    pub fn tools(mut self, tools: impl IntoTools) -> Self {
        match tools.into_tools() {
            Ok(tools) => self.tools.extend(tools),
            Err(error) => {
                self.bad_tool.get_or_insert(error);
            }
        }
        self
    }

    /// Sets the names that tools are listed under. Defaults to the registered ones.
    pub fn tool_names(mut self, names: ToolNames) -> Self {
        self.tool_names = names;
        self
    }
}

/// Error while adding tools.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AddToolsError {
    /// A tool is invalid.
    #[error(transparent)]
    Bad(#[from] BadTool),
    /// Two tools have the same name.
    #[error(transparent)]
    Collision(#[from] RegisterError),
}

const TOOLS: Topics =
    Topics { tools_list_changed: true, prompts_list_changed: false, resources_list_changed: false };
