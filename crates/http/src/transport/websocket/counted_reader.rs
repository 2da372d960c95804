//! Memory accounting of partially received WebSocket messages.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use mcp_flow_server::connection::PartialFrames;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Reads from `inner`, and fails with `OutOfMemory` once the server's memory limit is reached.
pub(super) struct CountedReader<S> {
    inner: S,
    unfinished: PartialFrames,
}

impl<S> CountedReader<S> {
    pub(super) fn new(inner: S, unfinished: PartialFrames) -> Self {
        Self { inner, unfinished }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for CountedReader<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        ready!(Pin::new(&mut this.inner).poll_read(context, buffer))?;
        match this.unfinished.may_hold_more(buffer.filled().len() - before) {
            true => Poll::Ready(Ok(())),
            false => Poll::Ready(Err(io::ErrorKind::OutOfMemory.into())),
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for CountedReader<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}
