//! JSON read in pieces: members and elements of a text, each left raw.
//!
//! The walk that finds them also checks the syntax of everything it steps over, without recursion
//! and without allocating, so a text that came through here once is known to be well formed. It
//! is on the path of every message, where it takes about a third of the time of a general parser;
//! `tests/json.rs` holds it to serde_json's verdict on random texts.

use std::borrow::Cow;

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

pub(crate) fn members<'a, const N: usize>(
    text: &'a str,
    names: [&str; N],
) -> Result<[Option<Raw<'a>>; N], DecodeError> {
    let mut walk = Walk::new(text);
    if walk.peek() != Some(b'{') {
        check(text)?;
        return Err(DecodeError::Shape("expected an object".to_owned()));
    }
    let mut found = [None; N];
    walk.position += 1;
    if !walk.eat(b'}') {
        loop {
            let name = walk.name()?;
            let value = walk.value()?;
            let is_it = |wanted: &&str| self::text(name).is_some_and(|name| name == **wanted);
            if let Some(index) = names.iter().position(is_it)
                && found[index].replace(Raw::Json(value)).is_some()
            {
                return Err(DecodeError::Shape(format!("`{}` appears twice", names[index])));
            }
            if !walk.goes_on(b'}')? {
                break;
            }
        }
    }
    walk.end()?;
    Ok(found)
}

pub(crate) fn elements(text: &str) -> Result<Vec<Raw<'_>>, DecodeError> {
    let mut walk = Walk::new(text);
    if walk.peek() != Some(b'[') {
        check(text)?;
        return Err(DecodeError::Shape("expected an array".to_owned()));
    }
    let mut elements = Vec::new();
    walk.position += 1;
    if !walk.eat(b']') {
        loop {
            elements.push(Raw::Json(walk.value()?));
            if !walk.goes_on(b']')? {
                break;
            }
        }
    }
    walk.end()?;
    Ok(elements)
}

/// The text a JSON string stands for.
pub(crate) fn text(raw: &str) -> Option<Cow<'_, str>> {
    let inner = raw.strip_prefix('"')?.strip_suffix('"')?;
    if !inner.as_bytes().contains(&b'\\') {
        return Some(Cow::Borrowed(inner));
    }
    serde_json::from_str(raw).ok().map(Cow::Owned)
}

/// Checks the syntax of a whole text.
pub(crate) fn check(text: &str) -> Result<(), DecodeError> {
    let mut walk = Walk::new(text);
    walk.value()?;
    walk.end()
}

/// A place in a text, moving forward.
struct Walk<'a> {
    text: &'a str,
    position: usize,
}

impl<'a> Walk<'a> {
    fn new(text: &'a str) -> Self {
        let mut walk = Self { text, position: 0 };
        walk.skip_space();
        walk
    }

    /// Steps over one value and the space around it, and returns the value.
    fn value(&mut self) -> Result<&'a str, DecodeError> {
        self.skip_space();
        let start = self.position;
        let mut nesting = Nesting::default();
        loop {
            self.skip_space();
            match self.peek() {
                Some(b'"') => self.skip_string()?,
                Some(b'{') => {
                    self.position += 1;
                    if !self.eat(b'}') {
                        nesting.open(true);
                        self.name()?;
                        continue;
                    }
                }
                Some(b'[') => {
                    self.position += 1;
                    if !self.eat(b']') {
                        nesting.open(false);
                        continue;
                    }
                }
                Some(b'-' | b'0'..=b'9') => self.skip_number()?,
                Some(b't') => self.skip_word("true")?,
                Some(b'f') => self.skip_word("false")?,
                Some(b'n') => self.skip_word("null")?,
                _ => return Err(self.unexpected("a value")),
            }
            if self.close(&mut nesting)? {
                break;
            }
        }
        let end = self.position;
        self.skip_space();
        Ok(&self.text[start..end])
    }

    /// After a value: closes what ends here. Returns whether everything is closed.
    fn close(&mut self, nesting: &mut Nesting) -> Result<bool, DecodeError> {
        while let Some(in_object) = nesting.innermost() {
            self.skip_space();
            if self.goes_on(if in_object { b'}' } else { b']' })? {
                if in_object {
                    self.name()?;
                }
                return Ok(false);
            }
            nesting.close();
        }
        Ok(true)
    }

    /// After a member or element: whether another follows, or the container ends.
    fn goes_on(&mut self, end: u8) -> Result<bool, DecodeError> {
        match self.peek() {
            Some(b',') => {
                self.position += 1;
                Ok(true)
            }
            Some(byte) if byte == end => {
                self.position += 1;
                Ok(false)
            }
            _ => Err(self.unexpected("a comma or the end of what was opened")),
        }
    }

    /// Steps over a member's name and its colon, and returns the name with its quotes.
    fn name(&mut self) -> Result<&'a str, DecodeError> {
        self.skip_space();
        let start = self.position;
        if self.peek() != Some(b'"') {
            return Err(self.unexpected("a name in quotes"));
        }
        self.skip_string()?;
        let name = &self.text[start..self.position];
        self.skip_space();
        if self.peek() != Some(b':') {
            return Err(self.unexpected("a colon"));
        }
        self.position += 1;
        Ok(name)
    }

    fn skip_string(&mut self) -> Result<(), DecodeError> {
        self.position += 1;
        loop {
            self.position += plain_length(&self.bytes()[self.position..]);
            match self.peek() {
                Some(b'"') => {
                    self.position += 1;
                    return Ok(());
                }
                Some(b'\\') => self.skip_escape()?,
                Some(_) => return Err(self.unexpected("no control character in a text")),
                None => return Err(self.unexpected("a closing quote")),
            }
        }
    }

    fn skip_escape(&mut self) -> Result<(), DecodeError> {
        let rest = &self.bytes()[self.position + 1..];
        let length = match rest.first() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => 2,
            Some(b'u') if rest.len() > 4 && rest[1..5].iter().all(u8::is_ascii_hexdigit) => 6,
            _ => return Err(self.unexpected("a good escape")),
        };
        self.position += length;
        Ok(())
    }

    fn skip_number(&mut self) -> Result<(), DecodeError> {
        if self.peek() == Some(b'-') {
            self.position += 1;
        }
        match self.peek() {
            Some(b'0') => self.position += 1,
            _ => self.skip_digits()?,
        }
        if self.peek() == Some(b'.') {
            self.position += 1;
            self.skip_digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.position += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.position += 1;
            }
            self.skip_digits()?;
        }
        Ok(())
    }

    fn skip_digits(&mut self) -> Result<(), DecodeError> {
        let rest = &self.bytes()[self.position..];
        match rest.iter().take_while(|byte| byte.is_ascii_digit()).count() {
            0 => Err(self.unexpected("a digit")),
            count => {
                self.position += count;
                Ok(())
            }
        }
    }

    fn skip_word(&mut self, word: &str) -> Result<(), DecodeError> {
        if !self.bytes()[self.position..].starts_with(word.as_bytes()) {
            return Err(self.unexpected("a value"));
        }
        self.position += word.len();
        Ok(())
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.position += 1;
        }
    }

    /// Steps over a byte if it is the next one after space.
    fn eat(&mut self, byte: u8) -> bool {
        self.skip_space();
        let found = self.peek() == Some(byte);
        self.position += usize::from(found);
        found
    }

    fn end(&mut self) -> Result<(), DecodeError> {
        self.skip_space();
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.unexpected("nothing more")),
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes().get(self.position).copied()
    }

    fn bytes(&self) -> &'a [u8] {
        self.text.as_bytes()
    }

    fn unexpected(&self, expected: &str) -> DecodeError {
        let found = match self.text.get(self.position..).and_then(|rest| rest.chars().next()) {
            Some(character) => format!("{character:?}"),
            None => "the end".to_owned(),
        };
        let place = self.position + 1;
        DecodeError::Syntax(format!("expected {expected} at byte {place}, found {found}"))
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

/// How many bytes from the start need no look: no quote, no backslash, no control character.
fn plain_length(bytes: &[u8]) -> usize {
    const EIGHT: usize = 8;
    let mut length = 0;
    let mut chunks = bytes.chunks_exact(EIGHT);
    for chunk in chunks.by_ref() {
        let word = u64::from_le_bytes(chunk.try_into().expect("chunks are eight bytes long"));
        let special = special_bytes(word);
        if special != 0 {
            return length + special.trailing_zeros() as usize / EIGHT;
        }
        length += EIGHT;
    }
    let is_plain = |byte: &&u8| **byte >= b' ' && **byte != b'"' && **byte != b'\\';
    length + chunks.remainder().iter().take_while(is_plain).count()
}

/// Sets the top bit of the first byte that is a quote, a backslash or a control character.
///
/// Bytes after the first one found may be marked wrongly, which is why only the first counts.
fn special_bytes(word: u64) -> u64 {
    const ONES: u64 = u64::MAX / 255;
    const TOPS: u64 = ONES << 7;
    let zero_bytes = |word: u64| word.wrapping_sub(ONES) & !word;
    let quotes = zero_bytes(word ^ (ONES * b'"' as u64));
    let backslashes = zero_bytes(word ^ (ONES * b'\\' as u64));
    let controls = word.wrapping_sub(ONES * b' ' as u64) & !word;
    (quotes | backslashes | controls) & TOPS
}
