//! How a flow can fail to give a result.

use std::fmt;

use mcp_flow_session::event::Fault;

/// What a flow gives.
pub type FlowResult<T> = Result<T, FlowError>;

/// Why a flow gives no result.
///
/// Any error becomes one by `?`, which is why this is not an error itself: the same as anyhow does.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowError(pub(crate) Reason);

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Reason {
    Declined(String),
    Failed(String),
    Fault(Box<Fault>),
}

impl FlowError {
    /// Something went wrong; the owner of the session is told what.
    pub fn new(message: impl Into<String>) -> Self {
        Self(Reason::Failed(message.into()))
    }

    /// Nothing went wrong, but nothing was done either.
    pub fn declined(summary: impl Into<String>) -> Self {
        Self(Reason::Declined(summary.into()))
    }

    pub(crate) fn fault(fault: Fault) -> Self {
        Self(Reason::Fault(Box::new(fault)))
    }

    /// Whether the flow was declined, as opposed to having failed.
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
