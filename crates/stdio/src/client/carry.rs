//! Carries the messages of one connection over a pair of streams.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use mcp_flow_client::transport::{Inbox, Outbox, Transport, TransportError, carried};
use mcp_flow_proto::frame::{Line, LineDecoder};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::child::Owned;

/// Carries messages over a pair of streams. `child` is the process at the other end, if it is ours.
pub(crate) fn over(
    name: &'static str,
    reader: impl AsyncRead + Send + Unpin + 'static,
    writer: impl AsyncWrite + Send + Unpin + 'static,
    inbox: Inbox,
    child: Option<Owned>,
) -> Arc<dyn Transport> {
    carried(name, PATIENCE, |outbox| async move {
        let carrier = Carrier { outbox, inbox: inbox.clone(), reader, writer };
        let (why, writer) = carrier.run().await;
        // The end of its input is how a server over pipes is asked to leave.
        drop(writer);
        let why = match child {
            Some(child) => child.end(why).await,
            None => why,
        };
        inbox.closed(why);
    })
}

struct Carrier<R, W> {
    outbox: Arc<Outbox>,
    inbox: Inbox,
    reader: R,
    writer: W,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Carrier<R, W> {
    /// Carries until either end is gone, and says why.
    async fn run(mut self) -> (TransportError, W) {
        let why = match self.carry().await {
            Ok(why) => why,
            // The same as reading its end, only that writing has met it first.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                TransportError::Lost(SERVER_CLOSED.to_owned())
            }
            Err(error) => TransportError::Lost(format!("the connection broke: {error}")),
        };
        (why, self.writer)
    }

    async fn carry(&mut self) -> io::Result<TransportError> {
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
            // In no fixed order, so that neither direction can starve the other.
            tokio::select! {
                read = self.reader.read(&mut input) => {
                    let read = read?;
                    decoder.buffer().extend_from_slice(&input[..read]);
                    if !self.hand_over(&mut decoder, read == 0) {
                        let limit = self.inbox.frame_limit();
                        let what = format!("the server sent a message of more than {limit} bytes");
                        return Ok(TransportError::Garbage(what));
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

    /// Hands over the complete lines; false if one was too long.
    fn hand_over(&self, decoder: &mut LineDecoder, at_end: bool) -> bool {
        loop {
            match decoder.next_line() {
                Some(Line::Frame(frame)) => self.inbox.receive(frame),
                Some(Line::TooLong) => return false,
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
}

const SERVER_CLOSED: &str = "the server closed the connection";

/// How much is read at once: what a pipe holds.
const READ_SIZE: usize = 64 * 1024;

/// How long closing may take, more than a process gets to end by itself.
const PATIENCE: Duration = Duration::from_secs(8);
