//! I/O task of one client connection over a pair of byte streams.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use mcp_flow_client::transport::{Inbox, Outbox, Transport, TransportError, task_transport};
use mcp_flow_proto::frame::{Line, LineDecoder};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::child::ChildProcess;
use super::long_message::LongMessage;

/// Spawns the I/O task of a connection. `child` is the server process, if it was spawned here.
pub(crate) fn spawn_io_task(
    name: &'static str,
    reader: impl AsyncRead + Send + Unpin + 'static,
    writer: impl AsyncWrite + Send + Unpin + 'static,
    inbox: Inbox,
    child: Option<ChildProcess>,
) -> Arc<dyn Transport> {
    task_transport(name, CLOSE_TIMEOUT, |outbox| async move {
        let task = IoTask { outbox, inbox: inbox.clone(), reader, writer, long: None };
        let (reason, writer) = task.run().await;
        // A server over pipes exits at the end of its input.
        drop(writer);
        let reason = match child {
            Some(child) => child.shut_down(reason).await,
            None => reason,
        };
        inbox.closed(reason);
    })
}

struct IoTask<R, W> {
    outbox: Arc<Outbox>,
    inbox: Inbox,
    reader: R,
    writer: W,
    /// A message that is too long, until its end.
    long: Option<LongMessage>,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> IoTask<R, W> {
    /// Runs until either side closes, and returns the reason.
    async fn run(mut self) -> (TransportError, W) {
        let reason = match self.run_io().await {
            Ok(reason) => reason,
            // Same as end of file, noticed by a write first.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                TransportError::Lost(SERVER_CLOSED.to_owned())
            }
            Err(error) => TransportError::Lost(format!("connection error: {error}")),
        };
        (reason, self.writer)
    }

    async fn run_io(&mut self) -> io::Result<TransportError> {
        let mut decoder = LineDecoder::new(self.inbox.frame_limit());
        let mut input = vec![0; READ_SIZE];
        let mut sending: Vec<u8> = Vec::new();
        let mut sent = 0;
        loop {
            if let Err(flood) = self.outbox.check() {
                return Ok(flood);
            }
            if sent == sending.len() {
                sending.clear();
                sent = 0;
                let Some(frames) = self.outbox.take() else {
                    return Ok(TransportError::Lost("the client closed the connection".to_owned()));
                };
                for frame in frames {
                    sending.extend_from_slice(&frame);
                    sending.push(b'\n');
                }
            }
            // Unbiased, so that neither direction can starve the other.
            tokio::select! {
                read = self.reader.read(&mut input) => {
                    let read = read?;
                    let received = self.skip_long(&input[..read]);
                    let is_bounded = received.is_some_and(|rest| {
                        decoder.buffer().extend_from_slice(rest);
                        self.receive_lines(&mut decoder, read == 0)
                    });
                    if !is_bounded {
                        return Ok(self.too_long());
                    }
                    if read == 0 {
                        return Ok(TransportError::Lost(SERVER_CLOSED.to_owned()));
                    }
                }
                written = self.writer.write(&sending[sent..]), if sent < sending.len() => {
                    sent += match written? {
                        0 => return Err(io::ErrorKind::WriteZero.into()),
                        count => count,
                    };
                    if sent == sending.len() {
                        self.writer.flush().await?;
                    }
                }
                () = self.outbox.changed(), if sent == sending.len() => {}
            }
        }
    }

    /// Passes on the complete lines. Returns `false` if one is too long and no message.
    fn receive_lines(&mut self, decoder: &mut LineDecoder, at_end: bool) -> bool {
        loop {
            match decoder.next_line() {
                Some(Line::Frame(frame)) => self.inbox.receive(frame),
                Some(Line::TooLong) => {
                    let (line, is_complete) = decoder.take_long_line();
                    if !line.trim_ascii_start().starts_with(b"{") {
                        return false;
                    }
                    let mut long = LongMessage::new(self.inbox.spool());
                    long.read(line);
                    match is_complete {
                        true => self.end_long(long),
                        false => self.long = Some(long),
                    }
                }
                None => break,
            }
        }
        match at_end.then(|| decoder.last_line()).flatten() {
            Some(Line::Frame(frame)) => {
                self.inbox.receive(frame);
                true
            }
            Some(Line::TooLong) => false,
            None => true,
        }
    }

    /// Skips the rest of a message that is too long, and returns what is behind it; `None` if it does not
    /// end.
    fn skip_long<'a>(&mut self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let Some(mut long) = self.long.take() else { return Some(bytes) };
        if let Some(rest) = long.read(bytes) {
            self.end_long(long);
            return Some(rest);
        }
        let is_endless = long.length() > MAX_SKIPPED;
        self.long = Some(long);
        (!is_endless).then_some(&[])
    }

    /// Passes on a long response whose content was spooled, or fails the request that it answers. Others
    /// on the connection go on.
    fn end_long(&self, long: LongMessage) {
        let Some(request) = long.answers() else {
            return tracing::warn!(
                bytes = long.length(),
                "a message of the server that is no response was too long, and is ignored"
            );
        };
        match long.spooled() {
            None => self.inbox.fail(request, self.too_long()),
            Some(Ok(rest)) => self.inbox.receive(&rest),
            Some(Err(error)) => {
                let error = TransportError::InvalidMessage(format!("{}; {error}", self.too_long()));
                self.inbox.fail(request, error);
            }
        }
    }

    fn too_long(&self) -> TransportError {
        let limit = self.inbox.frame_limit();
        let what = format!("the server sent a message of more than {limit} bytes");
        TransportError::InvalidMessage(what)
    }
}

const SERVER_CLOSED: &str = "the server closed the connection";

/// Length up to which a message that is too long is skipped. An endless one ends the connection.
const MAX_SKIPPED: usize = 4 << 30;

/// Read buffer size: the capacity of a pipe.
const READ_SIZE: usize = 64 * 1024;

/// Time limit for closing; longer than the shutdown of a child process takes.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(8);
