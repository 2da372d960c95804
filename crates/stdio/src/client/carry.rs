//! Carries the messages of one connection over a pair of streams.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use mcp_flow_client::transport::{Inbox, Outgoing, OutgoingKind, Transport, TransportError};
use mcp_flow_proto::frame::{Line, LineDecoder};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{Notify, watch};

use super::child::Owned;

/// A connection that a task carries.
#[derive(Debug)]
pub(crate) struct Carried {
    name: &'static str,
    outbox: Arc<Outbox>,
    over: watch::Receiver<bool>,
}

/// What waits to be written.
#[derive(Debug, Default)]
struct Outbox {
    waiting: Mutex<Waiting>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    lines: Vec<u8>,
    /// How many of the bytes answer requests of the server, which can ask without reading.
    answers: usize,
    is_closing: bool,
}

impl Outbox {
    fn lock(&self) -> std::sync::MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Carried {
    /// Starts to carry. `child` is the process at the other end, if it is ours.
    pub(crate) fn start(
        name: &'static str,
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
        inbox: Inbox,
        child: Option<Owned>,
    ) -> Arc<dyn Transport> {
        let outbox = Arc::new(Outbox::default());
        let (ended, over) = watch::channel(false);
        let carrier = Carrier { outbox: outbox.clone(), inbox, reader, writer };
        tokio::spawn(async move {
            let inbox = carrier.inbox.clone();
            let (why, writer) = carrier.run().await;
            // The end of its input is how a server over pipes is asked to leave.
            drop(writer);
            let why = match child {
                Some(child) => child.end(why).await,
                None => why,
            };
            inbox.closed(why);
            ended.send_replace(true);
        });
        Arc::new(Self { name, outbox, over })
    }
}

impl Transport for Carried {
    fn name(&self) -> &'static str {
        self.name
    }

    fn send(&self, message: Outgoing) {
        {
            let mut waiting = self.outbox.lock();
            if matches!(message.kind, OutgoingKind::Response) {
                waiting.answers += message.frame.len();
            }
            waiting.lines.extend_from_slice(&message.frame);
            waiting.lines.push(b'\n');
        }
        self.outbox.changed.notify_one();
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.outbox.lock().is_closing = true;
        self.outbox.changed.notify_one();
        let mut over = self.over.clone();
        Box::pin(async move {
            let _ = tokio::time::timeout(PATIENCE, over.wait_for(|over| *over)).await;
        })
    }
}

impl Drop for Carried {
    fn drop(&mut self) {
        self.outbox.lock().is_closing = true;
        self.outbox.changed.notify_one();
    }
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
            if self.outbox.lock().answers > MOST_ANSWERS {
                let what = "the server asks and does not read the answers";
                return Ok(TransportError::Garbage(what.to_owned()));
            }
            if sent == sending.len() {
                sending.clear();
                sent = 0;
                let mut waiting = self.outbox.lock();
                std::mem::swap(&mut sending, &mut waiting.lines);
                waiting.answers = 0;
                if sending.is_empty() && waiting.is_closing {
                    return Ok(TransportError::Lost("the client closed the connection".to_owned()));
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
                        return Ok(TransportError::Lost("the server closed the connection".to_owned()));
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
                () = self.outbox.changed.notified(), if sent == sending.len() => {}
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

/// How much is read at once: what a pipe holds.
const READ_SIZE: usize = 64 * 1024;

/// How many bytes of answers may wait for a server that asks without reading.
const MOST_ANSWERS: usize = 4 << 20;

/// How long closing may take, more than a process gets to end by itself.
const PATIENCE: Duration = Duration::from_secs(8);
