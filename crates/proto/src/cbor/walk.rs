//! Finds the end of a CBOR item without decoding it.

use crate::decode_error::DecodeError;
use crate::raw::MAX_DEPTH;

/// Selects whether strings are validated on the way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Texts {
    /// Every text must be UTF-8.
    Checked,
    /// Texts were validated before.
    Passed,
}

/// Returns the length of the first item. Rejects truncated, malformed and too deeply nested items.
pub(super) fn length(bytes: &[u8], texts: Texts) -> Result<usize, DecodeError> {
    let mut walk = Walk { bytes, at: 0, texts };
    // Remaining items of the current container, and of the containers around it.
    let mut left = 1;
    let mut around = Vec::new();
    loop {
        while left == 0 {
            match around.pop() {
                Some(outer) => left = outer,
                None => return Ok(walk.at),
            }
        }
        let (kind, argument) = walk.head()?;
        if (kind, argument) == (SIMPLE, None) {
            if left != OPEN {
                return Err(malformed("unexpected break"));
            }
            left = 0;
            continue;
        }
        if left != OPEN {
            left -= 1;
        }
        let inside = match (kind, argument) {
            (UNSIGNED | NEGATIVE | SIMPLE, Some(_)) => continue,
            (BYTES | TEXT, Some(length)) => {
                walk.string(kind, length)?;
                continue;
            }
            (BYTES | TEXT, None) => {
                walk.pieces(kind)?;
                continue;
            }
            (ARRAY | MAP, None) => OPEN,
            // Every item takes at least one byte, so `items` never equals `OPEN`.
            (ARRAY, Some(items)) if items <= walk.rest() => items,
            (MAP, Some(pairs)) if pairs <= walk.rest() => 2 * pairs,
            (ARRAY | MAP, Some(_)) => return Err(truncated()),
            (TAG, Some(_)) => 1,
            _ => return Err(malformed("an indefinite length where none is allowed")),
        };
        if around.len() == MAX_DEPTH {
            return Err(malformed(&format!("nested deeper than {MAX_DEPTH}")));
        }
        around.push(left);
        left = inside;
    }
}

/// The number of remaining items of a container of indefinite length.
const OPEN: u64 = u64::MAX;

struct Walk<'a> {
    bytes: &'a [u8],
    at: usize,
    texts: Texts,
}

impl Walk<'_> {
    /// Reads the major type of an item and its argument. The argument is `None` for an indefinite
    /// length and for the break that ends it.
    #[inline]
    fn head(&mut self) -> Result<(u8, Option<u64>), DecodeError> {
        let [first] = self.take()?;
        let argument = match first & 0x1f {
            small @ 0..=23 => Some(small.into()),
            24 => Some(u8::from_be_bytes(self.take()?).into()),
            25 => Some(u16::from_be_bytes(self.take()?).into()),
            26 => Some(u32::from_be_bytes(self.take()?).into()),
            27 => Some(u64::from_be_bytes(self.take()?)),
            31 => None,
            _ => return Err(malformed("an item of an unknown type")),
        };
        Ok((first >> 5, argument))
    }

    #[inline]
    fn string(&mut self, kind: u8, length: u64) -> Result<(), DecodeError> {
        let rest = &self.bytes[self.at..];
        let string = usize::try_from(length).ok().and_then(|length| rest.get(..length));
        let string = string.ok_or_else(truncated)?;
        if kind == TEXT && self.texts == Texts::Checked && std::str::from_utf8(string).is_err() {
            return Err(malformed("a text is not UTF-8"));
        }
        self.at += string.len();
        Ok(())
    }

    /// Skips the chunks of a string of indefinite length.
    fn pieces(&mut self, kind: u8) -> Result<(), DecodeError> {
        loop {
            match self.head()? {
                (piece, Some(length)) if piece == kind => self.string(kind, length)?,
                (SIMPLE, None) => return Ok(()),
                _ => return Err(malformed("a string with chunks of another type")),
            }
        }
    }

    /// Returns the number of bytes left.
    fn rest(&self) -> u64 {
        (self.bytes.len() - self.at) as u64
    }

    #[inline]
    fn take<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let found = self.bytes[self.at..].first_chunk().ok_or_else(truncated)?;
        self.at += N;
        Ok(*found)
    }
}

#[cold]
fn truncated() -> DecodeError {
    malformed("truncated item")
}

#[cold]
fn malformed(details: &str) -> DecodeError {
    DecodeError::Syntax(details.to_owned())
}

/// CBOR major types (RFC 8949, section 3.1).
pub(super) const UNSIGNED: u8 = 0;
pub(super) const NEGATIVE: u8 = 1;
pub(super) const BYTES: u8 = 2;
pub(super) const TEXT: u8 = 3;
pub(super) const ARRAY: u8 = 4;
pub(super) const MAP: u8 = 5;
pub(super) const TAG: u8 = 6;
pub(super) const SIMPLE: u8 = 7;

#[cfg(test)]
mod tests {
    use super::{Texts, length};

    #[test]
    fn the_end_of_an_item_is_found() {
        for (bytes, expected) in [
            (&b"\x00"[..], Some(1)),
            (b"\x17\x00", Some(1)),
            (b"\x18\xff", Some(2)),
            (b"\x1b\0\0\0\0\0\0\0\0", Some(9)),
            (b"\x38\x01", Some(2)),
            (b"\x61a\x00", Some(2)),
            (b"\x61\xff", None),
            (b"\x41\xff", Some(2)),
            (b"\x7f\x61a\x61b\xff\x00", Some(6)),
            (b"\x7f\x41a\xff", None),
            (b"\x7f\x7f\xff\xff", None),
            (b"\x80", Some(1)),
            (b"\x82\x01\x80", Some(3)),
            (b"\x82\x01", None),
            (b"\xa1\x61a\x82\x01\x02\x03", Some(6)),
            (b"\x9f\x01\x9f\xff\xff\x00", Some(5)),
            (b"\xbf\x61a\xbf\xff\xff", Some(6)),
            (b"\xc1\x01", Some(2)),
            (b"\xc1", None),
            (b"\xf4", Some(1)),
            (b"\xf8\x20", Some(2)),
            (b"\xf9\x7e\x00", Some(3)),
            (b"\xfb\0\0\0\0\0\0\0\0", Some(9)),
            (b"\xff", None),
            (b"\x81\xff", None),
            (b"\x1f", None),
            (b"\x1c", None),
            (b"\xdf\x01", None),
            (b"\x7b\xff\xff\xff\xff\xff\xff\xff\xff", None),
            (b"\x9b\xff\xff\xff\xff\xff\xff\xff\xff", None),
            (b"", None),
        ] {
            assert_eq!(length(bytes, Texts::Checked).ok(), expected, "{bytes:x?}");
        }
        assert_eq!(length(b"\x61\xff", Texts::Passed).ok(), Some(2));
        assert_eq!(
            length(&[[0x81; 128].as_slice(), b"\x01"].concat(), Texts::Checked).ok(),
            Some(129)
        );
        assert!(length(&[[0x81; 129].as_slice(), b"\x01"].concat(), Texts::Checked).is_err());
    }
}
