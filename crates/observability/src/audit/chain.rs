//! The hash chain of lines.

use std::time::SystemTime;

use mcp_flow_seal::KeyRing;
use ring::digest::{Context, SHA256};
use serde::{Deserialize, Serialize};

use super::entry::{Entry, written};

/// The end of a chain, to which lines are appended.
#[derive(Debug)]
pub(super) struct Chain {
    keys: Option<KeyRing>,
    /// The sequence number of the last line.
    pub(super) sequence: u64,
    /// The hash of the last line.
    pub(super) last: Hash,
}

/// 32 bytes; written as 64 hexadecimal digits.
pub(super) type Hash = [u8; 32];

/// The chain fields of a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) sequence: u64,
    pub(super) previous: Hash,
    pub(super) hash: Hash,
    /// The hash of an incomplete line that a killed process left before this one.
    pub(super) torn: Option<Hash>,
}

#[derive(Serialize)]
struct Line<'a> {
    seq: u64,
    time: String,
    #[serde(flatten)]
    entry: &'a Entry,
    previous: String,
}

#[derive(Deserialize)]
struct Read<'a> {
    seq: u64,
    previous: &'a str,
    #[serde(default)]
    torn: Option<&'a str>,
}

impl Chain {
    pub(super) fn new(keys: Option<KeyRing>, sequence: u64, last: Hash) -> Self {
        Self { keys, sequence, last }
    }

    /// Appends a line.
    pub(super) fn add(&mut self, out: &mut Vec<u8>, time: SystemTime, entry: &Entry) {
        let previous = hex(&self.last);
        let line = Line { seq: self.sequence + 1, time: written(time), entry, previous };
        let start = out.len();
        serde_json::to_writer(&mut *out, &line).expect("a line has only texts and numbers");
        // The closing brace follows the hash.
        out.pop();
        self.last = match &self.keys {
            Some(keys) => keys.sign(PURPOSE, &out[start..]),
            None => sha256(&out[start..]),
        };
        self.sequence += 1;
        out.extend_from_slice(HASH);
        out.extend_from_slice(hex(&self.last).as_bytes());
        out.extend_from_slice(b"\"}\n");
    }
}

impl Link {
    /// Reads a line without its line break, if its hash is valid.
    pub(super) fn read(line: &[u8], keys: Option<&KeyRing>) -> Option<Self> {
        let length = line.len().checked_sub(HASH.len() + 64 + 2)?;
        let (body, tail) = line.split_at(length);
        let tail = tail.strip_prefix(HASH)?.strip_suffix(b"\"}")?;
        let hash = unhex(std::str::from_utf8(tail).ok()?)?;
        let is_good = match keys {
            Some(keys) => keys.verify(PURPOSE, body, &hash).is_ok(),
            None => sha256(body) == hash,
        };
        if !is_good {
            return None;
        }
        let Read { seq: sequence, previous, torn } = serde_json::from_slice(line).ok()?;
        let torn = match torn {
            Some(torn) => Some(unhex(torn)?),
            None => None,
        };
        Some(Self { sequence, previous: unhex(previous)?, hash, torn })
    }
}

pub(super) fn sha256(bytes: &[u8]) -> Hash {
    let mut context = Context::new(&SHA256);
    context.update(bytes);
    let mut hash = Hash::default();
    hash.copy_from_slice(context.finish().as_ref());
    hash
}

pub(super) fn hex(hash: &Hash) -> String {
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// One spelling per hash: 64 lowercase digits.
pub(super) fn unhex(text: &str) -> Option<Hash> {
    let digits = text.as_bytes();
    let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if digits.len() != 64 || !digits.iter().all(is_digit) {
        return None;
    }
    let mut hash = Hash::default();
    for (byte, at) in hash.iter_mut().zip((0..).step_by(2)) {
        *byte = u8::from_str_radix(&text[at..at + 2], 16).ok()?;
    }
    Some(hash)
}

/// The previous hash of the first line.
pub(super) const BEGINNING: Hash = [0; 32];

/// Longer than any line written: names have at most 256 bytes, each up to six in JSON.
pub(super) const MAX_LINE_LENGTH: usize = 16 * 1024;

const HASH: &[u8] = b",\"hash\":\"";

const PURPOSE: &str = "mcp-flow audit 1";
