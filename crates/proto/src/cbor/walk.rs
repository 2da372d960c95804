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
    // For each open container: how many items are still to come, or none if it says so itself.
    let mut open: Vec<Option<u64>> = Vec::with_capacity(16);
    loop {
        match walk.head()? {
            (UNSIGNED | NEGATIVE | SIMPLE, Some(_)) => {}
            (BYTES | TEXT, None) => {}
            (kind @ (BYTES | TEXT), Some(length)) => walk.string(kind, length)?,
            (ARRAY, items) => open.push(items),
            (MAP, pairs) => open.push(pairs.map(|pairs| pairs.saturating_mul(2))),
            (TAG, Some(_)) => open.push(Some(1)),
            (SIMPLE, None) => match open.pop() {
                Some(None) => {}
                _ => return Err(malformed("unexpected break")),
            },
            _ => return Err(malformed("a number without an end")),
        }
        if open.len() > MAX_DEPTH {
            return Err(malformed(&format!("nested deeper than {MAX_DEPTH}")));
        }
        loop {
            match open.last_mut() {
                None => return Ok(walk.at),
                Some(Some(0)) => {
                    open.pop();
                }
                Some(Some(items)) => {
                    *items -= 1;
                    break;
                }
                Some(None) => break,
            }
        }
    }
}

struct Walk<'a> {
    bytes: &'a [u8],
    at: usize,
    texts: Texts,
}

impl Walk<'_> {
    /// The kind of an item and its argument, which is none if the length is left open or this is
    /// the break that ends such a length. Strings left open are passed as a whole.
    fn head(&mut self) -> Result<(u8, Option<u64>), DecodeError> {
        let (kind, argument) = self.plain_head()?;
        if argument.is_none() && (kind == BYTES || kind == TEXT) {
            loop {
                match self.plain_head()? {
                    (piece, Some(length)) if piece == kind => self.string(kind, length)?,
                    (SIMPLE, None) => break,
                    _ => return Err(malformed("a string in pieces of another kind")),
                }
            }
        }
        Ok((kind, argument))
    }

    fn plain_head(&mut self) -> Result<(u8, Option<u64>), DecodeError> {
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

    fn take<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let found = self.bytes[self.at..].first_chunk().ok_or_else(truncated)?;
        self.at += N;
        Ok(*found)
    }
}

fn truncated() -> DecodeError {
    malformed("it ends within an item")
}

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
