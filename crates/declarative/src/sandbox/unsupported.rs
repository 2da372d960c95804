//! Launcher on other systems: refuses, so that no program runs without its sandbox.

use std::ffi::OsString;
use std::process::ExitCode;

use super::SandboxRules;

/// Fails.
pub(super) fn launch(
    _: &SandboxRules,
    _: impl Iterator<Item = OsString>,
) -> Result<ExitCode, String> {
    Err("sandboxes are only available on Linux".to_owned())
}
