//! Versions: changes of a flow's code that sessions under way do not see.

use std::future::pending;
use std::ops::RangeInclusive;

use super::{Flow, FlowError, FlowResult};

impl Flow {
    /// Returns the version of a change to the code of the flow that this session runs.
    ///
    /// A session that passed this place before the change was made gets the lowest version, any other
    /// the highest; the version is recorded. A session whose version is no longer in the range is
    /// stuck until code that has it runs.
    ///
    /// ```
    /// # use mcp_flow_engine::{Flow, FlowResult};
    /// # use mcp_flow_session::question::{confirm, text};
    /// # async fn register(flow: Flow) -> FlowResult<String> {
    /// let name = flow.ask("name", text("Your name?")).await?;
    /// // Sessions that are past the name go on without the new question.
    /// if flow.version("ask for consent", 1..=2).await? >= 2 {
    ///     flow.ask("consent", confirm("May we store it?")).await?;
    /// }
    /// # Ok(name)
    /// # }
    /// ```
    pub async fn version(&self, change: &str, versions: RangeInclusive<u32>) -> FlowResult<u32> {
        if versions.is_empty() {
            let message = format!("the versions of the change `{change}` are an empty range");
            return Err(FlowError::new(message));
        }
        let key = self.key(change)?;
        match self.execution.version(&key, &versions) {
            Some(version) => Ok(version),
            // The session is stuck, and this future is about to be dropped.
            None => pending().await,
        }
    }
}
