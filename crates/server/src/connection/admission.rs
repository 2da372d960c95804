//! Admission of requests: memory, observers, request rates.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mcp_flow_proto::error::{OVERLOADED, RATE_LIMITED};
use mcp_flow_proto::{RpcError, method};
use mcp_flow_rate::{Bucket, Rate};
use parking_lot::Mutex;

use super::{Connection, ConnectionInner, Route};

/// The rate-limit bucket of one connection.
#[derive(Debug, Default)]
pub(super) struct ConnectionRate(Mutex<Option<Bucket>>);

impl ConnectionRate {
    fn take(&self, rate: Rate, now: Instant) -> Result<(), Duration> {
        self.0.lock().get_or_insert_with(|| Bucket::full(rate, now)).take(rate, now)
    }
}

/// Checks that a request may begin; the error says when to retry. `shutdown` always may.
pub(super) fn check(
    connection: &ConnectionInner,
    method: &str,
    route: &Route,
) -> Result<(), RpcError> {
    if method == method::SHUTDOWN {
        return Ok(());
    }
    check_memory(connection, method)?;
    if method != method::PING && !connection.server.can_be_observed() {
        return Err(RpcError::new(OVERLOADED)
            .retry_after(Duration::from_secs(1))
            .details("Calls cannot be recorded at the moment; retry as retryAfterMs says."));
    }
    let limits = &connection.limits;
    if limits.session_rate.is_none() && limits.principal_rate.is_none() {
        return Ok(());
    }
    let now = Instant::now();
    if let Some(rate) = limits.session_rate {
        connection.rate.take(rate, now).map_err(|wait| rate_limited("session", wait))?;
    }
    if let Some(rate) = limits.principal_rate {
        let name = connection.principal_of(route).name();
        let rate = connection.server.share_of(rate);
        let taken = connection.server.rates().take(name, rate, now);
        taken.map_err(|wait| rate_limited("principal", wait))?;
    }
    Ok(())
}

/// Checks that there is memory for another request. A ping needs none, and shows that the server is
/// alive.
pub(super) fn check_memory(connection: &ConnectionInner, method: &str) -> Result<(), RpcError> {
    let is_free = connection.server.load().bytes() <= connection.limits.memory;
    if is_free || method == method::PING { Ok(()) } else { Err(RpcError::overloaded()) }
}

/// Memory accounting of the incomplete frames that a transport holds.
#[derive(Debug)]
pub struct PartialFrames(Arc<ConnectionInner>);

impl Connection {
    /// Returns the memory accounting of incomplete frames, for the transport.
    pub fn partial_frames(&self) -> PartialFrames {
        PartialFrames(self.inner.clone())
    }
}

impl PartialFrames {
    /// Sets the number of bytes held, and returns whether there is memory for them. If not, the
    /// transport should read no more of these frames.
    pub fn may_hold(&self, bytes: usize) -> bool {
        self.0.partial_frames.set(bytes);
        self.0.server.load().has_room_for(bytes, self.0.limits.memory)
    }

    /// Adds to the number of bytes held, and returns whether there is memory for them.
    pub fn may_hold_more(&self, bytes: usize) -> bool {
        self.0.partial_frames.add(bytes);
        self.0.server.load().has_room_for(self.0.partial_frames.bytes(), self.0.limits.memory)
    }
}

fn rate_limited(scope: &str, wait: Duration) -> RpcError {
    RpcError::new(RATE_LIMITED)
        .retry_after(wait)
        .with("reason", "rate")
        .with("scope", scope)
        .details("Requests come faster than is allowed; wait as long as retryAfterMs says.")
}
