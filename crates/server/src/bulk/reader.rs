//! Reading piece by piece, one piece ahead.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use futures_util::Stream;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::task::JoinHandle;

/// The pieces of something that is read, as a stream of bytes.
///
/// No more than two pieces are in memory: the one that was taken last, and the one that is read
/// meanwhile.
pub struct BulkReader {
    from: From,
}

enum From {
    File { file: Arc<File>, left: Range<u64>, next: Option<JoinHandle<io::Result<Vec<u8>>>> },
    Stream { begun: Bytes, reader: Pin<Box<dyn AsyncRead + Send>> },
    Bytes(Bytes),
}

impl BulkReader {
    pub(super) fn file(file: Arc<File>, range: Range<u64>) -> Self {
        Self { from: From::File { file, left: range, next: None } }
    }

    pub(super) fn stream(begun: Bytes, reader: Pin<Box<dyn AsyncRead + Send>>) -> Self {
        Self { from: From::Stream { begun, reader } }
    }

    pub(super) fn bytes(bytes: Bytes) -> Self {
        Self { from: From::Bytes(bytes) }
    }

    /// The reader behind it, where there is one.
    pub(super) fn into_stream(self) -> Option<Pin<Box<dyn AsyncRead + Send>>> {
        match self.from {
            From::Stream { reader, .. } => Some(reader),
            From::File { .. } | From::Bytes(_) => None,
        }
    }
}

impl Stream for BulkReader {
    type Item = io::Result<Bytes>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match &mut self.get_mut().from {
            From::File { file, left, next } => {
                let Some(reading) = next.take().or_else(|| read_piece(file, left)) else {
                    return Poll::Ready(None);
                };
                let piece = match poll(next.insert(reading), context) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(piece) => piece,
                };
                *next = None;
                match piece {
                    Ok(piece) if piece.is_empty() => {
                        // The file has become shorter; nothing more is there.
                        left.start = left.end;
                        Poll::Ready(None)
                    }
                    Ok(piece) => {
                        left.start += piece.len() as u64;
                        // Read ahead while this one is on its way.
                        *next = read_piece(file, left);
                        Poll::Ready(Some(Ok(piece.into())))
                    }
                    Err(error) => {
                        left.start = left.end;
                        Poll::Ready(Some(Err(error)))
                    }
                }
            }
            From::Stream { begun, reader } => {
                if !begun.is_empty() {
                    return Poll::Ready(Some(Ok(std::mem::take(begun))));
                }
                let mut piece = BytesMut::zeroed(STREAM_PIECE);
                let mut buffer = ReadBuf::new(&mut piece);
                if let Err(error) = ready!(reader.as_mut().poll_read(context, &mut buffer)) {
                    return Poll::Ready(Some(Err(error)));
                }
                let read = buffer.filled().len();
                piece.truncate(read);
                Poll::Ready((read > 0).then(|| Ok(piece.freeze())))
            }
            From::Bytes(bytes) => {
                let size = bytes.len().min(FILE_PIECE);
                Poll::Ready((size > 0).then(|| Ok(bytes.split_to(size))))
            }
        }
    }
}

/// Begins to read the next piece where reading may block.
fn read_piece(file: &Arc<File>, left: &Range<u64>) -> Option<JoinHandle<io::Result<Vec<u8>>>> {
    let size = usize::try_from(left.end.checked_sub(left.start)?).unwrap_or(usize::MAX);
    if size == 0 {
        return None;
    }
    let (file, start, size) = (file.clone(), left.start, size.min(FILE_PIECE));
    Some(tokio::task::spawn_blocking(move || {
        let mut piece = Vec::with_capacity(size);
        loop {
            let place = rustix::buffer::spare_capacity(&mut piece);
            match rustix::io::pread(&file, place, start) {
                Ok(_) => break,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        piece.truncate(size);
        Ok(piece)
    }))
}

fn poll(
    reading: &mut JoinHandle<io::Result<Vec<u8>>>,
    context: &mut Context<'_>,
) -> Poll<io::Result<Vec<u8>>> {
    Pin::new(reading)
        .poll(context)
        .map(|done| done.unwrap_or_else(|lost| Err(io::Error::other(lost))))
}

impl std::fmt::Debug for BulkReader {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("BulkReader")
    }
}

/// Large enough that handing a piece over costs little beside reading it.
const FILE_PIECE: usize = 256 * 1024;

/// What a reader is asked for at once; it seldom has more.
const STREAM_PIECE: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::{BulkReader, FILE_PIECE};
    use futures_util::StreamExt;
    use std::io::Write;
    use std::sync::Arc;

    /// MCP-079: any part of a file comes as it is, in pieces of limited size.
    #[tokio::test]
    async fn a_file_is_read_in_pieces() {
        let mut file = tempfile::tempfile().unwrap();
        let bytes: Vec<u8> = (0..=250).cycle().take(3 * FILE_PIECE + 7).collect();
        file.write_all(&bytes).unwrap();
        let file = Arc::new(file);
        let length = bytes.len() as u64;
        for range in [0..length, 5..6, 100..length, 0..0, length..length + 9, 0..u64::MAX] {
            let mut reader = BulkReader::file(file.clone(), range.clone());
            let mut read = Vec::new();
            while let Some(piece) = reader.next().await {
                let piece = piece.unwrap();
                assert!(!piece.is_empty() && piece.len() <= FILE_PIECE);
                read.extend_from_slice(&piece);
            }
            let place = |place: u64| usize::try_from(place.min(length)).unwrap();
            assert!(read == bytes[place(range.start)..place(range.end)], "{range:?}");
        }
    }

    #[tokio::test]
    async fn a_reader_is_read_after_what_was_read_before() {
        let reader = Box::pin(&b"world"[..]);
        let mut pieces = BulkReader::stream("hello ".into(), reader);
        assert_eq!(pieces.next().await.unwrap().unwrap(), "hello ");
        assert_eq!(pieces.next().await.unwrap().unwrap(), "world");
        assert!(pieces.next().await.is_none());
    }
}
