//! One execution stream, as it is read.

use std::sync::Arc;

use bytes::Bytes;
use mcp_flow_proto::webtransport::StreamHeader;
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
    is_over: bool,
}

/// A stream was cut off before its end. `$/streamError` may say why.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the stream was cut off: {0}")]
pub struct StreamEnded(#[from] ReadError);

impl IncomingStream {
    pub(super) fn new(
        header: StreamHeader,
        stream: RecvStream,
        begun: Bytes,
        books: Arc<Books>,
    ) -> Self {
        Self { header, stream, begun, books: Some(books), is_over: false }
    }

    /// Whose it is, and which.
    pub fn header(&self) -> StreamHeader {
        self.header
    }

    /// The next piece; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, StreamEnded> {
        if !self.begun.is_empty() {
            return Ok(Some(std::mem::take(&mut self.begun)));
        }
        let piece = self.stream.read_chunk(PIECE, true).await;
        if !matches!(piece, Ok(Some(_))) {
            self.is_over = true;
        }
        Ok(piece?.map(|piece| piece.bytes))
    }

    /// Ends it without counting it as one that was taken.
    pub(super) fn refuse(&mut self) {
        self.books = None;
    }
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

/// How much is taken at once.
const PIECE: usize = 256 * 1024;

/// The code that streams nobody reads are stopped with.
const NOT_WANTED: u32 = 3;
