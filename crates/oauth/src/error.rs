//! Errors of the OAuth client.

use std::path::PathBuf;

use mcp_flow_client::sanitize;
use mcp_flow_client::transport::TransportError;
use url::form_urlencoded::byte_serialize;

/// Failure of a login, refresh or logout.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OAuthError {
    /// A user must log in, and there is no user agent.
    #[error("{server} requires a login{}", Needing(.scopes))]
    LoginRequired {
        /// URL of the server.
        server: String,
        /// Scopes to request; empty for the default.
        scopes: Vec<String>,
    },

    /// The server URL is invalid.
    #[error("{0}")]
    InvalidServer(String),

    /// The server or its authorization server violates a security rule. Nothing secret was sent.
    #[error("{0}")]
    Untrusted(String),

    /// The server names no authorization server.
    #[error("{0} requires no login: it names no authorization server")]
    NoAuthorizationServer(String),

    /// The `state` of the redirect does not match.
    #[error("the response belongs to another login; start again")]
    StateMismatch,

    /// The authorization server rejected the request.
    #[error("the authorization server refused: {0}")]
    Refused(String),

    /// The authorization server cannot be reached, or its response is invalid. Retry later.
    #[error("{0}")]
    Failed(String),

    /// The private key cannot be used.
    #[error("the key cannot be used: {0}; it must be PKCS #8 in PEM, for ES256 or RS256")]
    Key(String),

    /// The assertion of a workload or an identity provider cannot be had.
    #[error("the assertion cannot be used: {0}")]
    Assertion(String),

    /// The token file cannot be used.
    #[error("{} {what}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Problem, as the end of a sentence.
        what: String,
    },
}

/// Formats the scopes of [`OAuthError::LoginRequired`].
struct Needing<'a>(&'a [String]);

impl std::fmt::Display for Needing<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            [] => Ok(()),
            scopes => {
                let scopes = sanitize::shorten(&scopes.join(" "), 200);
                write!(formatter, " with more scopes (--scope {scopes:?})")
            }
        }
    }
}

/// Prepares a text of a server to be shown: shortens it, and hides secrets that the server echoes,
/// plain or form-encoded.
pub(crate) fn redact(text: &str, secrets: &[&str]) -> String {
    let secrets = secrets.iter().filter(|secret| !secret.is_empty());
    let text = secrets.fold(text.to_owned(), |text, secret| {
        let escaped: String = byte_serialize(secret.as_bytes()).collect();
        text.replace(secret, "(hidden)").replace(&escaped, "(hidden)")
    });
    sanitize::shorten(&text, 300)
}

impl From<OAuthError> for TransportError {
    fn from(error: OAuthError) -> Self {
        let what = error.to_string();
        match error {
            // May be temporary.
            OAuthError::Failed(_) => Self::Unreachable { what, source: None },
            _ => Self::Unauthorized { what, challenge: None },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::redact;

    /// MCP-090: secrets are hidden, plain and form-encoded.
    #[test]
    fn secrets_are_hidden() {
        for (text, expected) in [
            ("secret=a b&c", "secret=(hidden)"),
            ("secret=a+b%26c&x=y", "secret=(hidden)&x=y"),
            ("nothing", "nothing"),
        ] {
            assert_eq!(redact(text, &["a b&c", ""]), expected);
        }
    }
}
