//! Names by pattern.

use std::borrow::Cow;
use std::collections::HashSet;

use percent_encoding::percent_decode_str;
use wildmatch::WildMatchPattern;

/// Names, where `*` stands for any characters and `!` takes out again.
///
/// Patterns of URIs are compared without their escapes, so that no other spelling of one passes.
#[derive(Clone, Debug, Default)]
pub struct Names {
    all: bool,
    exact: HashSet<Box<str>>,
    /// What comes before the only `*` of patterns that end in it: most do, and with every call it is
    /// asked whether a tool is among them.
    beginnings: Vec<Box<str>>,
    wild: Vec<Pattern>,
    not: Vec<Pattern>,
}

/// `?` means itself: it is part of URIs.
type Pattern = WildMatchPattern<'*', '\0'>;

impl Names {
    /// Those that match one of these patterns and none that begins with `!`.
    pub fn new<T: AsRef<str>>(patterns: impl IntoIterator<Item = T>) -> Self {
        let mut names = Self::default();
        for pattern in patterns {
            let pattern = without_escapes(pattern.as_ref());
            let beginning = pattern.strip_suffix('*').filter(|rest| !rest.contains('*'));
            match (pattern.strip_prefix('!'), beginning) {
                (Some(not), _) => names.not.push(Pattern::new(not)),
                (None, Some("")) => names.all = true,
                (None, Some(beginning)) => names.beginnings.push(beginning.into()),
                (None, None) if pattern.contains('*') => names.wild.push(Pattern::new(&pattern)),
                (None, None) => _ = names.exact.insert(pattern.into()),
            }
        }
        names
    }

    /// Every name.
    pub fn all() -> Self {
        Self { all: true, ..Self::default() }
    }

    /// Whether a name is among them.
    pub fn have(&self, name: &str) -> bool {
        let is_in = self.all
            || self.exact.contains(name)
            || self.beginnings.iter().any(|beginning| name.starts_with(&**beginning))
            || self.wild.iter().any(|pattern| pattern.matches(name));
        is_in && !self.not.iter().any(|pattern| pattern.matches(name))
    }

    /// Whether every name is among them.
    pub fn are_all(&self) -> bool {
        self.all && self.not.is_empty()
    }

    /// Whether no name can be among them.
    pub fn are_none(&self) -> bool {
        let is_any = self.all || !self.exact.is_empty() || !self.beginnings.is_empty();
        !is_any && self.wild.is_empty()
    }
}

/// A URI with every character as itself.
pub(super) fn without_escapes(uri: &str) -> Cow<'_, str> {
    percent_decode_str(uri).decode_utf8_lossy()
}

#[cfg(test)]
mod tests {
    use super::Names;

    /// MCP-091: `*` stands for any characters wherever it is, and for none.
    #[test]
    fn a_star_stands_for_anything() {
        for (pattern, name, is_in) in [
            ("", "", true),
            ("", "a", false),
            ("*", "anything", true),
            ("a.*", "a.", true),
            ("a.*", "a.b", true),
            ("a.*", "b.a.", false),
            ("a*c*", "abc", true),
            ("a*c*", "ab", false),
            ("*c", "abc", true),
            ("*c", "cb", false),
        ] {
            assert_eq!(Names::new([pattern]).have(name), is_in, "{pattern} {name}");
        }
        let names = Names::new(["a*", "!ab*"]);
        assert!(names.have("ac") && !names.have("abc") && !names.are_none());
    }
}
