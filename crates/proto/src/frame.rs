//! Splits bytes into newline-delimited frames.
//!
//! A frame is one complete text that has not been parsed. This module finds where each frame ends;
//! [`message`](crate::message) decodes it.
//!
//! No I/O happens here: append the bytes that arrived, take out the complete frames.

use std::ops::Range;

/// Splits a byte stream into lines of limited length.
///
/// The buffer is reused, so a connection that only receives small messages allocates once. A line
/// that exceeds the limit is reported as soon as it does, and the rest of it is discarded as it
/// arrives.
///
/// ```
/// use mcp_flow_proto::frame::{LineDecoder, Line};
///
/// let mut decoder = LineDecoder::new(1024);
/// decoder.buffer().extend_from_slice(b"{\"a\":1}\r\n{\"b\"");
/// assert_eq!(decoder.next_line(), Some(Line::Frame(b"{\"a\":1}")));
/// assert_eq!(decoder.next_line(), None);
/// ```
#[derive(Debug)]
pub struct LineDecoder {
    buffer: Vec<u8>,
    /// Start of the current line.
    start: usize,
    /// End of the part of the buffer that was searched for a newline.
    searched: usize,
    limit: usize,
    discarding: bool,
    /// The part of the buffer with the last line that was too long.
    long: Range<usize>,
}

/// The output of a [`LineDecoder`].
#[derive(Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// One line without its line end. Never empty.
    Frame(&'a [u8]),
    /// A line exceeded the limit and is being skipped.
    TooLong,
}

impl LineDecoder {
    /// Creates a decoder for lines of up to `limit` bytes, not counting the line end.
    pub fn new(limit: usize) -> Self {
        Self { buffer: Vec::new(), start: 0, searched: 0, limit, discarding: false, long: 0..0 }
    }

    /// Returns the buffer to append received bytes to.
    ///
    /// Discards lines already returned, so call it only when [`next_line`](Self::next_line) has
    /// returned `None`.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.searched -= self.start;
            self.start = 0;
        }
        self.long = 0..0;
        // A single huge message must not keep its memory for the lifetime of the connection.
        if self.buffer.capacity() > KEEP_CAPACITY && self.buffer.len() < KEEP_CAPACITY / 2 {
            self.buffer.shrink_to(KEEP_CAPACITY);
        }
        &mut self.buffer
    }

    /// Returns the number of buffered bytes, most of them of an incomplete line.
    pub fn pending(&self) -> usize {
        self.buffer.len() - self.start
    }

    /// Returns the next complete line, or `None` until more bytes arrive. Blank lines are skipped.
    pub fn next_line(&mut self) -> Option<Line<'_>> {
        loop {
            let Some(found) = memchr::memchr(b'\n', &self.buffer[self.searched..]) else {
                return self.unfinished_line();
            };
            let (start, end) = (self.start, self.searched + found);
            self.start = end + 1;
            self.searched = self.start;
            if std::mem::take(&mut self.discarding) {
                continue;
            }
            let line = trim_line_end(&self.buffer[start..end]);
            if line.len() > self.limit {
                self.long = start..start + line.len();
                return Some(Line::TooLong);
            }
            if !line.iter().all(u8::is_ascii_whitespace) {
                // Sliced again because the borrow above cannot be returned from a loop.
                let length = line.len();
                return Some(Line::Frame(&self.buffer[start..start + length]));
            }
        }
    }

    /// Leaves the line that was just [too long](Line::TooLong) to the caller: returns what has arrived of
    /// it, and whether that is all. The rest is not discarded.
    ///
    /// ```
    /// use mcp_flow_proto::frame::{LineDecoder, Line};
    ///
    /// let mut decoder = LineDecoder::new(4);
    /// decoder.buffer().extend_from_slice(b"123456");
    /// assert_eq!(decoder.next_line(), Some(Line::TooLong));
    /// assert_eq!(decoder.take_long_line(), (&b"123456"[..], false));
    /// decoder.buffer().extend_from_slice(b"789\n");
    /// assert_eq!(decoder.next_line(), Some(Line::Frame(b"789")));
    /// ```
    pub fn take_long_line(&mut self) -> (&[u8], bool) {
        let is_complete = !std::mem::take(&mut self.discarding);
        (&self.buffer[self.long.clone()], is_complete)
    }

    /// Returns the unterminated last line after the stream has ended.
    pub fn last_line(&mut self) -> Option<Line<'_>> {
        let line = trim_line_end(&self.buffer[self.start..]);
        let (start, length) = (self.start, line.len());
        self.start = self.buffer.len();
        self.searched = self.start;
        let rest = &self.buffer[start..start + length];
        if self.discarding {
            return None;
        }
        if length > self.limit {
            return Some(Line::TooLong);
        }
        (!rest.iter().all(u8::is_ascii_whitespace)).then_some(Line::Frame(rest))
    }

    fn unfinished_line(&mut self) -> Option<Line<'_>> {
        self.searched = self.buffer.len();
        let length = self.buffer.len() - self.start;
        if self.discarding {
            self.start = self.buffer.len();
            return None;
        }
        // One byte over the limit may be the carriage return of a line end.
        if length.saturating_sub(self.limit) > 1 {
            self.discarding = true;
            self.long = self.start..self.buffer.len();
            self.start = self.buffer.len();
            return Some(Line::TooLong);
        }
        None
    }
}

fn trim_line_end(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Capacity above which the buffer shrinks between messages.
const KEEP_CAPACITY: usize = 256 * 1024;

#[cfg(test)]
mod tests {
    use super::{Line, LineDecoder};

    /// MCP-051, MCP-053: one message per line, however the bytes arrive.
    #[test]
    fn frames_do_not_depend_on_how_bytes_arrive() {
        check(&["{}\n"], &["{}"]);
        check(&["{", "}", "\n"], &["{}"]);
        check(&["{}\n[", "]\n"], &["{}", "[]"]);
        check(&["{}\n["], &["{}", "last ["]);
        check(&["{}\r\n[]\r", "\n"], &["{}", "[]"]);
        check(&["\n\r\n  \n{}\n"], &["{}"]);
        check(&["{}", "\n\n", "[]"], &["{}", "last []"]);
    }

    #[test]
    fn a_line_past_the_limit_is_reported_once_and_skipped() {
        check(&["12345678\n{}\n"], &["12345678", "{}"]);
        check(&["12345678\r\n{}\n"], &["12345678", "{}"]);
        check(&["123456789\n{}\n"], &["too long", "{}"]);
        check(&["1234567890", "1234567890", "\n{}\n"], &["too long", "{}"]);
        check(&["1234567890", "1234567890"], &["too long"]);
        check(&["12345678\r", "\n"], &["12345678"]);
        check(&["123456789\r", "\n{}\n"], &["too long", "{}"]);
        check(&["123456789"], &["too long"]);
        check(&["12345678\r"], &["last 12345678"]);
    }

    #[test]
    fn the_limit_may_be_unbounded() {
        let mut decoder = LineDecoder::new(usize::MAX);
        decoder.buffer().extend_from_slice(b"{}");
        assert_eq!(decoder.next_line(), None);
        assert_eq!(decoder.last_line(), Some(Line::Frame(b"{}")));
    }

    #[test]
    fn one_huge_line_does_not_keep_its_memory() {
        let mut decoder = LineDecoder::new(16 << 20);
        decoder.buffer().resize(8 << 20, b'x');
        decoder.buffer().push(b'\n');
        assert!(decoder.next_line().is_some());
        assert!(decoder.buffer().capacity() <= super::KEEP_CAPACITY);
    }

    /// Feeds the pieces to a decoder with a limit of eight bytes and compares its output.
    fn check(pieces: &[&str], expected: &[&str]) {
        let mut decoder = LineDecoder::new(8);
        let mut seen = Vec::new();
        for piece in pieces {
            decoder.buffer().extend_from_slice(piece.as_bytes());
            while let Some(line) = decoder.next_line() {
                seen.push(describe(&line, ""));
            }
        }
        if let Some(line) = decoder.last_line() {
            seen.push(describe(&line, "last "));
        }
        assert_eq!(seen, expected, "from {pieces:?}");
    }

    fn describe(line: &Line<'_>, prefix: &str) -> String {
        match line {
            Line::Frame(bytes) => format!("{prefix}{}", String::from_utf8_lossy(bytes)),
            Line::TooLong => "too long".to_owned(),
        }
    }
}
