//! Sets of an upstream's tools, by pattern.

use wildmatch::WildMatchPattern;

/// A set of tools, where `*` matches any characters and a leading `!` excludes.
///
/// A pattern matches the name of a tool alone, or behind the name or the prefix of its upstream. A list that only
/// excludes contains everything else.
#[derive(Clone, Debug, Default)]
pub struct ToolPatterns {
    included: Vec<Pattern>,
    excluded: Vec<Pattern>,
}

type Pattern = WildMatchPattern<'*', '\0'>;

impl ToolPatterns {
    /// The tools that match one of these patterns and none that begins with `!`.
    pub fn new<T: AsRef<str>>(patterns: impl IntoIterator<Item = T>) -> Self {
        let mut set = Self::default();
        for pattern in patterns {
            match pattern.as_ref().strip_prefix('!') {
                Some(excluded) => set.excluded.push(Pattern::new(excluded)),
                None => set.included.push(Pattern::new(pattern.as_ref())),
            }
        }
        if set.included.is_empty() && !set.excluded.is_empty() {
            set.included.push(Pattern::new("*"));
        }
        set
    }

    /// Returns whether the set contains a tool, by any of the names it has at its upstream.
    pub(crate) fn contains(&self, prefixes: [&str; 2], names: &[&str]) -> bool {
        matches_any(&self.included, prefixes, names) && !self.excludes(prefixes, names)
    }

    pub(crate) fn excludes(&self, prefixes: [&str; 2], names: &[&str]) -> bool {
        matches_any(&self.excluded, prefixes, names)
    }
}

fn matches_any(patterns: &[Pattern], prefixes: [&str; 2], names: &[&str]) -> bool {
    names.iter().any(|name| {
        let full = prefixes.map(|prefix| format!("{prefix}.{name}"));
        let is_full = |pattern: &Pattern| full.iter().any(|full| pattern.matches(full));
        patterns.iter().any(|pattern| pattern.matches(name) || is_full(pattern))
    })
}

/// Tools whose calls a person approves.
#[derive(Clone, Debug, Default)]
pub struct ApprovalRules {
    /// Tools that need approval, and those that never do.
    patterns: ToolPatterns,
    /// Every tool needs approval unless it only reads, as it says itself.
    unless_read_only: bool,
}

impl ApprovalRules {
    /// Reads patterns; `unless-read-only` among them adds all tools that do not only read.
    pub fn new<T: AsRef<str>>(patterns: impl IntoIterator<Item = T>) -> Self {
        let patterns: Vec<T> = patterns.into_iter().collect();
        let is_rule = |pattern: &&T| pattern.as_ref() == UNLESS_READ_ONLY;
        let unless_read_only = patterns.iter().any(|pattern| is_rule(&pattern));
        let mut set = ToolPatterns::new(patterns.iter().filter(|pattern| !is_rule(pattern)));
        if unless_read_only && patterns.iter().all(|p| p.as_ref().starts_with('!') || is_rule(&p)) {
            // Exceptions from the rule, not from all tools.
            set.included.clear();
        }
        Self { patterns: set, unless_read_only }
    }

    /// Returns whether calls of a tool need approval. `only_reads` is what the tool says, if its
    /// upstream is trusted with that.
    pub(crate) fn apply_to(&self, prefixes: [&str; 2], names: &[&str], only_reads: bool) -> bool {
        let is_covered = self.unless_read_only && !only_reads;
        let is_named = matches_any(&self.patterns.included, prefixes, names);
        (is_covered || is_named) && !self.patterns.excludes(prefixes, names)
    }
}

/// Pattern for all tools that do not only read.
pub const UNLESS_READ_ONLY: &str = "unless-read-only";

#[cfg(test)]
mod tests {
    use super::{ApprovalRules, ToolPatterns};

    #[test]
    fn patterns_match_with_and_without_prefix() {
        for (patterns, name, is_in) in [
            (&["echo"][..], "echo", true),
            (&["up.echo"], "echo", true),
            (&["U p.echo"], "echo", true),
            (&["other.echo"], "echo", false),
            (&["*", "!up.read_*"], "read_file", false),
            (&["*", "!read_*"], "write_file", true),
            (&["!echo"], "echo", false),
            (&["!echo"], "add", true),
            (&[], "echo", false),
        ] {
            let set = ToolPatterns::new(patterns);
            assert_eq!(set.contains(["up", "U p"], &[name]), is_in, "{patterns:?} {name}");
        }
    }

    #[test]
    fn approval_follows_patterns_and_hints() {
        for (patterns, name, only_reads, needed) in [
            (&["unless-read-only"][..], "read", true, false),
            (&["unless-read-only"], "write", false, true),
            (&["unless-read-only", "!up.write"], "write", false, false),
            (&["unless-read-only", "!up.write"], "read", true, false),
            (&["unless-read-only", "secret"], "secret", true, true),
            (&["*", "!read"], "read", false, false),
            (&["*", "!read"], "write", true, true),
            (&[], "write", false, false),
        ] {
            let rules = ApprovalRules::new(patterns);
            let applies = rules.apply_to(["up", "U p"], &[name], only_reads);
            assert_eq!(applies, needed, "{patterns:?} {name}");
        }
    }
}
