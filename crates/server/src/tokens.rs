//! Static bearer tokens: who may come in, and under which name.

use std::path::{Path, PathBuf};
use std::{fmt, fs, io};

use crate::identity::Principal;

/// Tokens and the principals they stand for.
#[derive(Clone)]
pub struct Tokens {
    known: Vec<(Principal, String)>,
}

impl Tokens {
    /// Reads a file with one `name:token` a line. Blank lines and those that begin with `#` are
    /// skipped.
    pub fn read(path: &Path) -> Result<Self, TokenError> {
        let text = fs::read_to_string(path)
            .map_err(|source| TokenError::Read { path: path.to_owned(), source })?;
        text.parse()
    }

    /// Whom a token stands for.
    ///
    /// All tokens are compared in full, so that the time it takes says nothing of how much of one
    /// was right.
    pub(crate) fn find(&self, token: &str) -> Option<Principal> {
        let mut found = None;
        for (principal, known) in &self.known {
            if is_equal(known.as_bytes(), token.as_bytes()) {
                found = Some(principal.clone());
            }
        }
        found
    }
}

impl std::str::FromStr for Tokens {
    type Err = TokenError;

    fn from_str(text: &str) -> Result<Self, TokenError> {
        let mut known = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let malformed = TokenError::Line(index + 1);
            let Some((name, token)) = line.split_once(':') else { return Err(malformed) };
            let (name, token) = (name.trim(), token.trim());
            if name.is_empty() || token.len() < SHORTEST {
                return Err(malformed);
            }
            known.push((Principal::named(name), token.to_owned()));
        }
        if known.is_empty() {
            return Err(TokenError::Empty);
        }
        Ok(Self { known })
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.known.iter().map(|(principal, _)| principal);
        formatter.debug_list().entries(names).finish()
    }
}

/// Whether two texts are the same, in time that depends on the first one's length only.
fn is_equal(known: &[u8], given: &[u8]) -> bool {
    let mut difference = usize::from(known.len() != given.len());
    for (index, byte) in known.iter().enumerate() {
        let other = given.get(index).copied().unwrap_or(!byte);
        difference |= usize::from(std::hint::black_box(byte ^ other));
    }
    std::hint::black_box(difference) == 0
}

/// Why tokens cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// The file cannot be read.
    #[error("the token file {} cannot be read", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A line is not what it should be.
    #[error("line {0} of the token file must be name:token, the token of 16 characters or more")]
    Line(usize),
    /// There are none.
    #[error("the token file holds no token, so nobody could come in")]
    Empty,
}

/// Shorter tokens could be guessed.
const SHORTEST: usize = 16;

#[cfg(test)]
mod tests {
    use super::{Principal, Tokens};

    /// C-53: a token stands for a principal.
    #[test]
    fn a_token_stands_for_its_principal() {
        let tokens: Tokens =
            "# people\nada: 0123456789abcdef\n\nbob:fedcba9876543210:x".parse().unwrap();
        for (token, name) in [
            ("0123456789abcdef", Some("ada")),
            ("fedcba9876543210:x", Some("bob")),
            ("0123456789abcde", None),
            ("0123456789abcdef0", None),
            ("", None),
        ] {
            let found = tokens.find(token);
            assert_eq!(found.as_ref().map(Principal::name), name, "{token}");
        }
        for text in ["", "ada", "ada:short", ":0123456789abcdef"] {
            assert!(text.parse::<Tokens>().is_err(), "{text}");
        }
    }
}
