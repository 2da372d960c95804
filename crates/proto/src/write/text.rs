//! Texts as JSON, eight bytes at a time.
//!
//! Most of what tools return is prose with few characters that JSON escapes. serde_json looks at one
//! byte after the other; with texts of some length that is most of the time a call takes.

/// Writes a text in quotes, as serde_json does.
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

/// How many bytes there are before the first that has to be escaped.
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

/// The high bit of every byte that has to be escaped. Above the first one there may be others
/// that need not be: a borrow goes up, never down.
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

    /// Every character that is one byte, at every place of a word, beside plain and long ones.
    #[test]
    fn texts_are_written_as_serde_json_writes_them() {
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
