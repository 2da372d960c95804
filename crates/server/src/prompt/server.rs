//! Registration of prompts with a server.

use std::sync::Arc;

use mcp_flow_proto::model::Topics;

use super::{BadPrompt, IntoPrompts, Prompt};
use crate::connections::Change;
use crate::context::Context;
use crate::permissions::PermissionKind;
use crate::registry::RegisterError;
use crate::resource::Access;
use crate::server::{Server, ServerBuilder};

impl Server {
    /// Adds prompts while the server runs, all of them or none. Subscribed clients are notified,
    /// once for all changes within a short interval.
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
            self.announce(&Change {
                topics: PROMPTS,
                names: Some((PermissionKind::Prompt, names)),
            });
        }
        Ok(())
    }

    /// Removes a prompt while the server runs. Returns whether it existed.
    pub fn remove_prompt(&self, name: &str) -> bool {
        let removed = self.prompts().remove(name);
        if removed {
            self.announce(&Change {
                topics: PROMPTS,
                names: Some((PermissionKind::Prompt, vec![name])),
            });
        }
        removed
    }

    /// The prompt with this name, if it exists.
    pub fn find_prompt(&self, name: &str) -> Option<Arc<Prompt>> {
        self.prompts().prompts().find(name).cloned()
    }
}

impl ServerBuilder {
    /// Adds prompts: one, or several in a tuple or list, listed in this order.
    /// [`build`](Self::build) reports errors.
    pub fn prompts(mut self, prompts: impl IntoPrompts) -> Self {
        self.prompts.add(prompts);
        self
    }

    /// Sets which callers may see and use which prompts. By default everyone may use all of them.
    ///
    /// It is called before prompts are listed, got or completed, and should return quickly.
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

/// Error while adding prompts.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AddPromptsError {
    /// A prompt is invalid.
    #[error(transparent)]
    Bad(#[from] BadPrompt),
    /// Two prompts have the same name.
    #[error(transparent)]
    Collision(#[from] RegisterError),
}

const PROMPTS: Topics =
    Topics { tools_list_changed: false, prompts_list_changed: true, resources_list_changed: false };
