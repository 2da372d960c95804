//! Deterministic inputs from a seed.
//!
//! New inputs are derived from existing ones, which have the form a target expects: a value is
//! replaced by another, lines are added, and bytes are corrupted.

use mcp_flow_proto::Encoding;
use serde_json::Value;

/// Deterministic random numbers (SplitMix64).
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    /// Starts a sequence.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Draws a number below `end`, or zero if there is none.
    fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).unwrap_or(u64::MAX).max(1);
        usize::try_from(self.next() % end).unwrap_or_default()
    }

    fn pick<'a, T: ?Sized>(&mut self, all: &[&'a T]) -> &'a T {
        all[self.below(all.len())]
    }

    /// Draws a range within `length`, no longer than `most`.
    fn range(&mut self, length: usize, most: usize) -> std::ops::Range<usize> {
        let start = self.below(length + 1);
        start..start + self.below(most.min(length - start) + 1)
    }
}

/// Derives a new input from existing ones.
pub fn input(random: &mut Random, seeds: &[Vec<u8>]) -> Vec<u8> {
    let mut data = seeds[random.below(seeds.len())].clone();
    for _ in 0..=random.below(4) {
        match random.below(10) {
            0..4 => replace_value(random, &mut data),
            4 | 5 => add_line(random, &mut data, seeds),
            6 | 7 => put_piece(random, &mut data),
            8 => repeat_or_remove(random, &mut data),
            _ => flip_bit(random, &mut data),
        }
    }
    data.truncate(MAX_LENGTH);
    data
}

/// Replaces a JSON value anywhere in the data, sometimes by CBOR.
fn replace_value(random: &mut Random, data: &mut Vec<u8>) {
    let from = random.below(data.len());
    let begins = |byte: &u8| matches!(byte, b'{' | b'[' | b'"' | b'-' | b'0'..=b'9' | b't' | b'n');
    let Some(start) = data[from..].iter().position(begins).map(|found| from + found) else {
        return put_piece(random, data);
    };
    let mut values = serde_json::Deserializer::from_slice(&data[start..]).into_iter::<Value>();
    let Some(Ok(old)) = values.next() else { return };
    let end = start + values.byte_offset();
    let new = if random.below(4) == 0 { old } else { value(random, 3) };
    let encoding = if random.below(6) == 0 { Encoding::Cbor } else { Encoding::Json };
    data.splice(start..end, encoding.encode(&new).unwrap());
}

/// Inserts a line of another input.
fn add_line(random: &mut Random, data: &mut Vec<u8>, seeds: &[Vec<u8>]) {
    let other = &seeds[random.below(seeds.len())];
    let lines: Vec<_> = other.split_inclusive(|byte| *byte == b'\n').collect();
    let ends = data.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
    let ends: Vec<_> = ends.chain([data.len()]).collect();
    let at = ends[random.below(ends.len())];
    if let Some(line) = lines.get(random.below(lines.len())) {
        data.splice(at..at, line.iter().copied());
    }
}

/// Inserts an unusual piece, or replaces a part by it.
fn put_piece(random: &mut Random, data: &mut Vec<u8>) {
    let range = random.range(data.len(), 3);
    data.splice(range, random.pick(&PIECES).iter().copied());
}

fn repeat_or_remove(random: &mut Random, data: &mut Vec<u8>) {
    let range = random.range(data.len(), 64);
    if random.below(2) == 0 {
        let repeated = data[range.clone()].repeat(1 + random.below(3));
        data.splice(range.start..range.start, repeated);
    } else {
        data.drain(range);
    }
}

fn flip_bit(random: &mut Random, data: &mut [u8]) {
    let at = random.below(data.len());
    if let Some(byte) = data.get_mut(at) {
        *byte ^= 1 << random.below(8);
    }
}

/// Draws a value that is likely to be significant.
fn value(random: &mut Random, depth: usize) -> Value {
    match random.below(if depth == 0 { 6 } else { 10 }) {
        0 => Value::Null,
        1 => Value::Bool(random.below(2) == 0),
        2 => Value::from(random.below(12)),
        3 => NUMBERS[random.below(NUMBERS.len())].into(),
        4 | 5 => Value::from(random.pick(&TEXTS)),
        6 | 7 => (0..random.below(4)).map(|_| value(random, depth - 1)).collect(),
        _ => {
            let member = |random: &mut Random| (random.pick(&NAMES), value(random, depth - 1));
            (0..random.below(5)).map(|_| member(random)).collect()
        }
    }
}

/// Limit on the length of an input.
const MAX_LENGTH: usize = 4096;

const NUMBERS: [f64; 10] =
    [-1.0, 0.5, -0.5, 10.5, 10.6, 7.0, 1e300, 9_007_199_254_740_993.0, 0.1, 123_456.789_012_345_6];

const NAMES: [&str; 30] = [
    "a",
    "b",
    "list",
    "any",
    "text",
    "kind",
    "whole",
    "number",
    "table",
    "on",
    "",
    "a/b",
    "~",
    "~1",
    "jsonrpc",
    "id",
    "method",
    "params",
    "result",
    "error",
    "name",
    "arguments",
    "_meta",
    "progressToken",
    "turns",
    "requestId",
    "reason",
    "cursor",
    "level",
    "a name of more than sixty characters, which is too long to be repeated in full",
];

const TEXTS: [&str; 32] = [
    "",
    "a",
    "b",
    "é",
    "\n",
    "abcd",
    "a1",
    "\u{1f600}",
    "\"\\/",
    "2.0",
    "1.0",
    "initialize",
    "ping",
    "tools/list",
    "tools/call",
    "logging/setLevel",
    "shutdown",
    "server/discover",
    "exit",
    "$/cancel",
    "$/shutdown",
    "notifications/cancelled",
    "notifications/initialized",
    "2024-11-05",
    "2025-03-26",
    "2025-06-18",
    "2025-11-25",
    "echo",
    "later",
    "never",
    "ask",
    "tool0",
];

/// Bytes that are significant in one of the two encodings, or to a line.
const PIECES: [&[u8]; 34] = [
    b"{",
    b"}",
    b"[",
    b"]",
    b":",
    b",",
    b"\"",
    b"\\",
    b"|",
    b"\r",
    b"\n",
    b"\n\n",
    b"\r\n",
    b" ",
    b"1e400",
    b"-0",
    b"1.0",
    b"8.0000000000000006291",
    b"12345678901234567890",
    b"\"\\ud800\"",
    b"\\u0061",
    b"\xc3",
    b"\0",
    // NaN, infinity, undefined, a tag, bytes, a break, and texts, lists and maps of indefinite
    // length.
    b"\xf9\x7e\x00",
    b"\xf9\x7c\x00",
    b"\xf7",
    b"\xc1",
    b"\x41\x00",
    b"\xff",
    b"\x7f\x61a\xff",
    b"\x9f\xff",
    b"\xbf\xff",
    // The smallest and the largest integer of CBOR.
    b"\x3b\xff\xff\xff\xff\xff\xff\xff\xff",
    b"\x1b\xff\xff\xff\xff\xff\xff\xff\xff",
];
