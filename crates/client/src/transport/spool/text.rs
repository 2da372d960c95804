//! Text of JSON strings, unescaped while it arrives, and decoded from base64 if it is bytes.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::{SpoolError, Spooled};

/// Writer of one string to a file.
#[derive(Debug)]
pub(super) struct TextWriter {
    content: Spooled,
    /// An escape sequence that is not complete yet.
    escape: Vec<u8>,
    /// Text that is not written yet.
    pending: Vec<u8>,
    is_base64: bool,
}

impl TextWriter {
    pub(super) fn new(content: Spooled, is_base64: bool) -> Self {
        Self { content, escape: Vec::new(), pending: Vec::new(), is_base64 }
    }

    /// Writes a part of the string as it is in JSON.
    pub(super) fn write(&mut self, mut escaped: &[u8]) -> Result<(), SpoolError> {
        while let Some(&byte) = escaped.first() {
            if !self.escape.is_empty() || byte == b'\\' {
                self.escape.push(byte);
                self.unescape()?;
                escaped = &escaped[1..];
                continue;
            }
            let plain = memchr::memchr(b'\\', escaped).unwrap_or(escaped.len());
            self.pending.extend_from_slice(&escaped[..plain]);
            escaped = &escaped[plain..];
        }
        if self.pending.len() >= BLOCK { self.flush(false) } else { Ok(()) }
    }

    /// Ends the string.
    pub(super) fn finish(mut self) -> Result<Spooled, SpoolError> {
        if !self.escape.is_empty() {
            return Err(SpoolError::Invalid);
        }
        self.flush(true)?;
        Ok(self.content)
    }

    fn flush(&mut self, is_end: bool) -> Result<(), SpoolError> {
        if !self.is_base64 {
            self.content.write(&self.pending)?;
            self.pending.clear();
            return Ok(());
        }
        let whole = if is_end { self.pending.len() } else { self.pending.len() / 4 * 4 };
        let decoded = STANDARD.decode(&self.pending[..whole]).map_err(|_| SpoolError::Invalid)?;
        self.content.write(&decoded)?;
        self.pending.drain(..whole);
        Ok(())
    }

    /// Appends the character of the escape sequence, once that is complete.
    fn unescape(&mut self) -> Result<(), SpoolError> {
        let code = |digits: &[u8]| {
            let digits = std::str::from_utf8(digits).ok()?;
            u32::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+'))
        };
        let character = match *self.escape.as_slice() {
            [_] | [_, b'u'] => return Ok(()),
            [_, byte @ (b'"' | b'\\' | b'/')] => Some(char::from(byte)),
            [_, b'b'] => Some('\u{8}'),
            [_, b'f'] => Some('\u{c}'),
            [_, b'n'] => Some('\n'),
            [_, b'r'] => Some('\r'),
            [_, b't'] => Some('\t'),
            [_, b'u', ref digits @ ..] if digits.len() < 4 => return Ok(()),
            [_, b'u', ref digits @ ..] => {
                let first = code(&digits[..4]).ok_or(SpoolError::Invalid)?;
                match (0xd800..0xdc00).contains(&first) {
                    false => char::from_u32(first),
                    // A pair of them is one character.
                    true => match digits[4..] {
                        [] | [b'\\'] => return Ok(()),
                        [b'\\', b'u', ref low @ ..] if low.len() < 4 => return Ok(()),
                        [b'\\', b'u', ref low @ ..] => {
                            code(low).filter(|low| (0xdc00..0xe000).contains(low)).and_then(|low| {
                                char::from_u32(0x10000 + ((first - 0xd800) << 10) + (low - 0xdc00))
                            })
                        }
                        _ => None,
                    },
                }
            }
            _ => None,
        };
        let character = character.ok_or(SpoolError::Invalid)?;
        self.escape.clear();
        self.pending.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        Ok(())
    }
}

/// Bytes that are written at once.
const BLOCK: usize = 64 * 1024;
