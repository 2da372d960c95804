//! Incremental decoder of server-sent events, with bounded memory.

use mcp_flow_client::transport::{Inbox, SpoolError, SpoolWriter, TransportError};

use crate::exchange;

/// Decoder of one event stream.
#[derive(Debug)]
pub(crate) struct EventDecoder {
    line: Vec<u8>,
    /// Set if the last byte was a carriage return, which a newline may follow.
    after_return: bool,
    /// Set until the first line, which may start with a byte order mark.
    at_start: bool,
    event: Event,
    has_data: bool,
    has_id: bool,
    limit: usize,
    /// Spools the content of long data, if that is wanted.
    inbox: Option<Inbox>,
    /// Long data of the present event, until its end.
    long: Option<LongData>,
}

/// Data that is spooled.
#[derive(Debug)]
struct LongData {
    spool: SpoolWriter,
    /// True within a line of it.
    in_line: bool,
}

/// One event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Event {
    /// Event type; empty means `message`.
    pub(crate) name: String,
    /// Data lines, joined by newlines.
    pub(crate) data: Vec<u8>,
    /// Last event id, of this event or an earlier one.
    pub(crate) id: Option<String>,
    /// Reconnection time in milliseconds, if given.
    pub(crate) retry: Option<u64>,
}

/// Failure to decode an event.
#[derive(Debug)]
pub(crate) enum EventError {
    /// It exceeds the size limit.
    TooLong,
    /// Its large content cannot be spooled.
    NotSpooled(SpoolError),
}

impl EventError {
    pub(crate) fn explain(&self, limit: usize) -> TransportError {
        match self {
            Self::TooLong => exchange::too_long(limit),
            Self::NotSpooled(error) => exchange::not_spooled(error),
        }
    }
}

impl From<SpoolError> for EventError {
    fn from(error: SpoolError) -> Self {
        Self::NotSpooled(error)
    }
}

impl EventDecoder {
    /// Accepts events whose data has up to `limit` bytes.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            line: Vec::new(),
            after_return: false,
            at_start: true,
            event: Event::default(),
            has_data: false,
            has_id: false,
            limit,
            inbox: None,
            long: None,
        }
    }

    /// Spools the content of data that is longer, as the inbox of a connection does.
    pub(crate) fn spooling(mut self, inbox: Inbox) -> Self {
        self.inbox = Some(inbox);
        self
    }

    /// Decodes bytes and passes every complete event to `take`.
    pub(crate) fn push(
        &mut self,
        mut bytes: &[u8],
        take: &mut impl FnMut(&Event),
    ) -> Result<(), EventError> {
        if std::mem::take(&mut self.after_return) && bytes.first() == Some(&b'\n') {
            bytes = &bytes[1..];
        }
        while let Some(end) = memchr::memchr2(b'\n', b'\r', bytes) {
            self.extend_line(&bytes[..end])?;
            let is_return = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            if is_return {
                match bytes.first() {
                    Some(b'\n') => bytes = &bytes[1..],
                    Some(_) => {}
                    None => self.after_return = true,
                }
            }
            self.end_line(take)?;
            if self.event.data.len() > self.limit.saturating_add(1) {
                return Err(EventError::TooLong);
            }
        }
        self.extend_line(bytes)
    }

    fn extend_line(&mut self, bytes: &[u8]) -> Result<(), EventError> {
        if let Some(LongData { spool, in_line: true }) = &mut self.long {
            return Ok(spool.write(bytes)?);
        }
        self.line.extend_from_slice(bytes);
        // The field name and a space come on top of the value.
        if self.line.len() > self.limit.saturating_add(64) { self.begin_long() } else { Ok(()) }
    }

    /// Spools the data whose line has become too long.
    fn begin_long(&mut self) -> Result<(), EventError> {
        let data = self.line.strip_prefix(b"data:").filter(|_| !self.has_data);
        let data = data.map(|data| data.strip_prefix(b" ").unwrap_or(data));
        let spool = self.inbox.as_ref().and_then(Inbox::spool);
        let (Some(data), Some(mut spool)) = (data, spool) else { return Err(EventError::TooLong) };
        spool.write(data)?;
        self.line = Vec::new();
        self.long = Some(LongData { spool, in_line: true });
        Ok(())
    }

    fn end_line(&mut self, take: &mut impl FnMut(&Event)) -> Result<(), EventError> {
        if let Some(long) = &mut self.long {
            // Nothing else is expected before the end of the event.
            if std::mem::take(&mut long.in_line) || !self.line.is_empty() {
                self.line.clear();
                return Ok(());
            }
        }
        if let Some(long) = self.long.take() {
            self.event.data = long.spool.finish()?;
            self.has_data = true;
        }
        let mut line = std::mem::take(&mut self.line);
        if std::mem::take(&mut self.at_start) && line.starts_with(b"\xef\xbb\xbf") {
            line.drain(..3);
        }
        if line.is_empty() {
            self.end_event(take);
        } else {
            self.field(&line);
        }
        line.clear();
        // The buffer is reused, unless a huge line has grown it.
        if line.capacity() <= KEEP_CAPACITY {
            self.line = line;
        }
        Ok(())
    }

    fn end_event(&mut self, take: &mut impl FnMut(&Event)) {
        if self.has_data && self.event.data.last() == Some(&b'\n') {
            self.event.data.pop();
        }
        // Events with only an id or a reconnection time are reported too.
        if self.has_data || self.has_id || self.event.retry.is_some() {
            take(&self.event);
        }
        self.has_id = false;
        let id = self.event.id.take();
        self.event = Event { id, ..Event::default() };
        self.has_data = false;
    }

    fn field(&mut self, line: &[u8]) {
        let (name, value) = match line.iter().position(|byte| *byte == b':') {
            // A comment.
            Some(0) => return,
            Some(colon) => {
                let value = &line[colon + 1..];
                (&line[..colon], value.strip_prefix(b" ").unwrap_or(value))
            }
            None => (line, &b""[..]),
        };
        match name {
            b"data" => {
                self.event.data.extend_from_slice(value);
                self.event.data.push(b'\n');
                self.has_data = true;
            }
            b"event" => {
                self.event.name = String::from_utf8_lossy(&value[..value.len().min(256)]).into();
            }
            b"id" if !value.contains(&0) && value.len() <= MAX_ID => {
                self.event.id = Some(String::from_utf8_lossy(value).into());
                self.has_id = true;
            }
            b"retry" if value.iter().all(u8::is_ascii_digit) => {
                let digits = std::str::from_utf8(value).unwrap_or_default();
                self.event.retry = digits.parse().ok();
            }
            _ => {}
        }
    }
}

/// Limit on the length of an event id.
const MAX_ID: usize = 4096;

/// Largest line buffer that is reused.
const KEEP_CAPACITY: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::{EventDecoder, EventError};

    /// MCP-031, C-35: events are decoded however the bytes arrive.
    #[test]
    fn events_are_decoded_in_chunks_of_any_size() {
        for (text, expected) in [
            ("data: {}\n\n", vec!["|{}|"]),
            ("event: message\ndata: {}\n\n", vec!["message|{}|"]),
            ("event: endpoint\r\ndata: /messages\r\n\r\n", vec!["endpoint|/messages|"]),
            ("data: a\rdata: b\r\r", vec!["|a\nb|"]),
            ("data:a\ndata\n\n", vec!["|a\n|"]),
            (": ping\n\ndata: x\n\n", vec!["|x|"]),
            ("id: 7\ndata: x\n\ndata: y\n\n", vec!["|x|7", "|y|7"]),
            ("id: 7\nretry: 10\n\n", vec!["||7"]),
            ("id: 1\ndata: \n\n", vec!["||1"]),
            ("id: 2\n\n", vec!["||2"]),
            ("\u{feff}data: x\n\n", vec!["|x|"]),
            ("id\ndata: x\n\n", vec!["|x|"]),
            ("nonsense\ndata: x", vec![]),
            ("", vec![]),
        ] {
            for size in [1, 2, 3, 1000] {
                let mut decoder = EventDecoder::new(100);
                let mut seen = Vec::new();
                for piece in text.as_bytes().chunks(size) {
                    let mut take = |event: &super::Event| {
                        let data = String::from_utf8_lossy(&event.data);
                        let id = event.id.as_deref().unwrap_or_default();
                        seen.push(format!("{}|{data}|{id}", event.name));
                    };
                    decoder.push(piece, &mut take).unwrap();
                }
                assert_eq!(seen, expected, "{text:?} in pieces of {size}");
            }
        }
    }

    #[test]
    fn oversized_events_are_rejected_early() {
        let mut decoder = EventDecoder::new(100);
        assert!(matches!(decoder.push(&[b'x'; 200], &mut |_| {}), Err(EventError::TooLong)));
        let mut decoder = EventDecoder::new(100);
        let lines = "data: 0123456789\n".repeat(20);
        assert!(matches!(decoder.push(lines.as_bytes(), &mut |_| {}), Err(EventError::TooLong)));
    }
}
