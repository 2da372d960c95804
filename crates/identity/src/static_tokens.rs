//! Static bearer tokens and their principals.
//!
//! Only hashes are kept. A lookup takes time that depends on what was sent, not on what is stored:
//! hashes are found by a keyed hash and compared in constant time.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::{fmt, fs, io};

use mcp_flow_principal::{Principal, TokenRejected, Verification, Verifier, check_name};
use ring::digest::{SHA256, digest};
use subtle::ConstantTimeEq;

/// Bearer tokens and their principals.
///
/// ```
/// use mcp_flow_identity::{StaticTokens, TokenHash};
/// use mcp_flow_principal::Principal;
///
/// let hash = TokenHash::of("a-long-and-random-text");
/// let tokens = StaticTokens::default().and(hash, Principal::named("ada")).unwrap();
/// assert_eq!(tokens.find("a-long-and-random-text"), Some(&Principal::named("ada")));
/// assert_eq!(tokens.find("another"), None);
/// ```
#[derive(Clone, Default)]
pub struct StaticTokens {
    known: HashMap<TokenHash, Principal>,
}

/// The SHA-256 of a token.
#[derive(Clone, Copy, Debug, Eq)]
pub struct TokenHash([u8; 32]);

impl TokenHash {
    /// The hash of a token.
    pub fn of(token: &str) -> Self {
        let mut hash = [0; 32];
        hash.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
        Self(hash)
    }

    /// Reads 64 hexadecimal digits.
    pub fn from_hex(text: &str) -> Option<Self> {
        let mut hash = [0; 32];
        if text.len() != 64 || !text.is_ascii() {
            return None;
        }
        for (index, byte) in hash.iter_mut().enumerate() {
            *byte = u8::from_str_radix(text.get(2 * index..2 * index + 2)?, 16).ok()?;
        }
        // `from_str_radix` accepts signs.
        text.bytes().all(|digit| digit.is_ascii_hexdigit()).then_some(Self(hash))
    }
}

impl PartialEq for TokenHash {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Hash for TokenHash {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl fmt::Display for TokenHash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

impl StaticTokens {
    /// Reads a file with one `name:token` per line. Blank lines and lines that begin with `#` are
    /// skipped.
    pub fn read(path: &Path) -> Result<Self, TokenError> {
        let text = fs::read_to_string(path)
            .map_err(|source| TokenError::Read { path: path.to_owned(), source })?;
        text.parse()
    }

    /// Adds a token by its hash.
    pub fn and(mut self, hash: TokenHash, principal: Principal) -> Result<Self, TokenError> {
        match self.known.insert(hash, principal) {
            None => Ok(self),
            Some(other) => Err(TokenError::Twice(other.name().to_owned())),
        }
    }

    /// Adds a token by its hash, replacing its principal if it exists.
    #[must_use]
    pub fn with(mut self, hash: TokenHash, principal: Principal) -> Self {
        self.known.insert(hash, principal);
        self
    }

    /// The principal of a token.
    pub fn find(&self, token: &str) -> Option<&Principal> {
        self.find_hash(TokenHash::of(token))
    }

    /// The principal of the token with this hash.
    pub fn find_hash(&self, hash: TokenHash) -> Option<&Principal> {
        self.known.get(&hash)
    }

    /// All tokens, by hash.
    pub fn iter(&self) -> impl Iterator<Item = (TokenHash, &Principal)> {
        self.known.iter().map(|(hash, principal)| (*hash, principal))
    }

    /// Returns whether there are no tokens.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }
}

impl FromIterator<(TokenHash, Principal)> for StaticTokens {
    fn from_iter<I: IntoIterator<Item = (TokenHash, Principal)>>(all: I) -> Self {
        Self { known: all.into_iter().collect() }
    }
}

impl Verifier for StaticTokens {
    fn verify<'a>(&'a self, token: &'a str) -> Verification<'a> {
        let known = self.find(token).ok_or(TokenRejected::Unknown);
        Verification::Now(known.and_then(|principal| match principal.is_valid() {
            true => Ok(principal.clone()),
            false => Err(TokenRejected::Expired),
        }))
    }

    fn is_still_valid(&self, principal: &Principal) -> bool {
        principal.is_valid()
    }
}

impl std::str::FromStr for StaticTokens {
    type Err = TokenError;

    fn from_str(text: &str) -> Result<Self, TokenError> {
        let mut tokens = Self::default();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let malformed = TokenError::Line(index + 1);
            let Some((name, token)) = line.split_once(':') else { return Err(malformed) };
            let (name, token) = (name.trim(), token.trim());
            if check_name(name).is_err() || token.len() < MIN_TOKEN_LENGTH {
                return Err(malformed);
            }
            tokens = tokens.and(TokenHash::of(token), Principal::named(name))?;
        }
        if tokens.is_empty() { Err(TokenError::Empty) } else { Ok(tokens) }
    }
}

impl fmt::Debug for StaticTokens {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.known.values()).finish()
    }
}

/// Error in a list of tokens.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// The file cannot be read.
    #[error("the token file {} cannot be read", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A line is malformed.
    #[error("line {0} of the token file must be name:token, the token of 16 characters or more")]
    Line(usize),
    /// There is no token.
    #[error("the token file holds no token; add a line name:token")]
    Empty,
    /// Two principals have the same token.
    #[error("{0} and another principal have the same token; give each its own")]
    Twice(String),
}

/// Shorter tokens could be guessed.
pub const MIN_TOKEN_LENGTH: usize = 16;

#[cfg(test)]
mod tests {
    use super::{Principal, StaticTokens, TokenHash};

    /// C-53: a token identifies a principal.
    #[test]
    fn a_token_identifies_its_principal() {
        let tokens: StaticTokens =
            "# people\nada: 0123456789abcdef\n\nbob:fedcba9876543210:x".parse().unwrap();
        for (token, name) in [
            ("0123456789abcdef", Some("ada")),
            ("fedcba9876543210:x", Some("bob")),
            ("0123456789abcde", None),
            ("0123456789abcdef0", None),
            ("", None),
        ] {
            let found = tokens.find(token);
            assert_eq!(found.map(Principal::name), name, "{token}");
        }
        for text in [
            "",
            "ada",
            "ada:short",
            ":0123456789abcdef",
            "local:0123456789abcdef",
            "ada:0123456789abcdef\nbob:0123456789abcdef",
        ] {
            assert!(text.parse::<StaticTokens>().is_err(), "{text}");
        }
    }

    #[test]
    fn hashes_are_read_as_they_are_written() {
        let hash = TokenHash::of("abc");
        let text = hash.to_string();
        assert_eq!(text, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(TokenHash::from_hex(&text), Some(hash));
        assert_eq!(TokenHash::from_hex(&text.to_uppercase()), Some(hash));
        for bad in ["", "ab", &text[1..], &format!("+{}", &text[1..]), &"é".repeat(32)] {
            assert_eq!(TokenHash::from_hex(bad), None, "{bad}");
        }
    }
}
