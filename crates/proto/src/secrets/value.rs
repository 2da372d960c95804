//! Extents of values in texts, which may be JSON within JSON, truncated, or neither.

use std::ops::Range;

use crate::text::prefix_bytes;

/// Number of bytes at the beginning that satisfy a condition.
pub(super) fn run(text: &str, fits: impl Fn(u8) -> bool) -> usize {
    text.bytes().position(|byte| !fits(byte)).unwrap_or(text.len())
}

/// Escape of a quote in JSON within JSON, with the quote: `"`, `\"`, `\\\"`.
pub(super) fn opening_quote(text: &str) -> Option<&str> {
    let escapes = run(text, |byte| byte == b'\\');
    let is_quote = matches!(text.as_bytes().get(escapes), Some(b'"' | b'\'' | b'`'));
    is_quote.then(|| &text[..=escapes])
}

/// The value at the beginning of a text: the part to be hidden, and whether it is an object, an array, or
/// stands without quotes.
pub(super) struct Extent {
    pub(super) range: Range<usize>,
    pub(super) is_bare: bool,
}

impl Extent {
    /// Finds the extent of a value that ends at one of `ends` unless it is quoted.
    pub(super) fn of(text: &str, ends: &str) -> Self {
        if let Some(quote) = opening_quote(text) {
            let start = quote.len();
            return Self {
                range: start..start + quoted_length(&text[start..], quote),
                is_bare: false,
            };
        }
        if text.starts_with(['{', '[']) {
            return Self { range: 0..container_length(text), is_bare: true };
        }
        let is_end = |letter: char| ends.contains(letter) || letter.is_control();
        Self { range: 0..text.find(is_end).unwrap_or(text.len()), is_bare: true }
    }
}

/// Length up to the quote that closes what `quote` has opened, or of the whole text.
fn quoted_length(text: &str, quote: &str) -> usize {
    let bytes = text.as_bytes();
    let (mark, escapes) = (quote.as_bytes()[quote.len() - 1], quote.len() - 1);
    let mut run = 0;
    for (at, byte) in bytes.iter().enumerate() {
        if *byte == b'\\' {
            run += 1;
            continue;
        }
        // A quote that belongs to the value has more escapes than its delimiters, or an even number more.
        if *byte == mark && run % (2 * (escapes + 1)) == escapes {
            return at - escapes;
        }
        run = 0;
    }
    text.len()
}

/// Length of the leading object or array, or of the whole text if it does not end.
fn container_length(text: &str) -> usize {
    let (mut at, mut depth) = (0, 0_usize);
    while let Some(byte) = text.as_bytes().get(at) {
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' | b'\\' => {
                if let Some(quote) = opening_quote(&text[at..]) {
                    at += quote.len();
                    at += quoted_length(&text[at..], quote) + quote.len();
                    continue;
                }
            }
            _ => {}
        }
        at += 1;
        if depth == 0 {
            return at;
        }
    }
    text.len()
}

/// Length of a block of YAML, `|` or `>` and the indented lines behind it.
pub(super) fn block_length(text: &str) -> Option<usize> {
    let (head, _) = prefix_bytes(text, MAX_BLOCK_HEAD).split_once('\n')?;
    let sign = head.trim_end().strip_prefix(['|', '>'])?;
    if !sign.bytes().all(|byte| byte.is_ascii_digit() || b"+-".contains(&byte)) {
        return None;
    }
    let (mut length, mut at) = (0, head.len() + 1);
    for line in text[at..].split_inclusive('\n') {
        let content = line.trim();
        if !content.is_empty() && !line.starts_with([' ', '\t']) {
            break;
        }
        if !content.is_empty() {
            length = at + line.trim_end().len();
        }
        at += line.len();
    }
    (length > 0).then_some(length)
}

/// Longest first line of a block, in bytes.
const MAX_BLOCK_HEAD: usize = 8;
