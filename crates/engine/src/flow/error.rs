//! Result type of flows.

use std::error::Error;
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
    Failed { message: String, causes: Vec<String> },
    Fault(Box<FlowFault>),
}

impl FlowError {
    /// Creates a failure. The message is shown to the owner of the session.
    pub fn new(message: impl Into<String>) -> Self {
        Self::caused(message.into(), Vec::new())
    }

    /// Creates a failure with the messages of what caused it, the nearest first.
    pub(crate) fn caused(message: String, causes: Vec<String>) -> Self {
        Self(Reason::Failed { message, causes })
    }

    /// Creates a decline: the flow completed without doing its work, and without a fault.
    pub fn declined(summary: impl Into<String>) -> Self {
        Self(Reason::Declined(summary.into()))
    }

    /// Returns the messages of the errors that caused it, the nearest first.
    pub fn causes(&self) -> &[String] {
        match &self.0 {
            Reason::Declined(_) => &[],
            Reason::Failed { causes, .. } => causes,
            Reason::Fault(fault) => &fault.causes,
        }
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
            Reason::Declined(text) | Reason::Failed { message: text, .. } => {
                formatter.write_str(text)
            }
            Reason::Fault(fault) => fault.fmt(formatter),
        }
    }
}

impl<E: Error> From<E> for FlowError {
    fn from(error: E) -> Self {
        let causes = std::iter::successors(error.source(), |&cause| cause.source());
        Self::caused(error.to_string(), causes.map(ToString::to_string).collect())
    }
}

/// Converts to an error that a step can return, with its causes.
impl From<FlowError> for Box<dyn Error + Send + Sync> {
    fn from(error: FlowError) -> Self {
        let mut source = None;
        for message in error.causes().iter().rev() {
            source = Some(Box::new(Cause { message: message.clone(), source }));
        }
        Box::new(Cause { message: error.to_string(), source })
    }
}

/// Error of a flow inside of a step.
#[derive(Debug)]
struct Cause {
    message: String,
    source: Option<Box<Cause>>,
}

impl fmt::Display for Cause {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl Error for Cause {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|cause| cause as _)
    }
}
