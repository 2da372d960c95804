//! Limits of sessions.

use std::time::Duration;

use mcp_flow_rate::Rate;
use mcp_flow_session::session::Bounds;

/// Limits of sessions. The defaults are those of the protocol, and safe on an open network.
#[derive(Clone, Debug)]
pub struct SessionLimits {
    /// Bounds on the size of one session.
    pub bounds: Bounds,
    /// Inactivity timeout of sessions whose start and flow set none. Defaults to 5 minutes
    /// (INT-071).
    pub inactivity: Option<Duration>,
    /// Longest inactivity timeout a start may set; longer ones are capped (INT-023). Defaults to a
    /// day.
    pub longest_inactivity: Duration,
    /// Longest duration of a session. Defaults to a week (INT-109).
    pub duration: Option<Duration>,
    /// Timeout of one operation of a flow. Defaults to 5 minutes (INT-083).
    pub operation: Duration,
    /// Time between the expiry warning and the deadline, at most a quarter of the inactivity
    /// timeout. Defaults to a minute (INT-073).
    pub warning: Duration,
    /// Most live sessions of one owner. Defaults to 1,000 (INT-108).
    pub sessions_per_owner: usize,
    /// Rate of answers to one session. Defaults to no limit (INT-107).
    pub rate: Option<Rate>,
    /// Most sessions in memory. Defaults to 4,096.
    pub live: usize,
    /// Time that an idle session stays in memory. Defaults to 10 seconds. With zero every turn
    /// replays the journal, which tests that a flow can be replayed.
    pub linger: Duration,
    /// Most bytes of parameters and context of a start. Defaults to 256 KiB.
    pub params: usize,
    /// Most bytes of metadata of an answer. Defaults to 4 KiB.
    pub metadata: usize,
    /// Most tombstones of ended sessions. Defaults to 100,000 (C-11).
    pub tombstones: usize,
}

impl Default for SessionLimits {
    fn default() -> Self {
        Self {
            bounds: Bounds::default(),
            inactivity: Some(Duration::from_secs(5 * 60)),
            longest_inactivity: DAY,
            duration: Some(7 * DAY),
            operation: Duration::from_secs(5 * 60),
            warning: Duration::from_secs(60),
            sessions_per_owner: 1_000,
            rate: None,
            live: 4_096,
            linger: Duration::from_secs(10),
            params: 256 * 1024,
            metadata: 4 * 1024,
            tombstones: 100_000,
        }
    }
}

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
