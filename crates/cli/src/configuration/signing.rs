//! `[signing]`: messages that are signed at both ends.

use std::path::{Path, PathBuf};
use std::time::Duration;

use mcp_flow::Signing;
use mcp_flow::seal::KeyRing;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Problems, resolved};
use crate::signing::{from_environment, from_file};

/// Messages that are signed with a key shared with clients of our own. Without a key nothing is
/// signed; with one, what is not signed is refused.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct SigningSection {
    /// A file of keys, one a line, that only its owner can read: the first signs, all are believed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) key_file: Option<PathBuf>,
    /// The environment variable that holds the keys, in place of `key_file`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) key_env: Option<String>,
    /// How many seconds the clocks of the two ends may differ.
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
            problems.add(&["signing", "key_env"], "signing: set key_file or key_env, not both");
        }
        if !(1..=3600).contains(&self.window_seconds) {
            let problem = "signing.window_seconds must be from 1 to 3600";
            problems.add(&["signing", "window_seconds"], problem);
        }
    }

    pub(super) fn resolve(&mut self, folder: &Path) {
        if let Some(path) = &mut self.key_file {
            resolved(path, folder);
        }
    }

    /// The keys, where there are any.
    pub(crate) fn keys(&self) -> anyhow::Result<Option<KeyRing>> {
        match (&self.key_file, &self.key_env) {
            (Some(path), _) => from_file(path).map(Some),
            (None, Some(name)) => from_environment(name).map(Some),
            (None, None) => Ok(None),
        }
    }

    /// How messages are signed, where they are.
    pub(crate) fn signing(&self) -> anyhow::Result<Option<Signing>> {
        let window = Duration::from_secs(self.window_seconds);
        Ok(self.keys()?.map(|ring| Signing::within(&ring, window)))
    }
}
