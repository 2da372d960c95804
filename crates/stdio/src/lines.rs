//! Newline-delimited messages over any byte stream.

use std::io;
use std::pin::{Pin, pin};
use std::time::Duration;

use mcp_flow_proto::RpcError;
use mcp_flow_proto::frame::{Line, LineDecoder};
use mcp_flow_server::connection::SendPosition;
use mcp_flow_server::{Connection, ConnectionEnd, Segment};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Drives a connection over a byte stream until it ends. Drains it when `stop` completes.
///
/// One task reads, writes and starts calls, so the responses to requests that arrived together are
/// sent by one write.
pub async fn drive(
    connection: &Connection,
    reader: impl AsyncRead,
    writer: impl AsyncWrite,
    stop: impl Future<Output = ()>,
) -> io::Result<ConnectionEnd> {
    let (mut reader, mut writer, mut stop) = (pin!(reader), pin!(writer), pin!(stop));
    let mut decoder = LineDecoder::new(connection.limits().frame);
    let partial_frames = connection.partial_frames();
    let mut input = vec![0; READ_SIZE];
    let mut sending: Option<OutgoingSegment> = None;
    let mut began = None;
    let mut reading = true;
    let mut stopping = false;
    loop {
        connection.advance();
        if sending.is_none() {
            sending = connection.take_output().map(OutgoingSegment::new);
        }
        if let Some(ended) = connection.ended() {
            write_remaining(connection, sending, writer).await?;
            return Ok(ended);
        }
        let may_read = reading && connection.accepts_input();
        tokio::select! {
            biased;
            written = writer.write(sending.as_ref().map_or(&[], OutgoingSegment::bytes)),
                if sending.is_some() =>
            {
                let written = nonzero_write(written)?;
                sending = sending.and_then(|rest| rest.after(written, connection));
                if sending.is_none() {
                    writer.flush().await?;
                }
            }
            read = reader.read(&mut input), if may_read => {
                let read = read?;
                decoder.buffer().extend_from_slice(&input[..read]);
                let is_mcp = receive_lines(connection, &mut decoder, &mut began, read == 0);
                let fits = partial_frames.may_hold(decoder.pending());
                if !fits {
                    connection.reject(RpcError::overloaded());
                }
                if read == 0 || !fits || !is_mcp {
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

/// Writes the remaining output while the client keeps reading.
async fn write_remaining(
    connection: &Connection,
    mut sending: Option<OutgoingSegment>,
    mut writer: Pin<&mut impl AsyncWrite>,
) -> io::Result<()> {
    while let Some(rest) = sending {
        let written = tokio::time::timeout(FINAL_WRITE_TIMEOUT, writer.write(rest.bytes())).await;
        let written =
            nonzero_write(written.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())))?;
        sending = rest
            .after(written, connection)
            .or_else(|| connection.take_output().map(OutgoingSegment::new));
    }
    writer.flush().await
}

/// Passes on the complete lines, and at the end of input the last one too. Returns `false` on an
/// HTTP request: a web page could put messages behind its headers and act as the local user.
///
/// `began` is the send position when the first bytes of an incomplete line arrived.
fn receive_lines(
    connection: &Connection,
    decoder: &mut LineDecoder,
    began: &mut Option<SendPosition>,
    at_end: bool,
) -> bool {
    while let Some(line) = decoder.next_line() {
        if is_http_request(&line) {
            let details = "this is HTTP, but one JSON message per line is expected; use the port \
                           for MCP over HTTP";
            connection.reject(RpcError::invalid_request(details));
            return false;
        }
        receive_line(connection, &line, began.take());
    }
    if at_end && let Some(line) = decoder.last_line() {
        receive_line(connection, &line, began.take());
    }
    if began.is_none() && decoder.pending() > 0 {
        *began = Some(connection.send_position());
    }
    true
}

/// Returns whether a line is an HTTP request line. No JSON message ends like that.
fn is_http_request(line: &Line<'_>) -> bool {
    let Line::Frame(frame) = line else { return false };
    frame.trim_ascii_end().last_chunk::<9>().is_some_and(|end| end.starts_with(b" HTTP/"))
}

fn receive_line(connection: &Connection, line: &Line<'_>, began: Option<SendPosition>) {
    match line {
        Line::Frame(frame) => {
            connection.receive_since(frame, began.unwrap_or_else(|| connection.send_position()));
        }
        Line::TooLong => {
            let limit = connection.limits().frame;
            connection.reject(RpcError::too_large(limit));
        }
    }
}

/// A segment being written.
struct OutgoingSegment {
    segment: Segment,
    sent: usize,
}

impl OutgoingSegment {
    fn new(segment: Segment) -> Self {
        Self { segment, sent: 0 }
    }

    fn bytes(&self) -> &[u8] {
        &self.segment.lines()[self.sent..]
    }

    /// Returns the remaining bytes after a write.
    fn after(mut self, written: usize, connection: &Connection) -> Option<Self> {
        self.sent += written;
        if !self.bytes().is_empty() {
            return Some(self);
        }
        connection.recycle(self.segment);
        None
    }
}

fn nonzero_write(written: io::Result<usize>) -> io::Result<usize> {
    match written? {
        0 => Err(io::ErrorKind::WriteZero.into()),
        count => Ok(count),
    }
}

/// Read buffer size: the capacity of a pipe.
const READ_SIZE: usize = 64 * 1024;

/// Time limit for the client to read the last output.
const FINAL_WRITE_TIMEOUT: Duration = Duration::from_secs(5);
