//! Status notifications of tasks (`io.modelcontextprotocol/tasks`), for the crate that runs them.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use mcp_flow_proto::model::DetailedTask;

use crate::context::Context;

/// Source of status notifications for `subscriptions/listen` with `taskIds`.
pub trait TaskSource: Send + Sync + 'static {
    /// Watches a task; none if the caller has no such task.
    fn watch<'a>(&'a self, context: &'a Context, id: &'a str)
    -> TaskFuture<'a, Box<dyn TaskWatch>>;
}

/// Future of something about a task that may not be there.
pub type TaskFuture<'a, T> = Pin<Box<dyn Future<Output = Option<T>> + Send + 'a>>;

/// A watched task.
pub trait TaskWatch: Send + Sync {
    /// Waits until the status differs from the one returned last, at first from `working`, and
    /// returns the task. None when there will be no more changes.
    fn next(&mut self) -> TaskFuture<'_, DetailedTask>;
}

/// The task source of a server, if it has one.
#[derive(Clone, Default)]
pub(crate) struct Tasks {
    pub(crate) source: Option<Arc<dyn TaskSource>>,
}

impl fmt::Debug for Tasks {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Tasks({})", self.source.is_some())
    }
}
