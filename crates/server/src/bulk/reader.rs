//! Reader of payloads in pieces, one piece ahead.

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

use crate::tap::{ConnectionTap, ContentTap};

/// The pieces of a payload, as a stream of bytes.
///
/// At most two pieces are in memory: the one taken last, and the one being read ahead.
pub struct BulkReader {
    from: From,
    expected: Option<Expected>,
    tap: TapState,
}

/// The tap that sees the pieces.
enum TapState {
    /// Waits for the first piece: not all readers are read.
    Waiting(ConnectionTap, String),
    Begun(Box<dyn ContentTap>),
    None,
}

/// The announced size, and the number of bytes read.
#[derive(Clone, Copy)]
struct Expected {
    size: u64,
    read: u64,
}

enum From {
    File { file: Arc<File>, left: Range<u64>, next: Option<JoinHandle<io::Result<Vec<u8>>>> },
    Stream { begun: Bytes, reader: Pin<Box<dyn AsyncRead + Send>> },
    Bytes(Bytes),
}

impl BulkReader {
    pub(super) fn file(file: Arc<File>, range: Range<u64>) -> Self {
        Self::new(From::File { file, left: range, next: None })
    }

    pub(super) fn stream(begun: Bytes, reader: Pin<Box<dyn AsyncRead + Send>>) -> Self {
        Self::new(From::Stream { begun, reader })
    }

    pub(super) fn bytes(bytes: Bytes) -> Self {
        Self::new(From::Bytes(bytes))
    }

    fn new(from: From) -> Self {
        Self { from, expected: None, tap: TapState::None }
    }

    /// Requires an exact size: with fewer or more bytes reading fails, so that a truncated payload
    /// is never taken for the whole.
    pub(super) fn exactly(mut self, size: u64) -> Self {
        self.expected = Some(Expected { size, read: 0 });
        self
    }

    /// Shows the pieces to a tap, if there is one.
    pub(super) fn tapped(self, tap: Option<&ConnectionTap>, name: &str) -> Self {
        let Some(tap) = tap else { return self };
        Self { tap: TapState::Waiting(tap.clone(), name.to_owned()), ..self }
    }

    /// The underlying reader, if there is one.
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
        let this = self.get_mut();
        let mut piece = ready!(this.from.poll_piece(context));
        if let Some(expected) = &mut this.expected {
            piece = match piece {
                Some(Ok(piece)) => Some(expected.check(piece)),
                Some(Err(error)) => Some(Err(error)),
                None => expected.missing().map(Err),
            };
        }
        match &piece {
            Some(Ok(piece)) => this.tap.show(piece),
            // Fails only once.
            _ => (this.expected, this.tap) = (None, TapState::None),
        }
        Poll::Ready(piece)
    }
}

impl TapState {
    fn show(&mut self, piece: &[u8]) {
        if let Self::Waiting(ConnectionTap { tap, connection }, name) = self {
            *self = tap.content(*connection, name).map_or(Self::None, Self::Begun);
        }
        if let Self::Begun(tap) = self {
            tap.piece(piece);
        }
    }
}

impl Expected {
    /// Passes a piece on unless it exceeds the size.
    fn check(&mut self, piece: Bytes) -> io::Result<Bytes> {
        self.read += piece.len() as u64;
        if self.read > self.size {
            let what = format!("there is more than the {} bytes announced", self.size);
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        Ok(piece)
    }

    /// The error of a source that ends early.
    fn missing(self) -> Option<io::Error> {
        let Self { size, read } = self;
        let what = || format!("truncated: it ended after {read} of {size} bytes");
        (read < size).then(|| io::Error::new(io::ErrorKind::UnexpectedEof, what()))
    }
}

impl From {
    fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        match self {
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
                        // The file has been truncated.
                        left.start = left.end;
                        Poll::Ready(None)
                    }
                    Ok(piece) => {
                        left.start += piece.len() as u64;
                        // Reads ahead while this piece is being sent.
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

/// Starts reading the next piece on a blocking thread.
fn read_piece(file: &Arc<File>, left: &Range<u64>) -> Option<JoinHandle<io::Result<Vec<u8>>>> {
    let size = usize::try_from(left.end.checked_sub(left.start)?).unwrap_or(usize::MAX);
    if size == 0 {
        return None;
    }
    let (file, start, size) = (file.clone(), left.start, size.min(FILE_PIECE));
    Some(tokio::task::spawn_blocking(move || {
        let mut piece = Vec::with_capacity(size);
        read_at(&file, &mut piece, start)?;
        piece.truncate(size);
        Ok(piece)
    }))
}

/// Reads what fits into a buffer from a position of a file.
#[cfg(unix)]
fn read_at(file: &File, piece: &mut Vec<u8>, start: u64) -> io::Result<()> {
    loop {
        match rustix::io::pread(file, rustix::buffer::spare_capacity(piece), start) {
            Ok(_) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(windows)]
fn read_at(file: &File, piece: &mut Vec<u8>, start: u64) -> io::Result<()> {
    piece.resize(piece.capacity(), 0);
    let count = std::os::windows::fs::FileExt::seek_read(file, piece, start)?;
    piece.truncate(count);
    Ok(())
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

/// Large enough that passing a piece on costs little compared with reading it.
const FILE_PIECE: usize = 256 * 1024;

/// Buffer size for readers, which seldom yield more at once.
const STREAM_PIECE: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::{BulkReader, FILE_PIECE};
    use futures_util::StreamExt;
    use std::io::Write;
    use std::sync::Arc;

    /// MCP-079: any range of a file is read unchanged, in pieces of limited size.
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
            let offset = |offset: u64| usize::try_from(offset.min(length)).unwrap();
            assert!(read == bytes[offset(range.start)..offset(range.end)], "{range:?}");
        }
    }

    /// WT-049: a source that is shorter or longer than announced fails at its end, once.
    #[tokio::test]
    async fn a_source_must_have_its_announced_size() {
        for (size, expected) in
            [(5, None), (6, Some("5 of 6 bytes")), (4, Some("4 bytes announced"))]
        {
            let mut pieces = BulkReader::stream("".into(), Box::pin(&b"world"[..])).exactly(size);
            let mut failed = None;
            while let Some(piece) = pieces.next().await {
                failed = piece.err().map(|error| error.to_string());
            }
            assert_eq!(failed.is_some(), expected.is_some(), "{size}");
            assert!(failed.unwrap_or_default().contains(expected.unwrap_or_default()));
            assert!(pieces.next().await.is_none());
        }
    }

    #[tokio::test]
    async fn a_reader_continues_after_the_bytes_read_so_far() {
        let reader = Box::pin(&b"world"[..]);
        let mut pieces = BulkReader::stream("hello ".into(), reader);
        assert_eq!(pieces.next().await.unwrap().unwrap(), "hello ");
        assert_eq!(pieces.next().await.unwrap().unwrap(), "world");
        assert!(pieces.next().await.is_none());
    }
}
