//! Signing what may be read but not changed.

use ring::hkdf::{HKDF_SHA256, Salt};
use ring::hmac::{self, HMAC_SHA256};

use crate::key::Key;
use crate::key_ring::{KeyRing, Unsealed};

impl KeyRing {
    /// Signs content with the current key: HMAC-SHA-256, with a key for this purpose alone.
    ///
    /// Unlike a seal a signature hides nothing and never expires; what is signed says so itself if
    /// it does.
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

    /// Whether any key on the ring made this signature. Takes as long for a wrong one as for a
    /// right one.
    pub fn verify(
        &self,
        purpose: &'static str,
        content: &[u8],
        signature: &[u8],
    ) -> Result<(), Unsealed> {
        let mut made = self
            .keys()
            .filter(|key| hmac::verify(&signing_key(key, purpose), content, signature).is_ok());
        made.next().map(drop).ok_or(Unsealed::Forged)
    }
}

fn signing_key(key: &Key, purpose: &str) -> hmac::Key {
    let derived = Salt::new(HKDF_SHA256, b"mcp-flow sign 1").extract(key.secret());
    let info = [purpose.as_bytes()];
    let derived = derived.expand(&info, HMAC_SHA256);
    hmac::Key::from(derived.expect("HKDF can make a key"))
}
