//! Exit codes, and errors that carry one.

use std::fmt;
use std::process::ExitCode;

/// Exit code of the program; `--help` lists them all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The tool, the session or the server of this process failed.
    Failed = 1,
    /// The command line is wrong, or something it needs is missing.
    Usage = 2,
    /// The server cannot be reached.
    Unreachable = 3,
    /// The server violated the protocol or rejected the request.
    Protocol = 4,
    /// Authentication or authorization failed, or the user denied the request.
    Denied = 5,
    /// The user pressed ctrl-c.
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Error with an exit code. Errors of other types exit with [`Exit::Failed`].
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    message: String,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into() }
    }

    /// Returns the exit code of any error.
    pub(crate) fn exit_of(error: &anyhow::Error) -> Exit {
        let failure = error.chain().find_map(|cause| cause.downcast_ref::<Self>());
        failure.map_or(Exit::Failed, |failure| failure.exit)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::{Exit, Failure};

    #[test]
    fn added_context_keeps_the_exit_code() {
        let denied = || Failure::new(Exit::Denied, "the server requires a token");
        for (error, exit) in [
            (anyhow::anyhow!("something broke"), Exit::Failed),
            (denied().into(), Exit::Denied),
            (Err::<(), _>(denied()).context("asked").unwrap_err(), Exit::Denied),
        ] {
            assert_eq!(Failure::exit_of(&error), exit, "{error:#}");
        }
    }
}
