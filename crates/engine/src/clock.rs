//! Source of the current time.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use mcp_flow_session::Timestamp;

/// Source of the current time; tests use one they can set.
pub trait Clock: Send + Sync + fmt::Debug + 'static {
    /// Returns the wall-clock time. It may jump in either direction; sessions never go back in
    /// time.
    fn now(&self) -> Timestamp;
}

/// Clock of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }
}
