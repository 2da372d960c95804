//! Signatures: authentication without encryption.

use ring::hkdf::{HKDF_SHA256, Salt};
use ring::hmac::{self, HMAC_SHA256};

use crate::key::Key;
use crate::key_ring::{KeyRing, UnsealError};

impl KeyRing {
    /// Signs content with the current key: HMAC-SHA-256, with a key derived for the purpose.
    ///
    /// Unlike a seal, a signature does not encrypt and has no expiry of its own.
    ///
    /// ```
    /// # use mcp_flow_seal::{Key, KeyRing};
    /// let ring = KeyRing::new(Key::from_bytes([1; 32]));
    /// let signature = ring.sign("example", b"content");
    /// assert!(ring.verify("example", b"content", &signature).is_ok());
    /// assert!(ring.verify("another", b"content", &signature).is_err());
    /// assert!(ring.verify("example", b"contents", &signature).is_err());
    /// ```
    pub fn sign(&self, purpose: &'static str, content: &[u8]) -> [u8; 32] {
        let tag = hmac::sign(&signing_key(self.current(), purpose), content);
        tag.as_ref().try_into().expect("HMAC-SHA-256 has 32 bytes")
    }

    /// Verifies that a key on the ring made this signature, in constant time per key.
    pub fn verify(
        &self,
        purpose: &'static str,
        content: &[u8],
        signature: &[u8],
    ) -> Result<(), UnsealError> {
        let mut made = self
            .keys()
            .filter(|key| hmac::verify(&signing_key(key, purpose), content, signature).is_ok());
        made.next().map(drop).ok_or(UnsealError::Forged)
    }
}

fn signing_key(key: &Key, purpose: &str) -> hmac::Key {
    let derived = Salt::new(HKDF_SHA256, b"mcp-flow sign 1").extract(key.secret());
    let info = [purpose.as_bytes()];
    let derived = derived.expand(&info, HMAC_SHA256);
    hmac::Key::from(derived.expect("HKDF can derive a key"))
}
