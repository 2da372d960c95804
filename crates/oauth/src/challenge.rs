//! Bearer challenges of servers (RFC 6750, RFC 9728).

use hyper::HeaderMap;
use hyper::header::WWW_AUTHENTICATE;

/// Parameters of a Bearer challenge, as written in a `WWW-Authenticate` header.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Challenge {
    /// URL of the protected resource metadata, perhaps relative to the server's.
    pub(crate) resource_metadata: Option<String>,
    scope: Option<String>,
    error: Option<String>,
}

impl Challenge {
    /// Reads the Bearer challenge in a header, which may hold challenges of other schemes too.
    ///
    /// Lenient: values need not be quoted, and semicolons separate like commas.
    pub(crate) fn parse(header: &str) -> Option<Self> {
        let mut found = None;
        let mut is_bearer = false;
        let mut rest = header;
        loop {
            rest = rest.trim_start_matches(is_separator);
            if rest.is_empty() {
                return found;
            }
            let end = rest.find(|letter| letter == '=' || is_separator(letter));
            let (word, after) = rest.split_at(end.unwrap_or(rest.len()));
            let Some(value) = after.trim_start().strip_prefix('=') else {
                // Parameters have a value, so a word without one begins the next challenge.
                is_bearer = word.eq_ignore_ascii_case("bearer");
                if is_bearer {
                    found.get_or_insert_default();
                }
                rest = after;
                continue;
            };
            let Some((value, after)) = read_value(value.trim_start()) else { return found };
            if let Some(challenge) = found.as_mut().filter(|_| is_bearer) {
                challenge.set(word, value);
            }
            rest = after;
        }
    }

    /// Returns the scopes that the server asks for.
    pub(crate) fn scopes(&self) -> Vec<String> {
        let scope = self.scope.as_deref().unwrap_or_default();
        scope.split_whitespace().map(str::to_owned).collect()
    }

    /// Returns whether the token is valid but lacks a scope.
    pub(crate) fn is_insufficient_scope(&self) -> bool {
        self.error.as_deref() == Some("insufficient_scope")
    }

    fn set(&mut self, name: &str, value: String) {
        let parameter = match name.to_ascii_lowercase().as_str() {
            "resource_metadata" => &mut self.resource_metadata,
            "scope" => &mut self.scope,
            "error" => &mut self.error,
            _ => return,
        };
        parameter.get_or_insert(value);
    }
}

/// Picks the header with a Bearer challenge, preferring one that names the metadata.
pub(crate) fn bearer(headers: &[String]) -> Option<&str> {
    let challenges = headers.iter().filter_map(|text| Some((text, Challenge::parse(text)?)));
    let first = challenges.min_by_key(|(_, challenge)| challenge.resource_metadata.is_none());
    first.map(|(text, _)| text.as_str())
}

/// Picks the header with a Bearer challenge from those of a response.
pub(crate) fn bearer_of(headers: &HeaderMap) -> Option<String> {
    let headers = headers.get_all(WWW_AUTHENTICATE).iter();
    let headers: Vec<_> =
        headers.filter_map(|value| value.to_str().ok().map(str::to_owned)).collect();
    bearer(&headers).map(str::to_owned)
}

/// Reads a quoted or bare value, and returns the rest. `None` if the quotes are not closed.
fn read_value(text: &str) -> Option<(String, &str)> {
    let Some(quoted) = text.strip_prefix('"') else {
        let (value, rest) = text.split_at(text.find(is_separator).unwrap_or(text.len()));
        return Some((value.to_owned(), rest));
    };
    let mut value = String::new();
    let mut letters = quoted.char_indices();
    while let Some((position, letter)) = letters.next() {
        match letter {
            '"' => return Some((value, &quoted[position + 1..])),
            '\\' => value.push(letters.next()?.1),
            letter => value.push(letter),
        }
    }
    None
}

fn is_separator(letter: char) -> bool {
    letter == ',' || letter == ';' || letter.is_whitespace()
}

#[cfg(test)]
mod tests {
    use super::{Challenge, bearer};

    fn check(header: &str, resource_metadata: &str, scope: &str, error: &str) {
        let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let expected = Challenge {
            resource_metadata: text(resource_metadata),
            scope: text(scope),
            error: text(error),
        };
        assert_eq!(Challenge::parse(header), Some(expected), "{header}");
    }

    /// MCP-089: a challenge is read however it is spaced, quoted and mixed with others.
    #[test]
    fn challenges_are_read() {
        check("Bearer", "", "", "");
        check(r#"Bearer resource_metadata="https://a/b""#, "https://a/b", "", "");
        check("bearer RESOURCE_METADATA=https://a/b?c=d, scope=x", "https://a/b?c=d", "x", "");
        check(r#"Bearer error="insufficient_scope", scope="a b""#, "", "a b", "insufficient_scope");
        check(r#"Bearer error="x", error_description="scope=no, error=no""#, "", "", "x");
        check(r#"Bearer scope = "a" ; error = b"#, "", "a", "b");
        check(r#"Bearer scope="a \"b\" \\""#, "", r#"a "b" \"#, "");
        check(r#"Bearer scope="a", scope="b""#, "", "a", "");
        check(r#"Basic realm="x, Bearer scope=y", Bearer scope="a""#, "", "a", "");
        check(r#"Bearer scope="a", DPoP algs="ES256", error="b""#, "", "a", "");
        check("Negotiate dG9rZW4=, Bearer scope=a", "", "a", "");
        // A malformed parameter ends parsing; the parameters before it count.
        check(r#"Bearer scope="a", error="b"#, "", "a", "");
        check(r#"Bearer scope="a", error="b\"#, "", "a", "");
        check("Bearer ,= =x, scope=a", "", "a", "");
        for other in ["", "Basic realm=x", "=", "Bearer = x", "Bearerish scope=a", r#"scope="a""#] {
            assert_eq!(Challenge::parse(other), None, "{other}");
        }
    }

    /// MCP-089: a challenge that names metadata is preferred.
    #[test]
    fn a_challenge_that_names_metadata_comes_first() {
        let (plain, first, second) =
            ("Bearer scope=a", "Bearer resource_metadata=b", "Bearer resource_metadata=c");
        for (headers, expected) in [
            (&["Basic", plain, first, second][..], Some(first)),
            (&["Basic", plain], Some(plain)),
            (&["Basic"], None),
        ] {
            let headers: Vec<_> = headers.iter().map(|&text| text.to_owned()).collect();
            assert_eq!(bearer(&headers), expected);
        }
    }
}
