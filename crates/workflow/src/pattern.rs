//! Patterns that are looked for in time proportional to the text.

use std::sync::Arc;

use mcp_flow_schema::Cache;
use regex::{Regex, RegexBuilder};

/// A regular expression without look-around and back references.
///
/// It is known to be good, and compiled when it is used: most patterns of most workflows never
/// are, and one takes more memory compiled than the rest of its workflow. Those used last are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    source: Box<str>,
    flags: Box<str>,
}

impl Pattern {
    /// A pattern with flags as JavaScript has them: `i`, `m`, `s`, `x`, and some without effect.
    pub fn new(source: &str, flags: &str) -> Result<Self, String> {
        Self::weigh(source, flags).map(|(pattern, _)| pattern)
    }

    /// The same, and about how many bytes it takes compiled.
    pub(crate) fn weigh(source: &str, flags: &str) -> Result<(Self, usize), String> {
        let known = |flag: char| "imsxguy".contains(flag);
        if let Some(flag) = flags.chars().find(|flag| !known(*flag)) {
            return Err(format!("the flag {flag:?} is unknown; use i, m, s or x"));
        }
        let pattern = Self { source: source.into(), flags: flags.into() };
        let compiled = pattern.compiled().map_err(|error| explain(&error))?;
        Ok((pattern, compiled.weight))
    }

    /// As it was written.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Its flags, as they were written.
    pub fn flags(&self) -> &str {
        &self.flags
    }

    /// Whether it is found in a text.
    pub fn is_match(&self, text: &str) -> bool {
        self.compiled().is_ok_and(|compiled| compiled.regex.is_match(text))
    }

    fn compiled(&self) -> Result<Arc<Compiled>, regex::Error> {
        static COMPILED: Cache<String, Compiled> = Cache::new(MOST_KEPT);
        // A flag that is given twice, or has no effect, does not make it another.
        let flags: String = "imsx".chars().filter(|flag| self.flags.contains(*flag)).collect();
        let key = format!("{flags}/{}", self.source);
        COMPILED.get_or_try(key.as_str(), || Compiled::of(&self.source, &flags))
    }
}

struct Compiled {
    regex: Regex,
    /// About how many bytes it takes, more for what takes long to be understood.
    weight: usize,
}

impl Compiled {
    /// Compiles a pattern within the smallest bound that is enough: how large it is cannot be asked.
    fn of(source: &str, flags: &str) -> Result<Self, regex::Error> {
        let mut bounds = BOUNDS.into_iter();
        loop {
            let bound = bounds.next().unwrap_or(LARGEST);
            match compile(source, flags, bound) {
                Ok(regex) => return Ok(Self { regex, weight: bound + source.len() * PER_BYTE }),
                Err(regex::Error::CompiledTooBig(_)) if bound < LARGEST => {}
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
        .dfa_size_limit(LARGEST)
        .nest_limit(DEEPEST)
        .build()
}

/// The last line of what the compiler says, which is the one that says it.
fn explain(error: &regex::Error) -> String {
    let text = error.to_string();
    let line = text.lines().last().unwrap_or_default().trim().trim_start_matches("error: ");
    format!("the pattern cannot be used: {line}")
}

/// How many bytes a compiled pattern may take.
pub(crate) const LARGEST: usize = 1024 * 1024;

/// The bounds that are tried; most patterns are small.
const BOUNDS: [usize; 3] = [LARGEST / 64, LARGEST / 8, LARGEST];

/// What a byte of the source adds to the weight.
const PER_BYTE: usize = 256;

/// How many compiled patterns are kept.
const MOST_KEPT: usize = 32;

/// How many levels it may nest.
const DEEPEST: u32 = 50;

#[cfg(test)]
mod tests {
    use super::Pattern;

    #[test]
    fn patterns_are_tried_when_they_are_read() {
        for (source, flags, told) in [
            ("^a+$", "", None),
            ("A", "gi", None),
            ("(", "", Some("unclosed group")),
            ("(?=a)", "", Some("look-around")),
            (r"(a)\1", "", Some("backreferences")),
            ("a", "q", Some("flag 'q'")),
            (r"(\w{100}){1000}", "", Some("size")),
        ] {
            let error = Pattern::new(source, flags).err();
            let matches = match (&error, told) {
                (None, None) => true,
                (Some(error), Some(told)) => error.contains(told),
                _ => false,
            };
            assert!(matches, "{source}: {error:?}");
        }
        assert!(Pattern::new("^b$", "im").unwrap().is_match("a\nB\nc"));
    }
}
