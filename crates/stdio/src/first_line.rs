//! Time limit for the first line of a socket, so that a peer cannot hold part of one in memory before
//! it is known to speak MCP.

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::{Sleep, sleep};

/// Reader that fails if the first line is not complete in time after its first byte.
pub(crate) struct FirstLine<R> {
    reader: R,
    state: State,
}

enum State {
    Silent,
    Begun(Pin<Box<Sleep>>),
    Complete,
}

impl<R> FirstLine<R> {
    pub(crate) fn of(reader: R) -> Self {
        Self { reader, state: State::Silent }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for FirstLine<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.reader).poll_read(context, buffer);
        if matches!(self.state, State::Complete) {
            return read;
        }
        let new = &buffer.filled()[before..];
        if new.contains(&b'\n') {
            self.state = State::Complete;
        } else if !new.is_empty() && matches!(self.state, State::Silent) {
            self.state = State::Begun(Box::pin(sleep(LIMIT)));
        }
        if let State::Begun(deadline) = &mut self.state
            && deadline.as_mut().poll(context).is_ready()
        {
            let message = "the first line was not complete in time";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, message)));
        }
        read
    }
}

/// Longest time from the first byte to the end of the first line.
const LIMIT: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::time::{Instant, sleep, timeout};

    use super::{FirstLine, LIMIT};

    #[tokio::test(start_paused = true)]
    async fn a_first_line_has_a_time_limit() {
        let (mut peer, stream) = tokio::io::duplex(1024);
        let mut reader = FirstLine::of(stream);
        let mut bytes = [0; 16];
        assert!(timeout(10 * LIMIT, reader.read(&mut bytes)).await.is_err(), "silence has none");
        peer.write_all(b"{\"half").await.unwrap();
        assert_eq!(reader.read(&mut bytes).await.unwrap(), 6);
        let began = Instant::now();
        let failed = reader.read(&mut bytes).await.unwrap_err();
        assert_eq!((failed.kind(), began.elapsed()), (std::io::ErrorKind::TimedOut, LIMIT));
    }

    #[tokio::test(start_paused = true)]
    async fn later_lines_have_none() {
        let (mut peer, stream) = tokio::io::duplex(1024);
        let mut reader = FirstLine::of(stream);
        let mut bytes = [0; 16];
        for part in [&b"{"[..], b"}\n", b"{\"half"] {
            peer.write_all(part).await.unwrap();
            assert_eq!(reader.read(&mut bytes).await.unwrap(), part.len());
        }
        sleep(2 * LIMIT).await;
        peer.write_all(b"}").await.unwrap();
        assert_eq!(reader.read(&mut bytes).await.unwrap(), 1);
    }
}
