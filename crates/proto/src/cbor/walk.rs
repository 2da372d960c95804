//! Where an item ends, without a look at what it means.

use crate::raw::{DecodeError, MAX_DEPTH};

/// Whether texts are looked at on the way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Texts {
    /// Each must be UTF-8.
    Checked,
    /// They were checked before.
    Passed,
}

/// How long the first item is. Refuses what is truncated, too deep or no CBOR.
pub(super) fn length(bytes: &[u8], texts: Texts) -> Result<usize, DecodeError> {
    let mut walk = Walk { bytes, at: 0, texts };
    // How many items are still to come in the container at hand, and in those around it.
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
            // Each item takes a byte at least, so none of these is so many that it means `OPEN`.
            (ARRAY, Some(items)) if items <= walk.rest() => items,
            (MAP, Some(pairs)) if pairs <= walk.rest() => 2 * pairs,
            (ARRAY | MAP, Some(_)) => return Err(truncated()),
            (TAG, Some(_)) => 1,
            _ => return Err(malformed("a number without an end")),
        };
        if around.len() == MAX_DEPTH {
            return Err(malformed(&format!("nested deeper than {MAX_DEPTH}")));
        }
        around.push(left);
        left = inside;
    }
}

/// So many items are still to come where only a break tells.
const OPEN: u64 = u64::MAX;

struct Walk<'a> {
    bytes: &'a [u8],
    at: usize,
    texts: Texts,
}

impl Walk<'_> {
    /// The kind of an item and its argument, which is none if the length is left open or this is
    /// the break that ends such a length.
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
            _ => return Err(malformed("an item of a kind that does not exist")),
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

    /// Passes the pieces of a string whose length is left open.
    fn pieces(&mut self, kind: u8) -> Result<(), DecodeError> {
        loop {
            match self.head()? {
                (piece, Some(length)) if piece == kind => self.string(kind, length)?,
                (SIMPLE, None) => return Ok(()),
                _ => return Err(malformed("a string in pieces of another kind")),
            }
        }
    }

    /// How many bytes follow.
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
    malformed("it ends within an item")
}

#[cold]
fn malformed(details: &str) -> DecodeError {
    DecodeError::Syntax(details.to_owned())
}

/// The kinds of items.
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
    fn items_end_where_they_end() {
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
