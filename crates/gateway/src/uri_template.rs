//! Matching of URIs against the templates of upstreams.

/// A URI template of an upstream (RFC 6570), as far as routing needs it: literals in order, with
/// anything between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TemplatePattern {
    literals: Vec<String>,
}

impl TemplatePattern {
    /// Parses a template; `None` if it has no scheme or no expression, and so would match anything
    /// or nothing.
    pub(crate) fn parse(template: &str) -> Option<Self> {
        let mut literals = Vec::new();
        let mut rest = template;
        while let Some((literal, after)) = rest.split_once('{') {
            let (expression, behind) = after.split_once('}')?;
            // A query expands to a question mark, or to nothing.
            if literals.len() >= MAX_EXPRESSIONS || expression.is_empty() {
                return None;
            }
            literals.push(literal.to_owned());
            rest = behind;
        }
        if literals.is_empty() || !literals.first()?.contains(':') {
            return None;
        }
        literals.push(rest.to_owned());
        Some(Self { literals })
    }

    /// Number of characters before the first expression: of two templates, the one with more is the
    /// narrower one.
    pub(crate) fn literal_prefix(&self) -> usize {
        self.literals.first().map_or(0, String::len)
    }

    /// Returns whether a URI can be an expansion of the template.
    pub(crate) fn matches(&self, uri: &str) -> bool {
        let [first, between @ .., last] = self.literals.as_slice() else { return false };
        let Some(mut rest) = uri.strip_prefix(first.as_str()) else { return false };
        for literal in between {
            match rest.find(literal.as_str()) {
                Some(start) => rest = &rest[start + literal.len()..],
                None => return false,
            }
        }
        rest.ends_with(last.as_str())
    }
}

/// Returns whether a text begins with a scheme (RFC 3986) and has no characters that no URI has.
pub(crate) fn has_scheme(uri: &str) -> bool {
    let Some((scheme, _)) = uri.split_once(':') else { return false };
    let is_valid = |letter: char| letter.is_ascii_alphanumeric() || "+-.".contains(letter);
    scheme.starts_with(|letter: char| letter.is_ascii_alphabetic())
        && scheme.chars().all(is_valid)
        && !uri.contains(|letter: char| letter.is_control() || letter.is_whitespace())
}

const MAX_EXPRESSIONS: usize = 64;

#[cfg(test)]
mod tests {
    use super::{TemplatePattern, has_scheme};

    #[test]
    fn uris_begin_with_a_scheme() {
        for uri in ["x:", "note://day/{day}", "a+b-c.1:/x", "file:///é"] {
            assert!(has_scheme(uri), "{uri:?}");
        }
        for bad in ["", "x", ":x", "1x:/a", "{s}:/a", "x:/a b", "x:/\u{1b}[31m", "a/b:c"] {
            assert!(!has_scheme(bad), "{bad:?}");
        }
    }

    #[test]
    fn templates_match_their_expansions() {
        for (template, uri, matches) in [
            ("a://x/{id}", "a://x/7", true),
            ("a://x/{id}", "a://y/7", false),
            ("a://x/{id}/end", "a://x/7/end", true),
            ("a://x/{id}/end", "a://x/7/other", false),
            ("a://{a}/m/{b}", "a://1/m/2", true),
            ("a://{a}/m/{b}", "a://1/n/2", false),
            ("a://x{?q,r}", "a://x?q=1", true),
            ("a://x{?q,r}", "a://x", true),
            ("a://x/{+path}", "a://x/b/c", true),
        ] {
            let pattern = TemplatePattern::parse(template).unwrap();
            assert_eq!(pattern.matches(uri), matches, "{template} {uri}");
        }
        for bad in ["a://x", "{all}", "a://{", "a://{}", "x/{a}"] {
            assert_eq!(TemplatePattern::parse(bad), None, "{bad}");
        }
    }
}
