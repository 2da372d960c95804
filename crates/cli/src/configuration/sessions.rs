//! `[sessions]`: timeouts and number of sessions.

use std::time::Duration;

use mcp_flow::engine;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Problems;

/// Timeouts and number of sessions. Flows that set their own wait are not affected.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct SessionsSection {
    /// Seconds that a flow started with `interaction.start` waits for an answer, unless its client
    /// sets a wait.
    #[schemars(range(min = 1))]
    pub(crate) wait_seconds: u64,
    /// Seconds that a flow called with `tools/call` waits for an answer.
    #[schemars(range(min = 1))]
    pub(crate) call_wait_seconds: u64,
    /// Longest wait that a client can set, in seconds; longer ones are reduced to it.
    #[schemars(range(min = 1))]
    pub(crate) longest_wait_seconds: u64,
    /// Longest duration of a session, in seconds.
    #[schemars(range(min = 1))]
    pub(crate) duration_seconds: u64,
    /// Most sessions and tasks of one principal that have not ended; anonymous callers are one
    /// principal.
    #[schemars(range(min = 1))]
    pub(crate) per_owner: usize,
}

impl Default for SessionsSection {
    fn default() -> Self {
        Self {
            wait_seconds: 5 * 60,
            call_wait_seconds: DAY,
            longest_wait_seconds: DAY,
            duration_seconds: 7 * DAY,
            per_owner: 1_000,
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
            ("per_owner", self.per_owner.try_into().unwrap_or(u64::MAX)),
        ];
        for (key, _) in keys.into_iter().filter(|(_, value)| *value == 0) {
            problems.add(&["sessions", key], format!("sessions.{key} must be at least 1"));
        }
    }

    /// Returns the wait of flows that are called as tools.
    pub(crate) fn call_wait(&self) -> Duration {
        Duration::from_secs(self.call_wait_seconds)
    }

    /// Sets the timeouts and the number in the limits of the engine.
    pub(crate) fn limits(&self, limits: engine::SessionLimits) -> engine::SessionLimits {
        engine::SessionLimits {
            inactivity: Some(Duration::from_secs(self.wait_seconds)),
            longest_inactivity: Duration::from_secs(self.longest_wait_seconds),
            duration: Some(Duration::from_secs(self.duration_seconds)),
            sessions_per_owner: self.per_owner,
            ..limits
        }
    }
}

const DAY: u64 = 24 * 60 * 60;
