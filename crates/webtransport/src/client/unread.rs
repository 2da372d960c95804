//! Streams that have come, or failed to, and that nobody has opened yet.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mcp_flow_proto::webtransport::StreamHeader;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::stream::{IncomingStream, StreamEnded};

/// As many of them as may be open at once.
#[derive(Debug, Default)]
pub(super) struct Unread {
    waiting: Mutex<HashMap<StreamHeader, (Outcome, Instant)>>,
    arrived: Notify,
}

/// A stream, or why there is none.
type Outcome = Result<IncomingStream, StreamEnded>;

impl Unread {
    pub(super) fn put(&self, stream: StreamHeader, outcome: Outcome) {
        self.waiting().insert(stream, (outcome, Instant::now() + KEPT));
        self.arrived.notify_waiters();
    }

    /// Waits for a stream, and takes it.
    pub(super) async fn take(&self, stream: StreamHeader) -> Outcome {
        loop {
            let mut arrived = std::pin::pin!(self.arrived.notified());
            // One that comes between looking and waiting is not missed.
            arrived.as_mut().enable();
            if let Some((stream, _)) = self.waiting().remove(&stream) {
                return stream;
            }
            arrived.await;
        }
    }

    /// Lets go of those that nobody has opened for so long that nobody will: they take the places
    /// of others. Never ends.
    pub(super) async fn tidy(&self) {
        loop {
            let next = self.waiting().values().map(|(_, until)| *until).min();
            // Those that come later are kept for longer than this.
            tokio::time::sleep_until(next.unwrap_or_else(|| Instant::now() + KEPT)).await;
            let now = Instant::now();
            self.waiting().retain(|_, (_, until)| *until > now);
        }
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<StreamHeader, (Outcome, Instant)>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long a stream is kept for someone to open it.
const KEPT: Duration = Duration::from_secs(60);
