//! Sealed texts: what leaves the process, comes back later, and must be believed then.
//!
//! A seal keeps what it holds secret and shows whether anything about it was changed. It is made
//! for one purpose, bound to associated data such as the name of a principal, and may expire. A
//! [`KeyRing`] makes and opens them; [`file`](mod@file) keeps one on disk. [`envelope`] signs the
//! messages of a conversation.
//!
//! Nothing here looks at a clock or draws a random number: both come in as arguments.
//!
//! ```
//! use mcp_flow_seal::{Key, KeyRing, Seal, Unsealed};
//!
//! let ring = KeyRing::new(Key::from_bytes([7; 32]));
//! let seal = Seal { purpose: "greeting", bound_to: b"alice" };
//!
//! let text = ring.seal(seal, Some(1_000), b"hello", [1; 24]);
//! assert_eq!(ring.open(seal, 999, &text).unwrap(), b"hello");
//!
//! assert_eq!(ring.open(seal, 1_000, &text), Err(Unsealed::Expired));
//! let foreign = Seal { bound_to: b"bob", ..seal };
//! assert_eq!(ring.open(foreign, 0, &text), Err(Unsealed::Forged));
//! ```
//!
//! # Form
//!
//! | bytes | what |
//! |---|---|
//! | 1 | the version, 1 |
//! | 4 | which key: derived from the key itself |
//! | 8 | when it expires, in seconds since 1970, most significant byte first; all ones for never |
//! | 24 | random, different for each seal |
//! | n + 16 | AES-256-GCM of the content, and its tag |
//!
//! The key of each seal is derived by HKDF-SHA-256 from the ring's key, the random bytes and the
//! purpose, so no two seals share one, and a ring's key may make any number of them. The first 13
//! bytes and the associated data are authenticated with the content. As text it is URL-safe base64
//! without padding.

pub mod envelope;
pub mod file;
mod key;
mod key_ring;
mod sign;

pub use key::{BadKeys, Key};
pub use key_ring::{KeyRing, Salted, Seal, Unsealed};

/// The SHA-256 of several parts, none of which can run into the next.
///
/// For telling whether something is the same as before without keeping it.
///
/// ```
/// assert_ne!(mcp_flow_seal::digest(&[b"ab", b"c"]), mcp_flow_seal::digest(&[b"a", b"bc"]));
/// ```
pub fn digest(parts: &[&[u8]]) -> [u8; 32] {
    let mut context = ring::digest::Context::new(&ring::digest::SHA256);
    for part in parts {
        context.update(&(part.len() as u64).to_be_bytes());
        context.update(part);
    }
    let mut digest = [0; 32];
    digest.copy_from_slice(context.finish().as_ref());
    digest
}
