//! `[sessions]`: how long conversations wait and last.

use std::time::Duration;

use mcp_flow::engine;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Problems;

/// How long conversations wait for an answer, and how long they may take altogether. Flows that say
/// themselves how long they wait are not affected.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct SessionsSection {
    /// How many seconds a flow that is started by `interaction.start` waits for an answer, if its
    /// client does not say.
    #[schemars(range(min = 1))]
    pub(crate) wait_seconds: u64,
    /// How many seconds a flow that is called by `tools/call` waits for an answer.
    #[schemars(range(min = 1))]
    pub(crate) call_wait_seconds: u64,
    /// The longest wait a client can ask for, in seconds; more is cut to this.
    #[schemars(range(min = 1))]
    pub(crate) longest_wait_seconds: u64,
    /// How many seconds a conversation may take altogether.
    #[schemars(range(min = 1))]
    pub(crate) duration_seconds: u64,
}

impl Default for SessionsSection {
    fn default() -> Self {
        Self {
            wait_seconds: 5 * 60,
            call_wait_seconds: DAY,
            longest_wait_seconds: DAY,
            duration_seconds: 7 * DAY,
        }
    }
}

impl SessionsSection {
    pub(super) fn check(&self, problems: &mut Problems<'_>) {
        let keys = [
            ("wait_seconds", self.wait_seconds),
            ("call_wait_seconds", self.call_wait_seconds),
            ("longest_wait_seconds", self.longest_wait_seconds),
            ("duration_seconds", self.duration_seconds),
        ];
        for (key, _) in keys.into_iter().filter(|(_, seconds)| *seconds == 0) {
            problems.add(&["sessions", key], format!("sessions.{key} must be a number from 1"));
        }
    }

    /// How long flows wait that are called as tools.
    pub(crate) fn call_wait(&self) -> Duration {
        Duration::from_secs(self.call_wait_seconds)
    }

    /// Limits of the engine with these times in them.
    pub(crate) fn limits(&self, limits: engine::SessionLimits) -> engine::SessionLimits {
        engine::SessionLimits {
            inactivity: Some(Duration::from_secs(self.wait_seconds)),
            longest_inactivity: Duration::from_secs(self.longest_wait_seconds),
            duration: Some(Duration::from_secs(self.duration_seconds)),
            ..limits
        }
    }
}

const DAY: u64 = 24 * 60 * 60;
