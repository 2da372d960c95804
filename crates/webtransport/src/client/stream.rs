//! One execution stream, as it is read.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mcp_flow_proto::webtransport::StreamHeader;
use tokio::sync::SetOnce;
use tokio::time::timeout;
use web_transport_quinn::{ReadError, RecvStream};

use super::books::Books;

/// A stream of a call in flight. Dropping it tells the server that it is not wanted.
#[derive(Debug)]
pub struct IncomingStream {
    header: StreamHeader,
    stream: RecvStream,
    /// What came along with the header.
    begun: Bytes,
    books: Option<Arc<Books>>,
    failed: StreamFailure,
    is_over: bool,
}

/// Reason a stream has failed, once `$/streamError` has named it.
pub(super) type StreamFailure = Arc<SetOnce<String>>;

/// A stream ended before everything was on it.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StreamEnded {
    /// The server has given it up and said why, by `$/streamError` (WT-049).
    #[error("the server gave up the stream: {0}")]
    Failed(String),
    /// It was cut off, and nobody said why.
    #[error("the stream was cut off: {0}")]
    CutOff(#[from] ReadError),
}

impl IncomingStream {
    pub(super) fn new(
        header: StreamHeader,
        stream: RecvStream,
        begun: Bytes,
        books: Arc<Books>,
    ) -> Self {
        let failed = StreamFailure::default();
        Self { header, stream, begun, books: Some(books), failed, is_over: false }
    }

    /// Reason the stream has failed, if it has.
    pub(super) fn failure(&self) -> StreamFailure {
        self.failed.clone()
    }

    /// Whose it is, and which.
    pub fn header(&self) -> StreamHeader {
        self.header
    }

    /// The next piece; `None` at the end. A stream that the server has given up fails at once,
    /// whatever has come of it.
    pub async fn next(&mut self) -> Result<Option<Bytes>, StreamEnded> {
        let piece = tokio::select! {
            biased;
            reason = self.failed.wait() => return Err(StreamEnded::Failed(reason.clone())),
            piece = read(&mut self.begun, &mut self.stream) => piece,
        };
        if !matches!(piece, Ok(Some(_))) {
            self.is_over = true;
        }
        match piece {
            Err(error @ (ReadError::Reset(_) | ReadError::InvalidReset(_))) => {
                // The reason comes by the control stream, perhaps a moment later.
                match timeout(REASON_TIME, self.failed.wait()).await {
                    Ok(reason) => Err(StreamEnded::Failed(reason.clone())),
                    Err(_) => Err(error.into()),
                }
            }
            piece => Ok(piece?),
        }
    }

    /// Ends it without counting it as one that was taken.
    pub(super) fn refuse(&mut self) {
        self.books = None;
    }
}

async fn read(begun: &mut Bytes, stream: &mut RecvStream) -> Result<Option<Bytes>, ReadError> {
    if !begun.is_empty() {
        return Ok(Some(std::mem::take(begun)));
    }
    Ok(stream.read_chunk(PIECE, true).await?.map(|piece| piece.bytes))
}

impl Drop for IncomingStream {
    fn drop(&mut self) {
        if !self.is_over {
            let _ = self.stream.stop(NOT_WANTED);
        }
        if let Some(books) = &self.books {
            books.note_end(self.header);
        }
    }
}

/// Time limit for the reason of a reset to arrive.
const REASON_TIME: Duration = Duration::from_secs(1);

/// How much is taken at once.
const PIECE: usize = 256 * 1024;

/// The code that streams nobody reads are stopped with.
const NOT_WANTED: u32 = 3;
