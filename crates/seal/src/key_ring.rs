//! Key rings: sealing and opening.

use std::fmt::Write;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Salt};
use zeroize::Zeroizing;

use crate::key::{BadKeys, Key, KeyId};

/// Ring of keys: the current one seals, and all of them open.
///
/// Text form: the keys, current one first, separated by white space or commas; a line that begins
/// with `#` is a comment.
#[derive(Clone, Debug)]
pub struct KeyRing {
    /// Never empty; the first one is the current key.
    keys: Vec<Key>,
}

/// Purpose and associated data of a seal. It opens only with the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seal<'a> {
    /// Unique name of the use, so that a seal for one use does not open for another.
    pub purpose: &'static str,
    /// Associated data, such as the name of a principal.
    pub bound_to: &'a [u8],
}

/// Random bytes, fresh for each seal.
pub type SealRandom = [u8; SALT];

impl KeyRing {
    /// Maximum number of keys of a ring.
    pub const MAX_KEYS: usize = 16;

    /// Creates a ring of one key.
    pub fn new(current: Key) -> Self {
        Self { keys: vec![current] }
    }

    /// Makes a new key the current one. Seals of the others still open; the oldest key beyond
    /// [`MAX_KEYS`](Self::MAX_KEYS) is dropped.
    ///
    /// ```
    /// # use mcp_flow_seal::{Key, KeyRing, Seal, UnsealError};
    /// let mut ring = KeyRing::new(Key::from_bytes([1; 32]));
    /// let seal = Seal { purpose: "example", bound_to: b"" };
    /// let old = ring.seal(seal, None, b"content", [0; 24]);
    ///
    /// ring.rotate(Key::from_bytes([2; 32]));
    /// assert!(ring.open(seal, 0, &old).is_ok());
    ///
    /// ring.keep(1);
    /// assert_eq!(ring.open(seal, 0, &old), Err(UnsealError::UnknownKey));
    /// ```
    pub fn rotate(&mut self, current: Key) {
        self.keys.retain(|key| key.id() != current.id());
        self.keys.insert(0, current);
        self.keys.truncate(Self::MAX_KEYS);
    }

    /// Drops all but the newest keys. The current one always stays.
    pub fn keep(&mut self, newest: usize) {
        self.keys.truncate(newest.max(1));
    }

    /// Seals content as text. It opens until `expires`, in seconds since the Unix epoch, if set.
    pub fn seal(
        &self,
        seal: Seal<'_>,
        expires: Option<u64>,
        content: &[u8],
        random: SealRandom,
    ) -> String {
        URL_SAFE_NO_PAD.encode(self.seal_bytes(seal, expires, content, random))
    }

    /// Opens a sealed text at a time, in seconds since the Unix epoch.
    pub fn open(&self, seal: Seal<'_>, now: u64, text: &str) -> Result<Vec<u8>, UnsealError> {
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| UnsealError::Malformed)?;
        self.open_bytes(seal, now, &bytes)
    }

    /// Seals content like [`seal`](Self::seal), as bytes.
    pub fn seal_bytes(
        &self,
        seal: Seal<'_>,
        expires: Option<u64>,
        content: &[u8],
        random: SealRandom,
    ) -> Vec<u8> {
        let key = &self.keys[0];
        let mut sealed = Vec::with_capacity(HEADER + SALT + content.len() + TAG);
        sealed.push(VERSION);
        sealed.extend_from_slice(&key.id());
        sealed.extend_from_slice(&expires.unwrap_or(NEVER).to_be_bytes());
        sealed.extend_from_slice(&random);
        sealed.extend_from_slice(content);
        let (front, content) = sealed.split_at_mut(HEADER + SALT);
        let tag = seal_key(key, &random, seal.purpose)
            .seal_in_place_separate_tag(nonce(), authenticated(&front[..HEADER], seal), content)
            .expect("content is shorter than the 64 GiB a seal can hold");
        sealed.extend_from_slice(tag.as_ref());
        sealed
    }

    /// Opens sealed bytes like [`open`](Self::open).
    pub fn open_bytes(
        &self,
        seal: Seal<'_>,
        now: u64,
        sealed: &[u8],
    ) -> Result<Vec<u8>, UnsealError> {
        let (front, content) =
            sealed.split_at_checked(HEADER + SALT).ok_or(UnsealError::Malformed)?;
        let (header, random) = front.split_at(HEADER);
        if header[0] != VERSION || content.len() < TAG {
            return Err(UnsealError::Malformed);
        }
        let (id, expires) = header[1..].split_at(size_of::<KeyId>());
        let key = self.keys.iter().find(|key| key.id() == id).ok_or(UnsealError::UnknownKey)?;
        let mut content = content.to_vec();
        let length = seal_key(key, random, seal.purpose)
            .open_in_place(nonce(), authenticated(header, seal), &mut content)
            .map_err(|_| UnsealError::Forged)?
            .len();
        content.truncate(length);
        let expires = expires.try_into().map_or(0, u64::from_be_bytes);
        // Checked after authentication: a forged expiry is reported as forged.
        if expires != NEVER && now >= expires {
            return Err(UnsealError::Expired);
        }
        Ok(content)
    }

    pub(crate) fn current(&self) -> &Key {
        &self.keys[0]
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &Key> {
        self.keys.iter()
    }

    /// Returns the text form.
    pub(crate) fn to_text(&self) -> Zeroizing<String> {
        let mut text = Zeroizing::new(String::with_capacity(256 + 44 * self.keys.len()));
        text.push_str(EXPLANATION);
        for key in &self.keys {
            writeln!(text, "{}", &*key.to_text()).expect("writing to a string cannot fail");
        }
        text
    }
}

impl FromStr for KeyRing {
    type Err = BadKeys;

    fn from_str(text: &str) -> Result<Self, BadKeys> {
        let mut keys: Vec<Key> = Vec::new();
        let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
        let words = lines.flat_map(|line| line.split([',', ' ', '\t', '\r']));
        for (index, word) in words.filter(|word| !word.is_empty()).enumerate() {
            let key = Key::from_text(word).ok_or(BadKeys::Malformed(index + 1))?;
            if keys.len() == Self::MAX_KEYS {
                return Err(BadKeys::TooMany(Self::MAX_KEYS));
            }
            if keys.iter().all(|other| other.id() != key.id()) {
                keys.push(key);
            }
        }
        if keys.is_empty() { Err(BadKeys::None) } else { Ok(Self { keys }) }
    }
}

/// Reason a seal does not open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnsealError {
    /// It is not a seal, or of an unknown version.
    #[error("it is not a sealed token of this server")]
    Malformed,
    /// Its key is not on the ring, perhaps because it was dropped.
    #[error("it was sealed with a key that is no longer on the key ring")]
    UnknownKey,
    /// It was modified, or sealed for another purpose or other associated data.
    #[error("it was modified, or sealed for another use")]
    Forged,
    /// It has expired.
    #[error("it has expired")]
    Expired,
}

/// Derives the key of one seal. It is used once, so the nonce is constant.
fn seal_key(key: &Key, random: &[u8], purpose: &str) -> LessSafeKey {
    let derived = Salt::new(HKDF_SHA256, random).extract(key.secret());
    let info = [b"mcp-flow seal 1 ".as_slice(), purpose.as_bytes()];
    let derived = derived.expand(&info, &AES_256_GCM).expect("HKDF can derive a key");
    LessSafeKey::new(UnboundKey::from(derived))
}

fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; 12])
}

/// Authenticated data. The header has a fixed length, so the concatenation is unambiguous.
fn authenticated(header: &[u8], seal: Seal<'_>) -> Aad<Vec<u8>> {
    Aad::from([header, seal.bound_to].concat())
}

const VERSION: u8 = 1;
const HEADER: usize = 1 + size_of::<KeyId>() + size_of::<u64>();
const SALT: usize = 24;
const TAG: usize = 16;
const NEVER: u64 = u64::MAX;

const EXPLANATION: &str = "\
# Sealing keys of MCP Flow, newest first. The first one seals; all of them open.
# Anyone who can read this file can forge what this server has sealed. Keep it secret.
";
