//! Result type of flows.

use std::fmt;

use mcp_flow_session::event::FlowFault;

/// Result of a flow.
pub type FlowResult<T> = Result<T, FlowError>;

/// Reason a flow has no result.
///
/// Any error converts to it by `?`, which is why this type, like `anyhow::Error`, does not
/// implement [`Error`](std::error::Error).
#[derive(Clone, Debug, PartialEq)]
pub struct FlowError(pub(crate) Reason);

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Reason {
    Declined(String),
    Failed(String),
    Fault(Box<FlowFault>),
}

impl FlowError {
    /// Creates a failure. The message is shown to the owner of the session.
    pub fn new(message: impl Into<String>) -> Self {
        Self(Reason::Failed(message.into()))
    }

    /// Creates a decline: the flow completed without doing its work, and without a fault.
    pub fn declined(summary: impl Into<String>) -> Self {
        Self(Reason::Declined(summary.into()))
    }

    pub(crate) fn fault(fault: FlowFault) -> Self {
        Self(Reason::Fault(Box::new(fault)))
    }

    /// Returns whether the flow was declined, as opposed to having failed.
    pub fn is_declined(&self) -> bool {
        matches!(self.0, Reason::Declined(_))
    }
}

impl fmt::Display for FlowError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Reason::Declined(text) | Reason::Failed(text) => formatter.write_str(text),
            Reason::Fault(fault) => fault.fmt(formatter),
        }
    }
}

impl<E: std::error::Error> From<E> for FlowError {
    fn from(error: E) -> Self {
        Self::new(error.to_string())
    }
}
