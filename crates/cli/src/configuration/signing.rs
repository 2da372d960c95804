//! `[signing]`: keys for message signing.

use std::path::{Path, PathBuf};
use std::time::Duration;

use mcp_flow::Signing;
use mcp_flow::seal::KeyRing;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Problems, resolve_path};
use crate::client::signing::{from_environment, from_file};

/// Message signing with a key shared with mcp-flow clients. With a key, unsigned messages are
/// rejected; without one, nothing is signed.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct SigningSection {
    /// File of keys, one per line, readable by its owner only. The first key signs; all verify.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) key_file: Option<PathBuf>,
    /// Environment variable with the keys, instead of `key_file`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) key_env: Option<String>,
    /// Allowed clock difference between client and server, in seconds.
    #[schemars(range(min = 1, max = 3600))]
    pub(crate) window_seconds: u64,
}

impl Default for SigningSection {
    fn default() -> Self {
        Self { key_file: None, key_env: None, window_seconds: Signing::WINDOW.as_secs() }
    }
}

impl SigningSection {
    pub(super) fn check(&self, problems: &mut Problems<'_>) {
        if self.key_file.is_some() && self.key_env.is_some() {
            problems.add(
                &["signing", "key_env"],
                "signing.key_file and signing.key_env are mutually exclusive",
            );
        }
        if !(1..=3600).contains(&self.window_seconds) {
            let problem = "signing.window_seconds must be from 1 to 3600";
            problems.add(&["signing", "window_seconds"], problem);
        }
    }

    pub(super) fn resolve(&mut self, folder: &Path) {
        if let Some(path) = &mut self.key_file {
            resolve_path(path, folder);
        }
    }

    /// Reads the keys; none if signing is not configured.
    pub(crate) fn keys(&self) -> anyhow::Result<Option<KeyRing>> {
        match (&self.key_file, &self.key_env) {
            (Some(path), _) => from_file(path).map(Some),
            (None, Some(name)) => from_environment(name).map(Some),
            (None, None) => Ok(None),
        }
    }

    /// Returns the signing settings; none if signing is not configured.
    pub(crate) fn signing(&self) -> anyhow::Result<Option<Signing>> {
        let window = Duration::from_secs(self.window_seconds);
        Ok(self.keys()?.map(|ring| Signing::within(&ring, window)))
    }
}
