//! JSON read in pieces: members and elements of a text, each left raw.
//!
//! The walk that finds them also checks the syntax of everything it steps over, without recursion
//! and without allocating, so a text that came through here once is known to be well formed. It
//! is on the path of every message, where it takes a fraction of the time of a general parser;
//! `tests/json.rs` holds it to serde_json's verdict on random texts.
//!
//! Every step is a function from a position to the position after it, or `None` where the text is
//! not JSON. What exactly is wrong with it is then for serde_json to say.

use std::borrow::Cow;

use serde::de::IgnoredAny;

use crate::raw::{DecodeError, Kind, Raw};

pub(crate) fn kind(text: &str) -> Kind {
    match text.as_bytes().first() {
        Some(b'{') => Kind::Object,
        Some(b'[') => Kind::Array,
        Some(b'"') => Kind::String,
        Some(b't' | b'f') => Kind::Boolean,
        Some(b'n') => Kind::Null,
        Some(b'-' | b'0'..=b'9') => Kind::Number,
        _ => Kind::Other,
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

/// The members of a message's envelope, and of its params those that most methods ask for, found
/// in one walk.
pub(crate) fn envelope<'a, const N: usize, const M: usize>(
    text: &'a str,
    names: [&str; N],
    params_at: usize,
    params_names: [&str; M],
) -> Result<Envelope<'a, N, M>, DecodeError> {
    let bytes = text.as_bytes();
    let mut found = Envelope { members: Found::new(), params: Found::new() };
    whole_object(text, |name, start| {
        let Some(index) = name.position(&names) else { return after_value(bytes, start) };
        let end = if index == params_at && byte(bytes, start) == b'{' {
            after_object(text, start, |name, start| {
                let end = after_value(bytes, start)?;
                if let Some(index) = name.position(&params_names) {
                    found.params.note(index, slice(text, start, end));
                }
                Some(end)
            })?
        } else {
            after_value(bytes, start)?
        };
        found.members.note(index, slice(text, start, end));
        Some(end)
    })?;
    Ok(found)
}

/// What [`envelope`] finds.
pub(crate) struct Envelope<'a, const N: usize, const M: usize> {
    pub(crate) members: Found<'a, N>,
    pub(crate) params: Found<'a, M>,
}

/// The values of members looked for by name.
pub(crate) struct Found<'a, const N: usize> {
    pub(crate) values: [Option<Raw<'a>>; N],
    /// The first of the names that appeared twice.
    pub(crate) twice: Option<usize>,
}

impl<'a, const N: usize> Found<'a, N> {
    fn new() -> Self {
        Self { values: [None; N], twice: None }
    }

    #[inline]
    fn note(&mut self, index: usize, value: &'a str) {
        if self.values[index].replace(Raw::Json(value)).is_some() {
            self.twice.get_or_insert(index);
        }
    }
}

/// Walks a text that is one object and nothing else.
#[inline]
fn whole_object<'a>(
    text: &'a str,
    step: impl FnMut(Name<'a>, usize) -> Option<usize>,
) -> Result<(), DecodeError> {
    let bytes = text.as_bytes();
    let start = after_space(bytes, 0);
    if byte(bytes, start) != b'{' {
        return Err(not_a(text, "expected an object"));
    }
    let at = after_object(text, start, step).ok_or_else(|| fault(text))?;
    end(text, after_space(bytes, at))
}

/// The end of the object that begins here. `step` is given every name and where its value begins,
/// and says where it ends.
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
        if !goes_on(bytes, at, b'}')? {
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
        return Err(not_a(text, "expected an array").into());
    }
    at = after_space(bytes, at + 1);
    let mut more = byte(bytes, at) != b']';
    at += usize::from(!more);
    while more {
        let end = after_value(bytes, at).ok_or_else(|| fault(text))?;
        visit(slice(text, at, end))?;
        at = after_space(bytes, end);
        more = goes_on(bytes, at, b']').ok_or_else(|| fault(text))?;
        at = after_space(bytes, at + 1);
    }
    Ok(end(text, at)?)
}

/// The name of a member, with its quotes.
#[derive(Clone, Copy)]
pub(crate) struct Name<'a>(&'a str);

impl Name<'_> {
    /// Whether it is this one, written without escapes.
    #[inline]
    pub(crate) fn is(self, name: &str) -> bool {
        &self.0[1..self.0.len() - 1] == name
    }

    /// Where the name stands among others.
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

/// The text a JSON string stands for.
pub(crate) fn text(raw: &str) -> Option<Cow<'_, str>> {
    let inner = raw.strip_prefix('"')?.strip_suffix('"')?;
    if !inner.as_bytes().contains(&b'\\') {
        return Some(Cow::Borrowed(inner));
    }
    serde_json::from_str(raw).ok().map(Cow::Owned)
}

/// How many values a well-formed text holds: one, and one more after every comma or opening.
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

/// Checks the syntax of a whole text.
pub(crate) fn check(text: &str) -> Result<(), DecodeError> {
    let bytes = text.as_bytes();
    let start = after_space(bytes, 0);
    let at = after_value(bytes, start).ok_or_else(|| fault(text))?;
    end(text, after_space(bytes, at))
}

/// The end of the value that begins here.
#[inline]
fn after_value(bytes: &[u8], at: usize) -> Option<usize> {
    match byte(bytes, at) {
        b'"' => after_string(bytes, at),
        b'{' | b'[' => after_container(bytes, at),
        _ => after_plain(bytes, at),
    }
}

/// The end of the object or array that begins here, with all it holds.
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
        // Close what ends here; if something goes on, so does the walk.
        loop {
            let Some(in_object) = nesting.innermost() else { return Some(at) };
            at = after_space(bytes, at);
            if goes_on(bytes, at, if in_object { b'}' } else { b']' })? {
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

/// After a member or element: whether another follows, or the container ends.
#[inline]
fn goes_on(bytes: &[u8], at: usize, end: u8) -> Option<bool> {
    match byte(bytes, at) {
        b',' => Some(true),
        found if found == end => Some(false),
        _ => None,
    }
}

/// The end of the name that begins here, and the start of the value that follows.
#[inline]
fn after_name(bytes: &[u8], at: usize) -> Option<(usize, usize)> {
    if byte(bytes, at) != b'"' {
        return None;
    }
    let quoted = after_string(bytes, at)?;
    let colon = after_space(bytes, quoted);
    (byte(bytes, colon) == b':').then(|| (quoted, after_space(bytes, colon + 1)))
}

/// The end of the string whose opening quote is here.
#[inline]
fn after_string(bytes: &[u8], mut at: usize) -> Option<usize> {
    at += 1;
    loop {
        // Eight bytes at a time, as long as none of them needs a look.
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

/// The end of the number or word that begins here.
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

/// The byte at a position; zero, which no JSON text may hold, past the end.
#[inline]
fn byte(bytes: &[u8], at: usize) -> u8 {
    bytes.get(at).copied().unwrap_or_default()
}

#[inline]
fn slice(text: &str, start: usize, end: usize) -> &str {
    text.get(start..end).expect("values begin and end at ASCII characters")
}

fn end(text: &str, at: usize) -> Result<(), DecodeError> {
    if at < text.len() { Err(fault(text)) } else { Ok(()) }
}

#[cold]
fn not_a(text: &str, expected: &str) -> DecodeError {
    match check(text) {
        Ok(()) => DecodeError::Shape(expected.to_owned()),
        Err(error) => error,
    }
}

/// Says what is wrong with a text that is known to be no JSON.
#[cold]
fn fault(text: &str) -> DecodeError {
    match serde_json::from_str::<IgnoredAny>(text) {
        Err(error) => DecodeError::Syntax(error.to_string()),
        Ok(_) => DecodeError::Syntax("the text is not JSON".to_owned()),
    }
}

/// Which containers are open, one bit each: set for an object, clear for an array.
#[derive(Default)]
struct Nesting {
    innermost: u64,
    depth: usize,
    /// Words of 64 levels that the innermost ones pushed out; hardly ever used.
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
/// Bytes after the first one found may be marked wrongly, which is why only the first counts.
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
