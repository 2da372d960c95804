//! Calls that continue as tasks (`io.modelcontextprotocol/tasks`).
//!
//! A task is a stored session under another name: its id is the session's, its status is derived
//! from the journal, and so it survives whatever its session survives. [`state`] derives the task,
//! [`methods`] serves `tasks/*`, [`watch`] notifies of changes.

mod methods;
mod state;
mod watch;

use mcp_flow_proto::model::TASKS_EXTENSION;
use mcp_flow_server::router::Era;
use mcp_flow_server::{Context, ServerBuilder};
use serde_json::json;

use crate::interaction::Interaction;

/// Choice of the calls of a flow that continue as tasks, for clients that support them.
///
/// A flow whose sessions are held by clients never becomes a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TaskMode {
    /// Calls are answered when the flow has ended.
    Never,
    /// Calls are answered if the flow asks or ends soon, and continue as tasks otherwise. A client
    /// that supports tasks and no elicitation answers the questions of the task.
    #[default]
    Auto,
    /// Calls become tasks at once. All questions are asked by the task.
    Always,
    /// Calls become tasks as soon as the flow works. Questions before that are asked by the call.
    /// Clients without support for tasks are rejected.
    Required,
}

impl Interaction {
    /// Returns whether calls of this server can continue as tasks.
    pub(crate) fn offers_tasks(&self) -> bool {
        self.inner.is_enabled && !self.inner.backend.is_client_held()
    }

    /// Returns whether a call can continue as a task.
    pub(crate) fn takes_task(&self, context: &Context) -> bool {
        // Not with `is_direct`: there the result is the output itself.
        self.offers_tasks()
            && context.revision().is_stateless()
            && !context.is_direct()
            && context.client_extension(TASKS_EXTENSION).is_some()
    }
}

/// Adds the methods, their notifications and the declaration to a server.
pub(crate) fn add_to(interaction: &Interaction, server: ServerBuilder) -> ServerBuilder {
    if !interaction.offers_tasks() {
        return server;
    }
    methods::add_to(interaction, server)
        .extension_in(Era::Stateless, TASKS_EXTENSION, json!({}))
        .task_source(watch::SessionTasks::new(interaction))
}
