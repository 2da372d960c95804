//! Authenticated encryption of values that leave the process and come back, and signed messages.
//!
//! A seal encrypts and authenticates its content. It is made for one purpose, bound to associated
//! data such as the name of a principal, and may expire. A [`KeyRing`] seals and opens;
//! [`file`](mod@file) stores one on disk. [`envelope`] signs the messages of a connection.
//!
//! Nothing here reads a clock or generates random numbers: both are arguments.
//!
//! ```
//! use mcp_flow_seal::{Key, KeyRing, Seal, UnsealError};
//!
//! let ring = KeyRing::new(Key::from_bytes([7; 32]));
//! let seal = Seal { purpose: "greeting", bound_to: b"alice" };
//!
//! let text = ring.seal(seal, Some(1_000), b"hello", [1; 24]);
//! assert_eq!(ring.open(seal, 999, &text).unwrap(), b"hello");
//!
//! assert_eq!(ring.open(seal, 1_000, &text), Err(UnsealError::Expired));
//! let foreign = Seal { bound_to: b"bob", ..seal };
//! assert_eq!(ring.open(foreign, 0, &text), Err(UnsealError::Forged));
//! ```
//!
//! # Form
//!
//! | bytes | what |
//! |---|---|
//! | 1 | the version, 1 |
//! | 4 | key id, derived from the key |
//! | 8 | expiry in seconds since the Unix epoch, big-endian; all ones for never |
//! | 24 | random bytes, fresh for each seal |
//! | n + 16 | content encrypted with AES-256-GCM, and its tag |
//!
//! The key of each seal is derived by HKDF-SHA-256 from the ring's key, the random bytes and the
//! purpose, so no two seals share a key, and a ring's key can make any number of seals. The first
//! 13 bytes and the associated data are authenticated with the content. As text it is URL-safe
//! base64 without padding.

pub mod envelope;
pub mod file;
mod key;
mod key_ring;
mod sign;

pub use key::{BadKeys, Key};
pub use key_ring::{KeyRing, Seal, SealRandom, UnsealError};

/// SHA-256 in hexadecimal, as `sha256sum` prints it.
///
/// ```
/// assert!(mcp_flow_seal::sha256_hex(b"abc").starts_with("ba7816bf8f01cfea"));
/// ```
pub fn sha256_hex(bytes: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, bytes);
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// SHA-256 of several parts, each prefixed with its length, so that their boundaries count.
///
/// Identifies a value without storing it.
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
