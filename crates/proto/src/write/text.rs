//! Writes JSON strings eight bytes at a time.
//!
//! Most tools return prose with few characters to escape. serde_json checks byte by byte, which for
//! long texts would be most of the time a call takes.

/// Appends a quoted and escaped JSON string, byte for byte as serde_json writes it.
pub(super) fn quoted(out: &mut Vec<u8>, text: &str) {
    let mut rest = text.as_bytes();
    out.push(b'"');
    loop {
        let plain = plain_length(rest);
        let (before, after) = rest.split_at(plain);
        out.extend_from_slice(before);
        let Some((special, after)) = after.split_first() else { break };
        escaped(out, *special);
        rest = after;
    }
    out.push(b'"');
}

/// Returns the number of bytes before the first one that must be escaped.
fn plain_length(bytes: &[u8]) -> usize {
    let (words, tail) = bytes.as_chunks::<8>();
    for (place, word) in words.iter().enumerate() {
        let found = specials(u64::from_le_bytes(*word));
        if found != 0 {
            return place * 8 + found.trailing_zeros() as usize / 8;
        }
    }
    let plain = tail.iter().position(|byte| is_special(*byte)).unwrap_or(tail.len());
    words.len() * 8 + plain
}

/// Sets the high bit of every byte that must be escaped. Bits above the first may be false
/// positives, because a borrow propagates upwards.
const fn specials(word: u64) -> u64 {
    let quote = word ^ (ONES * b'"' as u64);
    let backslash = word ^ (ONES * b'\\' as u64);
    let control = word.wrapping_sub(ONES * 0x20) & !word;
    let quote = quote.wrapping_sub(ONES) & !quote;
    let backslash = backslash.wrapping_sub(ONES) & !backslash;
    (control | quote | backslash) & (ONES * 0x80)
}

const ONES: u64 = u64::from_le_bytes([1; 8]);

const fn is_special(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

fn escaped(out: &mut Vec<u8>, byte: u8) {
    let short = match byte {
        b'"' | b'\\' => byte,
        0x08 => b'b',
        0x09 => b't',
        0x0a => b'n',
        0x0c => b'f',
        0x0d => b'r',
        _ => {
            let digit = |half: u8| b"0123456789abcdef"[usize::from(half)];
            let digits = [digit(byte >> 4), digit(byte & 0xf)];
            out.extend_from_slice(b"\\u00");
            out.extend_from_slice(&digits);
            return;
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}

#[cfg(test)]
mod tests {
    use super::quoted;

    /// Every one-byte character at every position of a word, and some longer texts.
    #[test]
    fn strings_are_escaped_like_serde_json() {
        for byte in 0..=0x7f_u8 {
            for place in 0..20 {
                for filler in ["a", "\u{e9}", "\u{1f600}", "\"", "\u{1f}", "!"] {
                    let mut text = filler.repeat(place);
                    text.push(char::from(byte));
                    text.push_str(&filler.repeat(20 - place));
                    let mut out = Vec::new();
                    quoted(&mut out, &text);
                    let expected = serde_json::to_string(&text).unwrap();
                    assert_eq!(String::from_utf8(out).unwrap(), expected, "{text:?}");
                }
            }
        }
    }
}
