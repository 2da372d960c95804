//! One key, and how keys are written.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hkdf::{HKDF_SHA256, KeyType, Salt};
use zeroize::Zeroizing;

/// A secret of 32 bytes. It is wiped from memory when dropped and never shown.
#[derive(Clone)]
pub struct Key {
    secret: Zeroizing<[u8; Self::LENGTH]>,
    id: KeyId,
}

/// What a seal says about the key it was made with.
pub(crate) type KeyId = [u8; 4];

impl Key {
    /// How many bytes a key has.
    pub const LENGTH: usize = 32;

    /// A key from bytes that nobody can guess.
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

    /// The key as it stands in a file: 43 characters of URL-safe base64.
    pub(crate) fn to_text(&self) -> Zeroizing<String> {
        Zeroizing::new(URL_SAFE_NO_PAD.encode(self.secret()))
    }

    pub(crate) fn from_text(text: &str) -> Option<Self> {
        let mut secret = Zeroizing::new([0; Self::LENGTH]);
        // One byte more, so that a text of a longer key does not pass for a shorter one.
        let mut bytes = Zeroizing::new([0; Self::LENGTH + 1]);
        let length = URL_SAFE_NO_PAD.decode_slice(text, &mut *bytes).ok()?;
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

/// Why a text holds no keys.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadKeys {
    /// There is no key in it.
    #[error("there is no key; write one of 43 characters, 32 random bytes in URL-safe base64")]
    None,
    /// One of them is none. Its text is not repeated here, since it may nearly be one.
    #[error("key {0} must be 43 characters, 32 bytes in URL-safe base64 without padding")]
    Malformed(usize),
    /// There are more than a ring takes.
    #[error("there are more than {0} keys; remove the oldest, which are last")]
    TooMany(usize),
}

/// The id is derived in a way of its own, so it says nothing about the seals made with the key.
fn derive_id(secret: &[u8]) -> KeyId {
    let mut id = KeyId::default();
    Salt::new(HKDF_SHA256, b"mcp-flow key id")
        .extract(secret)
        .expand(&[], IdLength)
        .and_then(|derived| derived.fill(&mut id))
        .expect("HKDF can make four bytes");
    id
}

struct IdLength;

impl KeyType for IdLength {
    fn len(&self) -> usize {
        size_of::<KeyId>()
    }
}
