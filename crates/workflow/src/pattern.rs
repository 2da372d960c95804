//! Patterns that are looked for in time proportional to the text.

use regex::{Regex, RegexBuilder};

/// A regular expression without look-around and back references.
///
/// It is known to be good, and compiled when it is used: most patterns of most workflows never
/// are, and one takes more memory compiled than the rest of its workflow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    source: Box<str>,
    flags: Box<str>,
}

impl Pattern {
    /// A pattern with flags as JavaScript has them: `i`, `m`, `s`, `x`, and some without effect.
    pub fn new(source: &str, flags: &str) -> Result<Self, String> {
        let known = |flag: char| "imsxguy".contains(flag);
        if let Some(flag) = flags.chars().find(|flag| !known(*flag)) {
            return Err(format!("the flag {flag:?} is unknown; use i, m, s or x"));
        }
        let pattern = Self { source: source.into(), flags: flags.into() };
        pattern.compile().map_err(|error| explain(&error))?;
        Ok(pattern)
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
        self.compile().is_ok_and(|regex| regex.is_match(text))
    }

    fn compile(&self) -> Result<Regex, regex::Error> {
        let has = |flag| self.flags.contains(flag);
        RegexBuilder::new(&self.source)
            .case_insensitive(has('i'))
            .multi_line(has('m'))
            .dot_matches_new_line(has('s'))
            .ignore_whitespace(has('x'))
            .size_limit(LARGEST)
            .nest_limit(DEEPEST)
            .build()
    }
}

/// The last line of what the compiler says, which is the one that says it.
fn explain(error: &regex::Error) -> String {
    let text = error.to_string();
    let line = text.lines().last().unwrap_or_default().trim().trim_start_matches("error: ");
    format!("the pattern cannot be used: {line}")
}

/// How many bytes a compiled pattern may take.
const LARGEST: usize = 1024 * 1024;

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
