//! Regular expressions that match in time linear in the text.

use std::sync::Arc;

use mcp_flow_schema::Cache;
use regex::{Regex, RegexBuilder};

/// A regular expression without look-around and back references.
///
/// It is validated when created and compiled when used: most patterns of a workflow are never used,
/// and a compiled one takes more memory than the rest of the workflow. The most recently used are
/// cached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    source: Box<str>,
    flags: Box<str>,
}

impl Pattern {
    /// Creates a pattern with flags as in JavaScript: `i`, `m`, `s`, `x`, and some without effect.
    pub fn new(source: &str, flags: &str) -> Result<Self, String> {
        Self::weigh(source, flags).map(|(pattern, _)| pattern)
    }

    /// Creates a pattern that is known to be valid.
    pub(crate) fn trusted(source: &str, flags: &str) -> Self {
        Self { source: source.into(), flags: flags.into() }
    }

    /// Creates a pattern and returns the approximate bytes it takes compiled.
    pub(crate) fn weigh(source: &str, flags: &str) -> Result<(Self, usize), String> {
        let known = |flag: char| "imsxguy".contains(flag);
        if let Some(flag) = flags.chars().find(|flag| !known(*flag)) {
            return Err(format!("the flag {flag:?} is unknown; use i, m, s or x"));
        }
        let pattern = Self::trusted(source, flags);
        let compiled = pattern.compiled().map_err(|error| explain(&error))?;
        Ok((pattern, compiled.weight))
    }

    /// Returns the source.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Returns the flags as written.
    pub fn flags(&self) -> &str {
        &self.flags
    }

    /// Returns whether the pattern matches somewhere in a text.
    pub fn is_match(&self, text: &str) -> bool {
        self.compiled().is_ok_and(|compiled| compiled.regex.is_match(text))
    }

    fn compiled(&self) -> Result<Arc<Compiled>, regex::Error> {
        static COMPILED: Cache<String, Compiled> = Cache::new(MAX_KEPT);
        // Repeated flags and flags without effect share a cache entry.
        let flags: String = "imsx".chars().filter(|flag| self.flags.contains(*flag)).collect();
        let key = format!("{flags}/{}", self.source);
        COMPILED.get_or_try(key.as_str(), || Compiled::of(&self.source, &flags))
    }
}

struct Compiled {
    regex: Regex,
    /// Approximate bytes, with a surcharge for sources that take long to parse.
    weight: usize,
}

impl Compiled {
    /// Compiles a pattern with the smallest sufficient size limit; the compiler does not report the
    /// size.
    fn of(source: &str, flags: &str) -> Result<Self, regex::Error> {
        let mut bounds = BOUNDS.into_iter();
        loop {
            let bound = bounds.next().unwrap_or(MAX_BYTES);
            match compile(source, flags, bound) {
                Ok(regex) => return Ok(Self { regex, weight: bound + source.len() * PER_BYTE }),
                Err(regex::Error::CompiledTooBig(_)) if bound < MAX_BYTES => {}
                Err(error) => return Err(error),
            }
        }
    }
}

fn compile(source: &str, flags: &str, bound: usize) -> Result<Regex, regex::Error> {
    let has = |flag| flags.contains(flag);
    RegexBuilder::new(source)
        .case_insensitive(has('i'))
        .multi_line(has('m'))
        .dot_matches_new_line(has('s'))
        .ignore_whitespace(has('x'))
        .size_limit(bound)
        .dfa_size_limit(MAX_BYTES)
        .nest_limit(MAX_DEPTH)
        .build()
}

/// Returns the last line of the compiler's error, which has the reason.
fn explain(error: &regex::Error) -> String {
    let text = error.to_string();
    let line = text.lines().last().unwrap_or_default().trim().trim_start_matches("error: ");
    format!("the pattern cannot be used: {line}")
}

/// Limit on the bytes of a compiled pattern.
pub(crate) const MAX_BYTES: usize = 1024 * 1024;

/// Size limits to try in turn; most patterns are small.
const BOUNDS: [usize; 3] = [MAX_BYTES / 64, MAX_BYTES / 8, MAX_BYTES];

/// Weight of each byte of the source.
const PER_BYTE: usize = 256;

/// Limit on the cached patterns.
const MAX_KEPT: usize = 32;

/// Limit on the nesting depth.
const MAX_DEPTH: u32 = 50;

#[cfg(test)]
mod tests {
    use super::Pattern;

    #[test]
    fn invalid_patterns_are_rejected_when_read() {
        for (source, flags, expected) in [
            ("^a+$", "", None),
            ("A", "gi", None),
            ("(", "", Some("unclosed group")),
            ("(?=a)", "", Some("look-around")),
            (r"(a)\1", "", Some("backreferences")),
            ("a", "q", Some("flag 'q'")),
            (r"(\w{100}){1000}", "", Some("size")),
        ] {
            let error = Pattern::new(source, flags).err();
            let matches = match (&error, expected) {
                (None, None) => true,
                (Some(error), Some(expected)) => error.contains(expected),
                _ => false,
            };
            assert!(matches, "{source}: {error:?}");
        }
        assert!(Pattern::new("^b$", "im").unwrap().is_match("a\nB\nc"));
    }
}
