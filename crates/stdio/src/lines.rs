//! Newline-delimited messages over any byte stream.

use std::io;
use std::pin::{Pin, pin};
use std::time::Duration;

use mcp_flow_proto::RpcError;
use mcp_flow_proto::frame::{Line, LineDecoder};
use mcp_flow_server::{Connection, ConnectionEnd, Segment};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Carries a connection over a stream until it ends, or drains it when `stop` completes.
///
/// One task reads, writes and starts calls, so a batch of requests that arrived together is
/// answered by one write.
pub async fn drive(
    connection: &Connection,
    reader: impl AsyncRead,
    writer: impl AsyncWrite,
    stop: impl Future<Output = ()>,
) -> io::Result<ConnectionEnd> {
    let (mut reader, mut writer, mut stop) = (pin!(reader), pin!(writer), pin!(stop));
    let mut decoder = LineDecoder::new(connection.limits().frame);
    let unfinished = connection.partial_frames();
    let mut input = vec![0; READ_SIZE];
    let mut sending: Option<Sending> = None;
    let mut reading = true;
    let mut stopping = false;
    loop {
        connection.advance();
        if sending.is_none() {
            sending = connection.take_output().map(Sending::new);
        }
        if let Some(ended) = connection.ended() {
            finish(connection, sending, writer).await?;
            return Ok(ended);
        }
        let may_read = reading && connection.accepts_input();
        tokio::select! {
            biased;
            written = writer.write(sending.as_ref().map_or(&[], Sending::bytes)),
                if sending.is_some() =>
            {
                let written = some_written(written)?;
                sending = sending.and_then(|rest| rest.after(written, connection));
                if sending.is_none() {
                    writer.flush().await?;
                }
            }
            read = reader.read(&mut input), if may_read => {
                let read = read?;
                decoder.buffer().extend_from_slice(&input[..read]);
                let is_for_us = receive(connection, &mut decoder, read == 0);
                let fits = unfinished.may_hold(decoder.pending());
                if !fits {
                    connection.reject(RpcError::overloaded());
                }
                if read == 0 || !fits || !is_for_us {
                    reading = false;
                    connection.end_of_input();
                }
            }
            () = &mut stop, if !stopping => {
                stopping = true;
                reading = false;
                connection.end_of_input();
            }
            () = connection.changed() => {}
        }
    }
}

/// Sends what is left, as long as the client goes on reading.
async fn finish(
    connection: &Connection,
    mut sending: Option<Sending>,
    mut writer: Pin<&mut impl AsyncWrite>,
) -> io::Result<()> {
    while let Some(rest) = sending {
        let written = tokio::time::timeout(LAST_WRITE, writer.write(rest.bytes())).await;
        let written =
            some_written(written.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())))?;
        sending =
            rest.after(written, connection).or_else(|| connection.take_output().map(Sending::new));
    }
    writer.flush().await
}

/// Hands over the complete lines, and at the end of input the last one too. `false` if what comes
/// is the request of a browser: behind its headers, the page it is from could put messages that are
/// made by whoever sits here, without their knowing.
fn receive(connection: &Connection, decoder: &mut LineDecoder, at_end: bool) -> bool {
    while let Some(line) = decoder.next_line() {
        if is_of_browser(&line) {
            let details = "one message is expected on each line, and this is HTTP; MCP over HTTP \
                           is at another port";
            connection.reject(RpcError::invalid_request(details));
            return false;
        }
        receive_line(connection, &line);
    }
    if at_end && let Some(line) = decoder.last_line() {
        receive_line(connection, &line);
    }
    true
}

/// Whether a line is the first of a request by HTTP. No message ends like that.
fn is_of_browser(line: &Line<'_>) -> bool {
    let Line::Frame(frame) = line else { return false };
    frame.trim_ascii_end().last_chunk::<9>().is_some_and(|end| end.starts_with(b" HTTP/"))
}

fn receive_line(connection: &Connection, line: &Line<'_>) {
    match line {
        Line::Frame(frame) => connection.receive(frame),
        Line::TooLong => {
            let limit = connection.limits().frame;
            connection.reject(RpcError::too_large(limit));
        }
    }
}

/// A segment on its way out.
struct Sending {
    segment: Segment,
    sent: usize,
}

impl Sending {
    fn new(segment: Segment) -> Self {
        Self { segment, sent: 0 }
    }

    fn bytes(&self) -> &[u8] {
        &self.segment.lines()[self.sent..]
    }

    /// What is left after some bytes went out.
    fn after(mut self, written: usize, connection: &Connection) -> Option<Self> {
        self.sent += written;
        if !self.bytes().is_empty() {
            return Some(self);
        }
        connection.recycle(self.segment);
        None
    }
}

fn some_written(written: io::Result<usize>) -> io::Result<usize> {
    match written? {
        0 => Err(io::ErrorKind::WriteZero.into()),
        count => Ok(count),
    }
}

/// How much is read at once: what a pipe holds.
const READ_SIZE: usize = 64 * 1024;

/// How long a client that is leaving may take to read on before the rest is given up.
const LAST_WRITE: Duration = Duration::from_secs(5);
