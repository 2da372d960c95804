//! How often each server may do something (PAT-055).

use std::time::Instant;

use mcp_flow_rate::{Buckets, Rate};

/// Counts by server.
#[derive(Debug)]
pub(super) struct Limiter {
    rate: Rate,
    servers: Buckets<String>,
}

impl Limiter {
    pub(super) fn new(rate: Rate) -> Self {
        Self { rate, servers: Buckets::default() }
    }

    /// Counts one more, if there may be.
    pub(super) fn admits(&self, server: &str) -> bool {
        self.servers.take(server, self.rate, Instant::now()).is_ok()
    }
}
