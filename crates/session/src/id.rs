//! Session ids and owners.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Id of a session, which clients send with every request.
///
/// Written as `session_` and 32 lowercase hexadecimal digits; no other spelling is accepted. The
/// 128 bits must come from a cryptographic source of randomness.
///
/// ```
/// use mcp_flow_session::SessionId;
///
/// let id = SessionId::from_random(0xabc);
/// assert_eq!(id.to_string(), "session_00000000000000000000000000000abc");
/// assert_eq!(id.to_string().parse(), Ok(id));
/// assert!("session_abc".parse::<SessionId>().is_err());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct SessionId(u128);

impl SessionId {
    /// Creates an id from random bits.
    pub const fn from_random(bits: u128) -> Self {
        Self(bits)
    }

    /// Returns the bits of the id.
    pub const fn bits(self) -> u128 {
        self.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{PREFIX}{:032x}", self.0)
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl FromStr for SessionId {
    type Err = BadSessionId;

    fn from_str(text: &str) -> Result<Self, BadSessionId> {
        let digits = text.strip_prefix(PREFIX).ok_or(BadSessionId)?;
        // One spelling per id: `from_str_radix` would also accept signs, capitals and fewer digits.
        let plain = digits.len() == 32
            && digits.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
        if !plain {
            return Err(BadSessionId);
        }
        u128::from_str_radix(digits, 16).map(Self).map_err(|_| BadSessionId)
    }
}

impl TryFrom<String> for SessionId {
    type Error = BadSessionId;

    fn try_from(text: String) -> Result<Self, BadSessionId> {
        text.parse()
    }
}

impl From<SessionId> for String {
    fn from(id: SessionId) -> Self {
        id.to_string()
    }
}

/// A string that is not a session id. Report the session as not found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a session id")]
pub struct BadSessionId;

/// Principal that a session belongs to. Other principals must not learn that it exists.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
#[serde(from = "String", into = "String")]
pub struct Owner(Arc<str>);

impl Owner {
    /// Creates an owner from the name of a principal.
    pub fn new(name: &str) -> Self {
        Self(name.into())
    }

    /// Returns the owner of all unauthenticated connections.
    pub fn local() -> Self {
        Self::new("local")
    }

    /// Returns the name of the principal.
    pub fn name(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl From<String> for Owner {
    fn from(name: String) -> Self {
        Self(name.into())
    }
}

impl From<Owner> for String {
    fn from(owner: Owner) -> Self {
        owner.0.as_ref().to_owned()
    }
}

const PREFIX: &str = "session_";

#[cfg(test)]
mod tests {
    use super::SessionId;

    /// INT-011: an id has exactly one spelling.
    #[test]
    fn other_spellings_are_rejected() {
        let digits = "0123456789abcdef0123456789abcdef";
        assert!(format!("session_{digits}").parse::<SessionId>().is_ok());
        for text in [
            digits.to_owned(),
            format!("Session_{digits}"),
            format!("session_{}", digits.to_uppercase()),
            format!("session_+{}", &digits[1..]),
            format!("session_{}", &digits[1..]),
            format!("session_{digits}0"),
            format!("session_{digits} "),
            String::new(),
        ] {
            assert!(text.parse::<SessionId>().is_err(), "{text}");
        }
    }
}
