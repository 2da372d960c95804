//! A received execution stream.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mcp_flow_proto::webtransport::StreamHeader;
use tokio::sync::SetOnce;
use tokio::time::timeout;
use web_transport_quinn::{ReadError, RecvStream};

use super::tracker::StreamTracker;

/// An execution stream of a request in flight. Dropping it stops the stream at the server.
#[derive(Debug)]
pub struct IncomingStream {
    header: StreamHeader,
    stream: RecvStream,
    /// Payload that arrived along with the header.
    buffered: Bytes,
    tracker: Option<Arc<StreamTracker>>,
    failed: StreamFailure,
    is_finished: bool,
}

/// Reason a stream has failed, set by `$/streamError`.
pub(super) type StreamFailure = Arc<SetOnce<String>>;

/// A stream ended prematurely.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StreamEnded {
    /// The server gave it up and reported the reason by `$/streamError` (WT-049).
    #[error("the server gave up the stream: {0}")]
    Failed(String),
    /// It was reset without a reason.
    #[error("the stream was cut off: {0}")]
    CutOff(#[from] ReadError),
}

impl IncomingStream {
    pub(super) fn new(
        header: StreamHeader,
        stream: RecvStream,
        buffered: Bytes,
        tracker: Arc<StreamTracker>,
    ) -> Self {
        let failed = StreamFailure::default();
        Self { header, stream, buffered, tracker: Some(tracker), failed, is_finished: false }
    }

    /// Returns the slot for the reason of a failure.
    pub(super) fn failure(&self) -> StreamFailure {
        self.failed.clone()
    }

    /// Returns the request number and tag of the stream.
    pub fn header(&self) -> StreamHeader {
        self.header
    }

    /// Reads the next chunk; `None` at the end. A stream the server has given up fails at once,
    /// even if data is buffered.
    pub async fn next(&mut self) -> Result<Option<Bytes>, StreamEnded> {
        let chunk = tokio::select! {
            biased;
            reason = self.failed.wait() => return Err(StreamEnded::Failed(reason.clone())),
            chunk = read(&mut self.buffered, &mut self.stream) => chunk,
        };
        if !matches!(chunk, Ok(Some(_))) {
            self.is_finished = true;
        }
        match chunk {
            Err(error @ (ReadError::Reset(_) | ReadError::InvalidReset(_))) => {
                // The reason arrives on the control stream, perhaps a moment later.
                match timeout(REASON_TIMEOUT, self.failed.wait()).await {
                    Ok(reason) => Err(StreamEnded::Failed(reason.clone())),
                    Err(_) => Err(error.into()),
                }
            }
            chunk => Ok(chunk?),
        }
    }

    /// Rejects the stream, so that dropping it is not recorded as its end.
    pub(super) fn reject(&mut self) {
        self.tracker = None;
    }
}

async fn read(buffered: &mut Bytes, stream: &mut RecvStream) -> Result<Option<Bytes>, ReadError> {
    if !buffered.is_empty() {
        return Ok(Some(std::mem::take(buffered)));
    }
    Ok(stream.read_chunk(CHUNK_SIZE, true).await?.map(|chunk| chunk.bytes))
}

impl Drop for IncomingStream {
    fn drop(&mut self) {
        if !self.is_finished {
            let _ = self.stream.stop(UNWANTED);
        }
        if let Some(tracker) = &self.tracker {
            tracker.record_end(self.header);
        }
    }
}

/// Time limit for the reason of a reset to arrive.
const REASON_TIMEOUT: Duration = Duration::from_secs(1);

/// Maximum size of a chunk, in bytes.
const CHUNK_SIZE: usize = 256 * 1024;

/// The stop code of streams that are not read.
const UNWANTED: u32 = 3;
