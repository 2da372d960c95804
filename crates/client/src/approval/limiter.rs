//! Rate limits per server (PAT-055).

use std::time::Instant;

use mcp_flow_rate::{Buckets, Rate};

/// Rate limiter with a token bucket for each server.
#[derive(Debug)]
pub(super) struct Limiter {
    rate: Rate,
    servers: Buckets<String>,
}

impl Limiter {
    pub(super) fn new(rate: Rate) -> Self {
        Self { rate, servers: Buckets::default() }
    }

    /// Takes a token; false if the server has exceeded its rate.
    pub(super) fn allows(&self, server: &str) -> bool {
        self.servers.take(server, self.rate, Instant::now()).is_ok()
    }
}
