//! Challenges of servers, for Bearer and DPoP tokens (RFC 6750, RFC 9449, RFC 9728).

use hyper::HeaderMap;
use hyper::header::WWW_AUTHENTICATE;

/// Parameters of the challenges for tokens, as written in a `WWW-Authenticate` header.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Challenge {
    /// URL of the protected resource metadata, perhaps relative to the server's.
    pub(crate) resource_metadata: Option<String>,
    scope: Option<String>,
    error: Option<String>,
    /// Set if there is a DPoP challenge.
    pub(crate) offers_dpop: bool,
    /// Set if there is a DPoP challenge and no Bearer challenge.
    pub(crate) requires_dpop: bool,
}

impl Challenge {
    /// Reads the Bearer and DPoP challenges in a header, which may hold challenges of other schemes
    /// too. Of a parameter that both have, the first counts.
    ///
    /// Lenient: values need not be quoted, and semicolons separate like commas.
    pub(crate) fn parse(header: &str) -> Option<Self> {
        let mut found: Option<Self> = None;
        let mut is_ours = false;
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
                let is_dpop = word.eq_ignore_ascii_case("dpop");
                is_ours = is_dpop || word.eq_ignore_ascii_case("bearer");
                if is_ours {
                    let is_first = found.is_none();
                    let challenge = found.get_or_insert_default();
                    challenge.offers_dpop |= is_dpop;
                    challenge.requires_dpop = is_dpop && (is_first || challenge.requires_dpop);
                }
                rest = after;
                continue;
            };
            let Some((value, after)) = read_value(value.trim_start()) else { return found };
            if let Some(challenge) = found.as_mut().filter(|_| is_ours) {
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

    /// Returns whether a proof of possession must contain the nonce of the response.
    pub(crate) fn wants_nonce(&self) -> bool {
        self.error.as_deref() == Some("use_dpop_nonce")
    }

    /// Returns whether a proof of possession is invalid, which a new token does not change.
    pub(crate) fn is_invalid_proof(&self) -> bool {
        self.error.as_deref() == Some("invalid_dpop_proof")
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

/// Joins the headers with challenges for tokens, those first that name the metadata.
pub(crate) fn join(headers: &[String]) -> Option<String> {
    let parsed = headers.iter().filter_map(|text| Some((text, Challenge::parse(text)?)));
    let mut parsed: Vec<_> = parsed.collect();
    parsed.sort_by_key(|(_, challenge)| challenge.resource_metadata.is_none());
    let texts: Vec<_> = parsed.into_iter().map(|(text, _)| text.as_str()).collect();
    (!texts.is_empty()).then(|| texts.join(", "))
}

/// Joins the headers with challenges for tokens of a response.
pub(crate) fn join_of(headers: &HeaderMap) -> Option<String> {
    let headers = headers.get_all(WWW_AUTHENTICATE).iter();
    let headers: Vec<_> =
        headers.filter_map(|value| value.to_str().ok().map(str::to_owned)).collect();
    join(&headers)
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
    use super::{Challenge, join};

    fn check(header: &str, resource_metadata: &str, scope: &str, error: &str) {
        let found = Challenge::parse(header).unwrap();
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let found = [text(&found.resource_metadata), text(&found.scope), text(&found.error)];
        assert_eq!(found, [resource_metadata, scope, error], "{header}");
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
        check(r#"Bearer scope="a", DPoP algs="ES256", error="b""#, "", "a", "b");
        check(r#"DPoP error="use_dpop_nonce", resource_metadata="r""#, "r", "", "use_dpop_nonce");
        check("Negotiate dG9rZW4=, Bearer scope=a", "", "a", "");
        // A malformed parameter ends parsing; the parameters before it count.
        check(r#"Bearer scope="a", error="b"#, "", "a", "");
        check(r#"Bearer scope="a", error="b\"#, "", "a", "");
        check("Bearer ,= =x, scope=a", "", "a", "");
        for other in ["", "Basic realm=x", "=", "Bearer = x", "Bearerish scope=a", r#"scope="a""#] {
            assert_eq!(Challenge::parse(other), None, "{other}");
        }
    }

    /// A server that sends a DPoP challenge only accepts nothing else.
    #[test]
    fn dpop_is_offered_or_required() {
        for (header, expected) in [
            ("Bearer", (false, false)),
            ("DPoP algs=ES256", (true, true)),
            ("Bearer, DPoP algs=ES256", (true, false)),
            ("DPoP algs=ES256, Bearer", (true, false)),
            ("Basic realm=x, DPoP algs=ES256", (true, true)),
        ] {
            let found = Challenge::parse(header).unwrap();
            assert_eq!((found.offers_dpop, found.requires_dpop), expected, "{header}");
        }
    }

    /// MCP-089: all challenges for tokens count, and one that names metadata comes first.
    #[test]
    fn a_challenge_that_names_metadata_comes_first() {
        let (plain, first, second) =
            ("Bearer scope=a", "DPoP resource_metadata=b", "Bearer resource_metadata=c");
        for (headers, expected) in [
            (&["Basic", plain, first, second][..], Some([first, second, plain].join(", "))),
            (&["Basic", plain], Some(plain.to_owned())),
            (&["Basic"], None),
        ] {
            let headers: Vec<_> = headers.iter().map(|&text| text.to_owned()).collect();
            assert_eq!(join(&headers), expected);
        }
    }
}
