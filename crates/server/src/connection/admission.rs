//! Whether a request may begin: how often its caller has asked, and how much all hold already.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use mcp_flow_proto::error::{OVERLOADED, RATE_LIMITED};
use mcp_flow_proto::{RpcError, method};
use mcp_flow_rate::{Bucket, Rate};

use super::{Connection, Route, Shared};

/// What is left of the rate of one connection.
#[derive(Debug, Default)]
pub(super) struct Session(Mutex<Option<Bucket>>);

impl Session {
    fn take(&self, rate: Rate, now: Instant) -> Result<(), Duration> {
        let mut bucket = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        bucket.get_or_insert_with(|| Bucket::full(rate, now)).take(rate, now)
    }
}

impl Shared {
    /// Lets a request begin, or says when it may be tried again. Leaving is always free.
    pub(super) fn admit(&self, method: &str, route: &Route) -> Result<(), RpcError> {
        if method == method::SHUTDOWN {
            return Ok(());
        }
        self.has_room(method)?;
        if method != method::PING && !self.server.can_be_observed() {
            return Err(RpcError::new(OVERLOADED).retry_after(Duration::from_secs(1)).details(
                "What is done here cannot be written down at the moment; try again in a moment.",
            ));
        }
        let (session, principal) = (self.limits.session_rate, self.limits.principal_rate);
        if session.is_none() && principal.is_none() {
            return Ok(());
        }
        let now = Instant::now();
        if let Some(rate) = session {
            self.session.take(rate, now).map_err(|wait| too_often("session", wait))?;
        }
        if let Some(rate) = principal {
            let name = self.principal_of(route).name();
            let taken = self.server.rates().take(name, rate, now);
            taken.map_err(|wait| too_often("principal", wait))?;
        }
        Ok(())
    }

    /// Whether there is memory for another request. A ping costs none, and tells that the server
    /// is there.
    pub(super) fn has_room(&self, method: &str) -> Result<(), RpcError> {
        if self.server.load().bytes() <= self.limits.memory || method == method::PING {
            return Ok(());
        }
        Err(RpcError::overloaded())
    }
}

/// How much of a frame a transport holds that is not whole yet.
#[derive(Debug)]
pub struct PartialFrames(Arc<Shared>);

impl Connection {
    /// For a transport to say how much it holds of frames that are not whole yet.
    pub fn partial_frames(&self) -> PartialFrames {
        PartialFrames(self.shared.clone())
    }
}

impl PartialFrames {
    /// Whether there is memory for frames of which so much has come. If not, the transport should
    /// read no more of them.
    pub fn may_hold(&self, bytes: usize) -> bool {
        self.0.partial_frames.set(bytes);
        self.0.server.load().has_room_for(bytes, self.0.limits.memory)
    }

    /// The same when so much more has come.
    pub fn may_hold_more(&self, bytes: usize) -> bool {
        self.0.partial_frames.add(bytes);
        self.0.server.load().has_room_for(self.0.partial_frames.bytes(), self.0.limits.memory)
    }
}

fn too_often(whose: &str, wait: Duration) -> RpcError {
    RpcError::new(RATE_LIMITED)
        .retry_after(wait)
        .with("reason", "rate")
        .with("scope", whose)
        .details("Requests come faster than is allowed; wait as long as retryAfterMs says.")
}
