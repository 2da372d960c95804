//! Keys and their text form.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hkdf::{HKDF_SHA256, KeyType, Salt};
use zeroize::Zeroizing;

/// Secret key of 32 bytes. Wiped from memory on drop and never displayed.
#[derive(Clone)]
pub struct Key {
    secret: Zeroizing<[u8; Self::LENGTH]>,
    id: KeyId,
}

/// Public id of a key.
pub(crate) type KeyId = [u8; 4];

impl Key {
    /// Bytes of a key.
    pub const LENGTH: usize = 32;

    /// Creates a key from random bytes.
    pub fn from_bytes(secret: [u8; Self::LENGTH]) -> Self {
        let secret = Zeroizing::new(secret);
        let id = derive_id(secret.as_slice());
        Self { secret, id }
    }

    pub(crate) fn id(&self) -> KeyId {
        self.id
    }

    pub(crate) fn secret(&self) -> &[u8] {
        &*self.secret
    }

    /// Returns the text form: 43 characters of URL-safe base64.
    pub(crate) fn to_text(&self) -> Zeroizing<String> {
        Zeroizing::new(URL_SAFE_NO_PAD.encode(self.secret()))
    }

    /// Reads a key from the forms that tools write: base64 of either alphabet with or without its
    /// padding, or hexadecimal.
    pub(crate) fn from_text(text: &str) -> Option<Self> {
        let mut secret = Zeroizing::new([0; Self::LENGTH]);
        if text.len() == 2 * Self::LENGTH && text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            for (byte, digits) in secret.iter_mut().zip(text.as_bytes().chunks(2)) {
                let digits = std::str::from_utf8(digits).ok()?;
                *byte = u8::from_str_radix(digits, 16).ok()?;
            }
            return Some(Self::from_bytes(*secret));
        }
        let text = Zeroizing::new(text.trim_end_matches('=').replace('+', "-").replace('/', "_"));
        // One byte more, so that a longer key is not truncated.
        let mut bytes = Zeroizing::new([0; Self::LENGTH + 1]);
        let length = URL_SAFE_NO_PAD.decode_slice(text.as_bytes(), &mut *bytes).ok()?;
        if length != Self::LENGTH {
            return None;
        }
        secret.copy_from_slice(&bytes[..Self::LENGTH]);
        Some(Self::from_bytes(*secret))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Key").finish_non_exhaustive()
    }
}

/// Reason a text is not a list of keys.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadKeys {
    /// There is no key in it.
    #[error(
        "there is no key; write 32 random bytes in base64 or hexadecimal, as from \
         `openssl rand -hex 32`"
    )]
    None,
    /// One of them is malformed. Its text is not repeated: it may be a key with a typo.
    #[error("key {0} must be 32 bytes in base64 or hexadecimal, as from `openssl rand -hex 32`")]
    Malformed(usize),
    /// There are more keys than a ring holds.
    #[error("there are more than {0} keys; remove the oldest, which are last")]
    TooMany(usize),
}

/// Derives the id with its own salt, so that it reveals nothing about seals of the key.
fn derive_id(secret: &[u8]) -> KeyId {
    let mut id = KeyId::default();
    Salt::new(HKDF_SHA256, b"mcp-flow key id")
        .extract(secret)
        .expand(&[], IdLength)
        .and_then(|derived| derived.fill(&mut id))
        .expect("HKDF can derive four bytes");
    id
}

struct IdLength;

impl KeyType for IdLength {
    fn len(&self) -> usize {
        size_of::<KeyId>()
    }
}
