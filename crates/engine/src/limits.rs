//! How much sessions may take.

use std::time::Duration;

use mcp_flow_rate::Rate;
use mcp_flow_session::session::Bounds;

/// How much sessions may take. The defaults are those of the protocol, and safe for strangers.
#[derive(Clone, Debug)]
pub struct Limits {
    /// How much one session may hold.
    pub bounds: Bounds,
    /// Time that a session waits for an answer if neither its start nor its flow says. 5 minutes
    /// (INT-071).
    pub inactivity: Option<Duration>,
    /// The longest wait a start may ask for; more is cut to this (INT-023). A day.
    pub longest_inactivity: Duration,
    /// Time that a session may take altogether. A week (INT-109).
    pub duration: Option<Duration>,
    /// How long one operation of a flow may take. 5 minutes (INT-083).
    pub operation: Duration,
    /// How long before the end of its wait an owner is warned, at most: never more than a quarter
    /// of the wait. A minute (INT-073).
    pub warning: Duration,
    /// The most live sessions of one owner. 1,000 (INT-108).
    pub sessions_per_owner: usize,
    /// How often one session may be written to; no limit if None (INT-107).
    pub rate: Option<Rate>,
    /// The most sessions held in memory, at work or lingering. 4,096.
    pub live: usize,
    /// How long a flow that waits stays in memory, ready to go on at once. 10 seconds. With zero
    /// every turn replays those before it, which shows whether a flow can be replayed at all.
    pub linger: Duration,
    /// The most bytes of parameters and context a session may be started with. 256 KiB.
    pub params: usize,
    /// The most bytes of what a client wants kept with an answer. 4 KiB.
    pub metadata: usize,
    /// The most ends of sessions that are remembered. 100,000 (C-11).
    pub tombstones: usize,
}

impl Default for Limits {
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
