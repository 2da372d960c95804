//! Messages that are too long to be kept: the id of the request that they answer is read, and large
//! content is spooled.

use mcp_flow_client::transport::{SpoolError, SpoolWriter};

/// Finds the request that a message answers while its bytes pass.
#[derive(Debug, Default)]
pub(super) struct LongMessage {
    spool: Option<Result<SpoolWriter, SpoolError>>,
    length: usize,
    depth: u32,
    in_string: bool,
    is_escaped: bool,
    /// The last text outside of nested values, cut off: a member's name, or a number.
    text: Vec<u8>,
    /// Name of the member whose value follows.
    member: Vec<u8>,
    id: Option<i64>,
    is_request: bool,
}

impl LongMessage {
    /// Begins a message, whose large content is spooled if it can be.
    pub(super) fn new(spool: Option<SpoolWriter>) -> Self {
        Self { spool: spool.map(Ok), ..Self::default() }
    }

    /// The message with tokens for its large content; `None` if it was not spooled.
    pub(super) fn spooled(self) -> Option<Result<Vec<u8>, SpoolError>> {
        Some(self.spool?.and_then(SpoolWriter::finish))
    }

    /// Reads up to the end of the line. Returns the rest, if the line ends here.
    pub(super) fn read<'a>(&mut self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let end = memchr::memchr(b'\n', bytes);
        let mut rest = &bytes[..end.unwrap_or(bytes.len())];
        if let Some(Ok(spool)) = &mut self.spool
            && let Err(error) = spool.write(rest)
        {
            // What was written is free again.
            self.spool = Some(Err(error));
        }
        self.length = self.length.saturating_add(rest.len());
        while let Some((byte, behind)) = rest.split_first() {
            rest = behind;
            if !self.in_string {
                self.read_outside_strings(*byte);
            } else if std::mem::take(&mut self.is_escaped) {
                // Names with escapes are none of those that are looked for.
                self.keep(b'\\');
            } else if *byte == b'\\' {
                self.is_escaped = true;
            } else if *byte == b'"' {
                self.in_string = false;
            } else {
                self.keep(*byte);
                // Most of a long message is in strings.
                let plain = memchr::memchr2(b'"', b'\\', rest).unwrap_or(rest.len());
                rest[..plain].iter().take(MAX_TEXT).for_each(|byte| self.keep(*byte));
                rest = &rest[plain..];
            }
        }
        end.map(|end| &bytes[end + 1..])
    }

    fn read_outside_strings(&mut self, byte: u8) {
        match byte {
            b'"' => {
                self.in_string = true;
                self.forget();
            }
            b'{' | b'[' => self.depth = self.depth.saturating_add(1),
            b':' if self.depth == 1 => {
                self.member = std::mem::take(&mut self.text);
                self.is_request |= self.member == b"method";
            }
            b',' if self.depth == 1 => self.end_member(),
            b'}' | b']' => {
                if self.depth == 1 {
                    self.end_member();
                }
                self.depth = self.depth.saturating_sub(1);
            }
            byte if !byte.is_ascii_whitespace() => self.keep(byte),
            _ => {}
        }
    }

    fn end_member(&mut self) {
        if self.member == b"id" {
            self.id = std::str::from_utf8(&self.text).ok().and_then(|text| text.parse().ok());
        }
        self.forget();
    }

    fn keep(&mut self, byte: u8) {
        if self.depth == 1 && self.text.len() < MAX_TEXT {
            self.text.push(byte);
        }
    }

    fn forget(&mut self) {
        if self.depth == 1 {
            self.text.clear();
        }
    }

    /// The request that the message answers; `None` if it is no response.
    pub(super) fn answers(&self) -> Option<i64> {
        self.id.filter(|_| !self.is_request)
    }

    /// Length so far.
    pub(super) fn length(&self) -> usize {
        self.length
    }
}

/// Length of the names and numbers that are looked for.
const MAX_TEXT: usize = 24;

#[cfg(test)]
mod tests {
    use super::LongMessage;

    /// The id is found wherever it is, and however the bytes arrive.
    #[test]
    fn the_request_of_a_response_is_found() {
        for (message, expected) in [
            (r#"{"jsonrpc":"2.0","id":7,"result":{"id":8}}"#, Some(7)),
            (r#"{"result":{"id":8,"text":"\"id\":9,{[\\"},"jsonrpc":"2.0","id": 7 }"#, Some(7)),
            (r#"{"error":{"code":1},"id":7}"#, Some(7)),
            (r#"{"id":7,"method":"ping"}"#, None),
            (r#"{"method":"notifications/message","params":{"id":7}}"#, None),
            (r#"{"result":"id","x":7}"#, None),
            (r#"{"id":"7","result":{}}"#, Some(7)),
            (r#"{"id":77777777777777777777777777,"result":{}}"#, None),
            (r#"[{"id":7,"result":{}}]"#, None),
            ("]]}}:,\"", None),
        ] {
            let line = format!("{message}\nrest");
            for size in [1, 3, line.len()] {
                let (mut long, mut rest) = (LongMessage::default(), line.as_bytes());
                let behind = loop {
                    let (chunk, behind) = rest.split_at(size.min(rest.len()));
                    rest = behind;
                    if let Some(left) = long.read(chunk) {
                        break [left, rest].concat();
                    }
                };
                assert_eq!(behind, b"rest", "{message}");
                assert_eq!((long.answers(), long.length()), (expected, message.len()), "{message}");
            }
        }
    }
}
