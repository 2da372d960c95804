//! Streams that have arrived, or failed, and were not opened yet.

use std::collections::HashMap;
use std::time::Duration;

use mcp_flow_proto::webtransport::StreamHeader;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::stream::{IncomingStream, StreamEnded};

/// The unopened streams of one session. Their number is bounded by the limit on open streams.
#[derive(Debug, Default)]
pub(super) struct UnopenedStreams {
    streams: Mutex<HashMap<StreamHeader, (Outcome, Instant)>>,
    arrived: Notify,
}

/// A stream, or the reason there is none.
type Outcome = Result<IncomingStream, StreamEnded>;

impl UnopenedStreams {
    pub(super) fn insert(&self, stream: StreamHeader, outcome: Outcome) {
        self.streams().insert(stream, (outcome, Instant::now() + OPEN_TIMEOUT));
        self.arrived.notify_waiters();
    }

    /// Waits for a stream and removes it.
    pub(super) async fn take(&self, stream: StreamHeader) -> Outcome {
        loop {
            let mut arrived = std::pin::pin!(self.arrived.notified());
            // Registered before the check, so that no arrival is missed.
            arrived.as_mut().enable();
            if let Some((stream, _)) = self.streams().remove(&stream) {
                return stream;
            }
            arrived.await;
        }
    }

    /// Drops streams that were not opened in time, because they count towards the limit. Never
    /// returns.
    pub(super) async fn expire(&self) {
        loop {
            let next = self.streams().values().map(|(_, until)| *until).min();
            // Streams that arrive later expire later than this.
            tokio::time::sleep_until(next.unwrap_or_else(|| Instant::now() + OPEN_TIMEOUT)).await;
            let now = Instant::now();
            self.streams().retain(|_, (_, until)| *until > now);
        }
    }

    fn streams(&self) -> MutexGuard<'_, HashMap<StreamHeader, (Outcome, Instant)>> {
        self.streams.lock()
    }
}

/// Time limit for a stream to be opened.
const OPEN_TIMEOUT: Duration = Duration::from_secs(60);
