//! The keys that messages are signed with: in files or environment variables, and nowhere else
//! (MCP-073).

use std::path::{Path, PathBuf};

use mcp_flow::seal::{KeyRing, file};

use crate::exit::{Exit, Failure};

/// What commands that speak to a server say of signatures.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct SigningOptions {
    /// Sign messages with the first key of this file, and accept only messages that the server has
    /// signed with one of them
    ///
    /// `mcp-flow config key` makes one. Without this the key is in the environment variable
    /// MCP_FLOW_SIGNING_KEY, if there is to be one.
    #[arg(long, value_name = "FILE", env = "MCP_FLOW_SIGNING_KEY_FILE", global = true)]
    signing_key_file: Option<PathBuf>,
}

impl SigningOptions {
    /// How messages are signed, if they are.
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

/// The keys of a file that only its owner can read.
pub(crate) fn from_file(path: &Path) -> anyhow::Result<KeyRing> {
    Ok(file::load(path)?)
}

/// The keys of an environment variable.
pub(crate) fn from_environment(name: &str) -> anyhow::Result<KeyRing> {
    let problem = |problem: &str| {
        let message = format!("the environment variable {name}: {problem}");
        anyhow::Error::from(Failure::new(Exit::Usage, message))
    };
    let text = std::env::var(name).map_err(|_| {
        problem("it is not set; set it to the key, as `mcp-flow config key` makes it")
    })?;
    text.parse().map_err(|bad: mcp_flow::seal::BadKeys| problem(&bad.to_string()))
}

/// The variable that holds the key of a client.
const KEY: &str = "MCP_FLOW_SIGNING_KEY";
