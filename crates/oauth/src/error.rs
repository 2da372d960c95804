//! Why there is no token, and what to do about it.

use std::path::PathBuf;

use mcp_flow_client::neutral;
use mcp_flow_client::transport::TransportError;
use url::form_urlencoded::byte_serialize;

/// Why nobody is logged in.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OAuthError {
    /// A person has to consent, and nobody is here who could ask them.
    #[error("{server} wants a login{}", Needing(.scopes))]
    LoginNeeded {
        /// The server.
        server: String,
        /// What has to be asked for; empty if the usual will do.
        scopes: Vec<String>,
    },

    /// What is no address of a server one can log in to.
    #[error("{0}")]
    BadServer(String),

    /// The server, or whoever gives out tokens for it, cannot be trusted with anything.
    #[error("{0}")]
    OutOfBounds(String),

    /// The server names nobody who gives out tokens for it.
    #[error("{0} asks for no login: it names nobody who gives out tokens for it")]
    NoLogin(String),

    /// Whoever was sent back to us was not sent by us, or came for another login.
    #[error("the answer belongs to another login; begin anew")]
    WrongState,

    /// The authorization server said no.
    #[error("the authorization server refused: {0}")]
    Refused(String),

    /// The authorization server could not be asked, or gave an answer that is none.
    #[error("{0}")]
    Failed(String),

    /// A key for signing cannot be used.
    #[error("the key cannot be used: {0}; it must be PKCS #8 in PEM, for ES256 or RS256")]
    Key(String),

    /// The file of tokens cannot be used.
    #[error("{} {what}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
}

/// The end of a sentence.
struct Needing<'a>(&'a [String]);

impl std::fmt::Display for Needing<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            [] => Ok(()),
            scopes => {
                let scopes = neutral::shorten(&scopes.join(" "), 200);
                write!(formatter, " that asks for more (--scope {scopes:?})")
            }
        }
    }
}

/// Prepares a text of somebody else's to be shown: a server that repeats what it was told in
/// confidence, as it is or as in a form, does not get it written down.
pub(crate) fn tell(text: &str, secrets: &[&str]) -> String {
    let secrets = secrets.iter().filter(|secret| !secret.is_empty());
    let text = secrets.fold(text.to_owned(), |text, secret| {
        let escaped: String = byte_serialize(secret.as_bytes()).collect();
        text.replace(secret, "(hidden)").replace(&escaped, "(hidden)")
    });
    neutral::shorten(&text, 300)
}

impl From<OAuthError> for TransportError {
    fn from(error: OAuthError) -> Self {
        let what = error.to_string();
        match error {
            // The authorization server may be there again in a moment.
            OAuthError::Failed(_) => Self::Unreachable { what, source: None },
            _ => Self::Unauthorized { what, challenge: None },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::tell;

    /// MCP-090: a secret is hidden however it is repeated.
    #[test]
    fn secrets_are_hidden() {
        for (text, expected) in [
            ("secret=a b&c", "secret=(hidden)"),
            ("secret=a+b%26c&x=y", "secret=(hidden)&x=y"),
            ("nothing", "nothing"),
        ] {
            assert_eq!(tell(text, &["a b&c", ""]), expected);
        }
    }
}
