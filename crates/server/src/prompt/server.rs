//! What a server can do with prompts.

use std::sync::Arc;

use mcp_flow_proto::model::Topics;

use super::{BadPrompt, IntoPrompts, Prompt};
use crate::connections::Change;
use crate::context::Context;
use crate::permissions::Kind;
use crate::registry::RegisterError;
use crate::resource::Access;
use crate::server::{Server, ServerBuilder};

impl Server {
    /// Adds prompts while the server runs, all of them or none. Clients that want to know are
    /// told, once for all that changes within a moment.
    ///
    /// ```
    /// use mcp_flow_server::{Prompt, Server};
    ///
    /// let server = Server::builder("growing", "1.0.0").build().unwrap();
    /// server.add_prompts(Prompt::builder("late").template("Better than never.")).unwrap();
    /// assert!(server.remove_prompt("late"));
    /// ```
    pub fn add_prompts(&self, prompts: impl IntoPrompts) -> Result<(), AddPromptsError> {
        let prompts = prompts.into_prompts()?;
        let names: Vec<_> = prompts.iter().map(|prompt| prompt.definition().name.clone()).collect();
        if self.prompts().add(prompts)? {
            let names = names.iter().map(String::as_str).collect();
            self.announce(&Change { topics: PROMPTS, names: Some((Kind::Prompt, names)) });
        }
        Ok(())
    }

    /// Removes a prompt while the server runs. Returns whether there was one.
    pub fn remove_prompt(&self, name: &str) -> bool {
        let removed = self.prompts().remove(name);
        if removed {
            self.announce(&Change { topics: PROMPTS, names: Some((Kind::Prompt, vec![name])) });
        }
        removed
    }

    /// The prompt of this name, if there is one.
    pub fn find_prompt(&self, name: &str) -> Option<Arc<Prompt>> {
        self.prompts().prompts().find(name).cloned()
    }
}

impl ServerBuilder {
    /// Adds prompts: one, or several in a tuple or list. They are listed in the order they are
    /// added. What is wrong with one is told by [`build`](Self::build).
    pub fn prompts(mut self, prompts: impl IntoPrompts) -> Self {
        self.prompts.add(prompts);
        self
    }

    /// Sets who may see and use which prompts. Without, everyone may use all of them.
    ///
    /// It is asked before prompts are listed, got or completed, and should answer quickly.
    ///
    /// ```
    /// use mcp_flow_server::resource::Access;
    /// use mcp_flow_server::{Prompt, Server};
    ///
    /// let server = Server::builder("office", "1.0.0")
    ///     .prompts(Prompt::builder("admin.report").template("Report on everyone."))
    ///     .prompt_access(|caller, name| match caller.principal().name() {
    ///         "admin" => Access::Read,
    ///         _ if name.starts_with("admin.") => Access::None,
    ///         _ => Access::Read,
    ///     })
    ///     .build()
    ///     .unwrap();
    /// ```
    pub fn prompt_access(
        mut self,
        access: impl Fn(&Context, &str) -> Access + Send + Sync + 'static,
    ) -> Self {
        self.prompts.set_access(Box::new(access));
        self
    }
}

/// Why prompts cannot be added.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AddPromptsError {
    /// One of them cannot be used.
    #[error(transparent)]
    Bad(#[from] BadPrompt),
    /// Two of them collide.
    #[error(transparent)]
    Collision(#[from] RegisterError),
}

const PROMPTS: Topics =
    Topics { tools_list_changed: false, prompts_list_changed: true, resources_list_changed: false };
