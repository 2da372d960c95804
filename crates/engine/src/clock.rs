//! What time it is.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use mcp_flow_session::Timestamp;

/// Says what time it is. Tests bring one that stands still.
pub trait Clock: Send + Sync + fmt::Debug + 'static {
    /// The time by the calendar. It may jump, also backwards; sessions cope.
    fn now(&self) -> Timestamp;
}

/// The clock of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }
}
