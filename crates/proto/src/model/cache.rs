//! Caching hints of results, since 2026-07-28.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Caching of a result: its duration, and who may share it.
///
/// ```
/// use std::time::Duration;
/// use mcp_flow_proto::model::{CacheHint, CacheScope};
///
/// let hint = CacheHint::public(Duration::from_secs(60));
/// assert_eq!((hint.ttl_ms(), hint.scope), (60_000, CacheScope::Public));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheHint {
    /// Time for which the result is fresh; none if it is stale at once.
    pub ttl: Duration,
    /// Callers that may share it.
    pub scope: CacheScope,
}

/// Callers that may share a cached result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CacheScope {
    /// Only requests with the same authorization.
    Private,
    /// Everyone: the result is the same for all callers.
    Public,
}

impl CacheHint {
    /// Allows a result to be cached for one authorization context.
    pub const fn private(ttl: Duration) -> Self {
        Self { ttl, scope: CacheScope::Private }
    }

    /// Allows a result to be cached and shared between callers.
    pub const fn public(ttl: Duration) -> Self {
        Self { ttl, scope: CacheScope::Public }
    }

    /// The lifetime in milliseconds.
    pub fn ttl_ms(self) -> u64 {
        u64::try_from(self.ttl.as_millis()).unwrap_or(u64::MAX).min(MAX_SAFE_INTEGER)
    }
}

impl CacheScope {
    /// The name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Private => "private",
            Self::Public => "public",
        }
    }
}

/// The largest integer that every JSON implementation reads exactly.
const MAX_SAFE_INTEGER: u64 = (1 << 53) - 1;
