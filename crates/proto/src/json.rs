//! Partial JSON decoding: finds the members and elements of a text and leaves each of them raw.
//!
//! The walk also validates everything it skips, without recursion and without allocating, so a text
//! that passed here once is well formed. It runs for every message and takes a fraction of the time
//! of a general parser. `tests/json.rs` compares its verdict with serde_json's on random texts.
//!
//! Every `after_*` function maps a position to the position after an element, or returns `None` if
//! the text is not JSON. serde_json then produces the error message.

use std::borrow::Cow;

use serde::de::IgnoredAny;

use crate::decode_error::{DecodeError, json_problem};
use crate::raw::{Raw, ValueKind};

pub(crate) fn kind(text: &str) -> ValueKind {
    match text.as_bytes().first() {
        Some(b'{') => ValueKind::Object,
        Some(b'[') => ValueKind::Array,
        Some(b'"') => ValueKind::String,
        Some(b't' | b'f') => ValueKind::Boolean,
        Some(b'n') => ValueKind::Null,
        Some(b'-' | b'0'..=b'9') => ValueKind::Number,
        _ => ValueKind::Other,
    }
}

/// Calls `visit` with the name and the value of every member of an object, in order.
#[inline]
pub(crate) fn each_member<'a, E: From<DecodeError>>(
    text: &'a str,
    mut visit: impl FnMut(Name<'a>, &'a str) -> Result<(), E>,
) -> Result<(), E> {
    let mut stopped = None;
    let walked = whole_object(text, |name, start| {
        let end = after_value(text.as_bytes(), start)?;
        match visit(name, slice(text, start, end)) {
            Ok(()) => Some(end),
            Err(error) => {
                stopped = Some(error);
                None
            }
        }
    });
    stopped.map_or_else(|| Ok(walked?), Err)
}

/// Finds the members of an envelope and the common members of its params in one walk.
pub(crate) fn envelope<'a, const N: usize, const M: usize>(
    text: &'a str,
    names: [&str; N],
    params_at: usize,
    params_names: [&str; M],
) -> Result<Envelope<'a, N, M>, DecodeError> {
    let bytes = text.as_bytes();
    let mut found = Envelope { members: MemberValues::new(), params: MemberValues::new() };
    whole_object(text, |name, start| {
        let Some(index) = name.position(&names) else { return after_value(bytes, start) };
        let end = if index == params_at && byte(bytes, start) == b'{' {
            after_object(text, start, |name, start| {
                let end = after_value(bytes, start)?;
                if let Some(index) = name.position(&params_names) {
                    found.params.insert(index, slice(text, start, end));
                }
                Some(end)
            })?
        } else {
            after_value(bytes, start)?
        };
        found.members.insert(index, slice(text, start, end));
        Some(end)
    })?;
    Ok(found)
}

/// The result of [`envelope`].
pub(crate) struct Envelope<'a, const N: usize, const M: usize> {
    pub(crate) members: MemberValues<'a, N>,
    pub(crate) params: MemberValues<'a, M>,
}

/// Values of members, in the order of the names searched for.
pub(crate) struct MemberValues<'a, const N: usize> {
    pub(crate) values: [Option<Raw<'a>>; N],
    /// The first name that appeared twice.
    pub(crate) duplicate: Option<usize>,
}

impl<'a, const N: usize> MemberValues<'a, N> {
    fn new() -> Self {
        Self { values: [None; N], duplicate: None }
    }

    #[inline]
    fn insert(&mut self, index: usize, value: &'a str) {
        if self.values[index].replace(Raw::Json(value)).is_some() {
            self.duplicate.get_or_insert(index);
        }
    }
}

/// Walks a text that must be exactly one object.
#[inline]
fn whole_object<'a>(
    text: &'a str,
    step: impl FnMut(Name<'a>, usize) -> Option<usize>,
) -> Result<(), DecodeError> {
    let bytes = text.as_bytes();
    let start = after_space(bytes, 0);
    if byte(bytes, start) != b'{' {
        return Err(unexpected_type(text, "expected an object"));
    }
    let at = after_object(text, start, step).ok_or_else(|| syntax_error(text))?;
    end(text, after_space(bytes, at))
}

/// Returns the end of the object that begins here. `step` receives every name and the start of its
/// value, and returns the value's end.
#[inline]
fn after_object<'a>(
    text: &'a str,
    start: usize,
    mut step: impl FnMut(Name<'a>, usize) -> Option<usize>,
) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = after_space(bytes, start + 1);
    if byte(bytes, at) == b'}' {
        return Some(at + 1);
    }
    loop {
        let (quoted, value) = after_name(bytes, at)?;
        let end = step(Name(slice(text, at, quoted)), value)?;
        at = after_space(bytes, end);
        if !continues(bytes, at, b'}')? {
            return Some(at + 1);
        }
        at = after_space(bytes, at + 1);
    }
}

/// Calls `visit` with every element of an array, in order.
pub(crate) fn each_element<'a, E: From<DecodeError>>(
    text: &'a str,
    mut visit: impl FnMut(&'a str) -> Result<(), E>,
) -> Result<(), E> {
    let bytes = text.as_bytes();
    let mut at = after_space(bytes, 0);
    if byte(bytes, at) != b'[' {
        return Err(unexpected_type(text, "expected an array").into());
    }
    at = after_space(bytes, at + 1);
    let mut more = byte(bytes, at) != b']';
    at += usize::from(!more);
    while more {
        let end = after_value(bytes, at).ok_or_else(|| syntax_error(text))?;
        visit(slice(text, at, end))?;
        at = after_space(bytes, end);
        more = continues(bytes, at, b']').ok_or_else(|| syntax_error(text))?;
        at = after_space(bytes, at + 1);
    }
    Ok(end(text, at)?)
}

/// A member name, including its quotes.
#[derive(Clone, Copy)]
pub(crate) struct Name<'a>(&'a str);

impl<'a> Name<'a> {
    /// Returns the decoded name.
    pub(crate) fn text(self) -> Cow<'a, str> {
        text(self.0).unwrap_or(Cow::Borrowed(self.0))
    }

    /// Returns whether this is `name`, written without escapes.
    #[inline]
    pub(crate) fn is(self, name: &str) -> bool {
        &self.0[1..self.0.len() - 1] == name
    }

    /// Returns the index of this name in `names`.
    #[inline]
    pub(crate) fn position<T: AsRef<str>>(self, names: &[T]) -> Option<usize> {
        let name = &self.0[1..self.0.len() - 1];
        let found = names.iter().position(|wanted| wanted.as_ref() == name);
        if found.is_none() && name.as_bytes().contains(&b'\\') {
            let name = text(self.0)?;
            return names.iter().position(|wanted| wanted.as_ref() == name);
        }
        found
    }
}

/// Decodes a JSON string.
pub(crate) fn text(raw: &str) -> Option<Cow<'_, str>> {
    let inner = raw.strip_prefix('"')?.strip_suffix('"')?;
    if !inner.as_bytes().contains(&b'\\') {
        return Some(Cow::Borrowed(inner));
    }
    serde_json::from_str(raw).ok().map(Cow::Owned)
}

/// Returns an upper bound on the number of values in a well-formed text: one, and one more after
/// every comma or opening bracket.
pub(crate) fn count(text: &str) -> usize {
    let bytes = text.as_bytes();
    let (mut at, mut values) = (0, 1);
    while at < bytes.len() {
        match bytes[at] {
            b'"' => at = after_string(bytes, at).unwrap_or(bytes.len()),
            found => {
                values += usize::from(matches!(found, b',' | b'[' | b'{'));
                at += 1;
            }
        }
    }
    values
}

/// Validates a whole text.
pub(crate) fn check(text: &str) -> Result<(), DecodeError> {
    let bytes = text.as_bytes();
    let start = after_space(bytes, 0);
    let at = after_value(bytes, start).ok_or_else(|| syntax_error(text))?;
    end(text, after_space(bytes, at))
}

/// Returns the end of the value that begins here.
#[inline]
fn after_value(bytes: &[u8], at: usize) -> Option<usize> {
    match byte(bytes, at) {
        b'"' => after_string(bytes, at),
        b'{' | b'[' => after_container(bytes, at),
        _ => after_plain(bytes, at),
    }
}

/// Returns the end of the object or array that begins here.
fn after_container(bytes: &[u8], mut at: usize) -> Option<usize> {
    let mut nesting = Nesting::default();
    loop {
        at = match byte(bytes, at) {
            b'"' => after_string(bytes, at)?,
            opening @ (b'{' | b'[') => {
                let is_object = opening == b'{';
                at = after_space(bytes, at + 1);
                if byte(bytes, at) == if is_object { b'}' } else { b']' } {
                    at + 1
                } else {
                    nesting.open(is_object);
                    if is_object {
                        at = after_name(bytes, at)?.1;
                    }
                    continue;
                }
            }
            _ => after_plain(bytes, at)?,
        };
        // Close the containers that end here. If one continues, so does the walk.
        loop {
            let Some(in_object) = nesting.innermost() else { return Some(at) };
            at = after_space(bytes, at);
            if continues(bytes, at, if in_object { b'}' } else { b']' })? {
                at = after_space(bytes, at + 1);
                if in_object {
                    at = after_name(bytes, at)?.1;
                }
                break;
            }
            at += 1;
            nesting.close();
        }
    }
}

/// Returns whether another member or element follows, or `false` if the container ends here.
#[inline]
fn continues(bytes: &[u8], at: usize, end: u8) -> Option<bool> {
    match byte(bytes, at) {
        b',' => Some(true),
        found if found == end => Some(false),
        _ => None,
    }
}

/// Returns the end of the name that begins here, and the start of its value.
#[inline]
fn after_name(bytes: &[u8], at: usize) -> Option<(usize, usize)> {
    if byte(bytes, at) != b'"' {
        return None;
    }
    let quoted = after_string(bytes, at)?;
    let colon = after_space(bytes, quoted);
    (byte(bytes, colon) == b':').then(|| (quoted, after_space(bytes, colon + 1)))
}

/// Returns the end of the string whose opening quote is here.
#[inline]
fn after_string(bytes: &[u8], mut at: usize) -> Option<usize> {
    at += 1;
    loop {
        // Skip eight bytes at a time while none of them is special.
        while let Some(chunk) = bytes.get(at..).and_then(<[u8]>::first_chunk) {
            let special = special_bytes(u64::from_le_bytes(*chunk));
            at += special.trailing_zeros() as usize / 8;
            if special != 0 {
                break;
            }
        }
        match byte(bytes, at) {
            b'"' => return Some(at + 1),
            b'\\' => at = after_escape(bytes, at)?,
            0..b' ' => return None,
            _ => at += 1,
        }
    }
}

fn after_escape(bytes: &[u8], at: usize) -> Option<usize> {
    match byte(bytes, at + 1) {
        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Some(at + 2),
        b'u' => {
            let digits = bytes.get(at + 2..at + 6)?;
            digits.iter().all(u8::is_ascii_hexdigit).then_some(at + 6)
        }
        _ => None,
    }
}

/// Returns the end of the number or literal that begins here.
#[inline]
fn after_plain(bytes: &[u8], at: usize) -> Option<usize> {
    match byte(bytes, at) {
        b'-' | b'0'..=b'9' => after_number(bytes, at),
        b't' => bytes[at..].starts_with(b"true").then_some(at + 4),
        b'f' => bytes[at..].starts_with(b"false").then_some(at + 5),
        b'n' => bytes[at..].starts_with(b"null").then_some(at + 4),
        _ => None,
    }
}

#[inline]
fn after_number(bytes: &[u8], mut at: usize) -> Option<usize> {
    at += usize::from(byte(bytes, at) == b'-');
    at = if byte(bytes, at) == b'0' { at + 1 } else { after_digits(bytes, at)? };
    if byte(bytes, at) == b'.' {
        at = after_digits(bytes, at + 1)?;
    }
    if matches!(byte(bytes, at), b'e' | b'E') {
        at += 1;
        at += usize::from(matches!(byte(bytes, at), b'+' | b'-'));
        at = after_digits(bytes, at)?;
    }
    Some(at)
}

#[inline]
fn after_digits(bytes: &[u8], start: usize) -> Option<usize> {
    let mut at = start;
    while byte(bytes, at).is_ascii_digit() {
        at += 1;
    }
    (at > start).then_some(at)
}

#[inline]
fn after_space(bytes: &[u8], mut at: usize) -> usize {
    while byte(bytes, at) <= b' ' && matches!(byte(bytes, at), b' ' | b'\t' | b'\n' | b'\r') {
        at += 1;
    }
    at
}

/// Returns the byte at a position. Past the end it is zero, which never occurs in JSON.
#[inline]
fn byte(bytes: &[u8], at: usize) -> u8 {
    bytes.get(at).copied().unwrap_or_default()
}

#[inline]
fn slice(text: &str, start: usize, end: usize) -> &str {
    text.get(start..end).expect("values begin and end at ASCII characters")
}

fn end(text: &str, at: usize) -> Result<(), DecodeError> {
    if at < text.len() { Err(syntax_error(text)) } else { Ok(()) }
}

#[cold]
fn unexpected_type(text: &str, expected: &str) -> DecodeError {
    match check(text) {
        Ok(()) => DecodeError::Shape(expected.to_owned()),
        Err(error) => error,
    }
}

/// Returns the syntax error of a text that is known to be invalid.
#[cold]
fn syntax_error(text: &str) -> DecodeError {
    match serde_json::from_str::<IgnoredAny>(text) {
        Err(error) => DecodeError::Syntax(json_problem(&error)),
        Ok(_) => DecodeError::Syntax("the text is not JSON".to_owned()),
    }
}

/// A stack of open containers, one bit each: set for an object, clear for an array.
#[derive(Default)]
struct Nesting {
    innermost: u64,
    depth: usize,
    /// Words of 64 levels pushed out by inner ones. Rarely used.
    outer: Vec<u64>,
}

impl Nesting {
    fn open(&mut self, is_object: bool) {
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.outer.push(self.innermost);
        }
        self.innermost = self.innermost << 1 | u64::from(is_object);
        self.depth += 1;
    }

    fn close(&mut self) {
        self.depth -= 1;
        self.innermost >>= 1;
        if self.depth.is_multiple_of(64)
            && let Some(word) = self.outer.pop()
        {
            self.innermost = word;
        }
    }

    fn innermost(&self) -> Option<bool> {
        (self.depth > 0).then_some(self.innermost & 1 == 1)
    }
}

/// Sets the top bit of the first byte that is a quote, a backslash or a control character.
///
/// Only the first mark is reliable; bytes after it may be marked wrongly.
#[inline]
fn special_bytes(word: u64) -> u64 {
    const ONES: u64 = u64::MAX / 255;
    const TOPS: u64 = ONES << 7;
    let zero_bytes = |word: u64| word.wrapping_sub(ONES) & !word;
    let quotes = zero_bytes(word ^ (ONES * b'"' as u64));
    let backslashes = zero_bytes(word ^ (ONES * b'\\' as u64));
    let controls = word.wrapping_sub(ONES * b' ' as u64) & !word;
    (quotes | backslashes | controls) & TOPS
}
