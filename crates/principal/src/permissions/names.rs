//! Sets of names, by pattern.

use std::borrow::Cow;
use std::collections::HashSet;

use percent_encoding::percent_decode_str;
use wildmatch::WildMatchPattern;

/// A set of names, where `*` matches any characters and a leading `!` excludes.
///
/// URIs are compared unescaped, so that no other spelling bypasses a pattern.
#[derive(Clone, Debug, Default)]
pub struct Names {
    all: bool,
    exact: HashSet<Box<str>>,
    /// Prefixes of patterns whose only `*` is at the end: most are such, and they are checked with
    /// every call.
    prefixes: Vec<Box<str>>,
    wild: Vec<Pattern>,
    not: Vec<Pattern>,
}

/// `?` matches itself: it is part of URIs.
type Pattern = WildMatchPattern<'*', '\0'>;

impl Names {
    /// The names that match one of these patterns and none that begins with `!`.
    pub fn new<T: AsRef<str>>(patterns: impl IntoIterator<Item = T>) -> Self {
        let mut names = Self::default();
        for pattern in patterns {
            let pattern = without_escapes(pattern.as_ref());
            let prefix = pattern.strip_suffix('*').filter(|rest| !rest.contains('*'));
            match (pattern.strip_prefix('!'), prefix) {
                (Some(not), _) => names.not.push(Pattern::new(not)),
                (None, Some("")) => names.all = true,
                (None, Some(prefix)) => names.prefixes.push(prefix.into()),
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

    /// Returns whether a name is in the set.
    pub fn contains(&self, name: &str) -> bool {
        let is_in = self.all
            || self.exact.contains(name)
            || self.prefixes.iter().any(|prefix| name.starts_with(&**prefix))
            || self.wild.iter().any(|pattern| pattern.matches(name));
        is_in && !self.not.iter().any(|pattern| pattern.matches(name))
    }

    /// Returns whether every name is in the set.
    pub fn include_all(&self) -> bool {
        self.all && self.not.is_empty()
    }

    /// Returns whether the set is empty.
    pub fn is_empty(&self) -> bool {
        let is_any = self.all || !self.exact.is_empty() || !self.prefixes.is_empty();
        !is_any && self.wild.is_empty()
    }
}

/// A URI with percent-encoding removed.
pub(super) fn without_escapes(uri: &str) -> Cow<'_, str> {
    percent_decode_str(uri).decode_utf8_lossy()
}

#[cfg(test)]
mod tests {
    use super::Names;

    /// MCP-091: `*` matches any characters at any position, including none.
    #[test]
    fn a_star_matches_any_characters() {
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
            assert_eq!(Names::new([pattern]).contains(name), is_in, "{pattern} {name}");
        }
        let names = Names::new(["a*", "!ab*"]);
        assert!(names.contains("ac") && !names.contains("abc") && !names.is_empty());
    }
}
