//! Keys for message signing, read from files or environment variables only (MCP-073).

use std::path::{Path, PathBuf};

use mcp_flow::seal::{KeyRing, file};

use crate::exit::{Exit, Failure};

/// Message signing options of commands that connect to a server.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct SigningOptions {
    /// Sign messages with the first key in this file, and require server messages to be signed with
    /// any of its keys
    ///
    /// `mcp-flow config key` generates a key. Alternatively, set MCP_FLOW_SIGNING_KEY to the key.
    #[arg(long, value_name = "FILE", env = KEY_FILE, global = true)]
    #[arg(help_heading = "Authentication")]
    signing_key_file: Option<PathBuf>,
}

impl SigningOptions {
    /// The options as they are typed, unless they are in the environment.
    pub(super) fn command_line(&self) -> String {
        match &self.signing_key_file {
            Some(path) if std::env::var_os(KEY_FILE).as_deref() != Some(path.as_os_str()) => {
                format!(" --signing-key-file {}", path.display())
            }
            _ => String::new(),
        }
    }

    /// Reads the keys; none if signing is not configured.
    pub(crate) fn signing(&self) -> anyhow::Result<Option<mcp_flow::client::Signing>> {
        let ring = match &self.signing_key_file {
            Some(path) => Some(from_file(path)?),
            None if std::env::var_os(KEY).is_some_and(|text| !text.is_empty()) => {
                Some(from_environment(KEY)?)
            }
            None => None,
        };
        Ok(ring.as_ref().map(mcp_flow::client::Signing::new))
    }
}

/// Reads keys from a file that only its owner can read.
pub(crate) fn from_file(path: &Path) -> anyhow::Result<KeyRing> {
    Ok(file::load(path)?)
}

/// Reads keys from an environment variable.
pub(crate) fn from_environment(name: &str) -> anyhow::Result<KeyRing> {
    let problem = |problem: &str| {
        let message = format!("environment variable {name}: {problem}");
        anyhow::Error::from(Failure::new(Exit::Usage, message))
    };
    let text = std::env::var(name)
        .map_err(|_| problem("not set; set it to a key, which `mcp-flow config key` generates"))?;
    text.parse().map_err(|bad: mcp_flow::seal::BadKeys| problem(&bad.to_string()))
}

/// Environment variable with the path of a file of signing keys.
const KEY_FILE: &str = "MCP_FLOW_SIGNING_KEY_FILE";

/// Environment variable with the signing key of a client.
const KEY: &str = "MCP_FLOW_SIGNING_KEY";
