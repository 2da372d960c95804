//! How the program ends, as scripts see it.

use std::fmt;
use std::process::ExitCode;

/// The exit codes; `--help` lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The tool, the session or the server of this process failed.
    Failed = 1,
    /// The command line is wrong, or something it needs is missing.
    Usage = 2,
    /// Nobody answers at the target.
    Unreachable = 3,
    /// What answers does not keep to the protocol, or refused the request.
    Protocol = 4,
    /// The server does not let this client in, or a person said no.
    Denied = 5,
    /// The user pressed ctrl-c.
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// An error that knows its exit code; every other one ends in [`Exit::Failed`].
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    message: String,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into() }
    }

    /// The exit code of any error.
    pub(crate) fn exit_of(error: &anyhow::Error) -> Exit {
        let known = error.chain().find_map(|cause| cause.downcast_ref::<Self>());
        known.map_or(Exit::Failed, |failure| failure.exit)
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
    fn an_error_keeps_its_exit_code_whatever_is_said_around_it() {
        let denied = || Failure::new(Exit::Denied, "the server wants a token");
        for (error, exit) in [
            (anyhow::anyhow!("something broke"), Exit::Failed),
            (denied().into(), Exit::Denied),
            (Err::<(), _>(denied()).context("asked").unwrap_err(), Exit::Denied),
        ] {
            assert_eq!(Failure::exit_of(&error), exit, "{error:#}");
        }
    }
}
