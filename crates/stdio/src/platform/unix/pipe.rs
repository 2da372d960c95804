//! Non-blocking standard input and output.
//!
//! Hosts pass pipes or Unix sockets, which are read and written without blocking threads. A regular
//! file or a terminal goes through tokio's blocking threads, at many times the cost per message.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::task::{Context, Poll};

use rustix::fs::{FileType, OFlags};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, Stdin, Stdout};
use tokio::net::UnixStream;
use tokio::net::unix::pipe::{Receiver, Sender};

/// Standard input.
#[derive(Debug)]
pub(crate) struct Input {
    source: Source,
    _flags: SavedFlags,
}

#[derive(Debug)]
enum Source {
    Pipe(Receiver),
    Socket(UnixStream),
    Other(Stdin),
}

/// Standard output.
#[derive(Debug)]
pub(crate) struct Output {
    target: Target,
    _flags: SavedFlags,
}

#[derive(Debug)]
enum Target {
    Pipe(Sender),
    Socket(UnixStream),
    Other(Stdout),
}

/// Opens standard input.
pub(crate) fn open_input() -> io::Result<Input> {
    let stdin = io::stdin();
    let _flags = SavedFlags::of(stdin.as_fd())?;
    let source = match kind(stdin.as_fd())? {
        FileType::Fifo => Source::Pipe(Receiver::from_owned_fd(duplicate(stdin.as_fd())?)?),
        FileType::Socket => Source::Socket(socket(stdin.as_fd())?),
        _ => Source::Other(tokio::io::stdin()),
    };
    Ok(Input { source, _flags })
}

/// Opens standard output.
#[expect(clippy::disallowed_methods, reason = "this is the one place that owns stdout")]
pub(crate) fn open_output() -> io::Result<Output> {
    let stdout = io::stdout();
    let _flags = SavedFlags::of(stdout.as_fd())?;
    let target = match kind(stdout.as_fd())? {
        FileType::Fifo => Target::Pipe(Sender::from_owned_fd(duplicate(stdout.as_fd())?)?),
        FileType::Socket => Target::Socket(socket(stdout.as_fd())?),
        _ => Target::Other(tokio::io::stdout()),
    };
    Ok(Output { target, _flags })
}

fn kind(file: BorrowedFd<'_>) -> io::Result<FileType> {
    Ok(FileType::from_raw_mode(rustix::fs::fstat(file)?.st_mode))
}

fn duplicate(file: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    file.try_clone_to_owned()
}

fn socket(file: BorrowedFd<'_>) -> io::Result<UnixStream> {
    let socket = std::os::unix::net::UnixStream::from(duplicate(file)?);
    socket.set_nonblocking(true)?;
    UnixStream::from_std(socket)
}

/// Restores the flags of a file on drop.
///
/// The non-blocking flag belongs to the open file, which other processes may share, so it must not
/// stay changed.
#[derive(Debug)]
struct SavedFlags {
    file: OwnedFd,
    flags: OFlags,
}

impl SavedFlags {
    fn of(file: BorrowedFd<'_>) -> io::Result<Self> {
        let file = duplicate(file)?;
        let flags = rustix::fs::fcntl_getfl(&file)?;
        Ok(Self { file, flags })
    }
}

impl Drop for SavedFlags {
    fn drop(&mut self) {
        // The other end may be closed already; then the flags do not matter.
        let _ = rustix::fs::fcntl_setfl(&self.file, self.flags);
    }
}

impl AsyncRead for Input {
    fn poll_read(
        self: Pin<&mut Self>,
        task: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut self.get_mut().source {
            Source::Pipe(pipe) => Pin::new(pipe).poll_read(task, buffer),
            Source::Socket(socket) => Pin::new(socket).poll_read(task, buffer),
            Source::Other(stdin) => Pin::new(stdin).poll_read(task, buffer),
        }
    }
}

impl AsyncWrite for Output {
    fn poll_write(
        self: Pin<&mut Self>,
        task: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().target {
            Target::Pipe(pipe) => Pin::new(pipe).poll_write(task, bytes),
            Target::Socket(socket) => Pin::new(socket).poll_write(task, bytes),
            Target::Other(stdout) => Pin::new(stdout).poll_write(task, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().target {
            // Pipes and sockets have no user-space buffer.
            Target::Pipe(_) | Target::Socket(_) => Poll::Ready(Ok(())),
            Target::Other(stdout) => Pin::new(stdout).poll_flush(task),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(task)
    }
}
