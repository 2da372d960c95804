//! Making seals and opening them.

use std::fmt::Write;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Salt};
use zeroize::Zeroizing;

use crate::key::{BadKeys, Key, KeyId};

/// Keys: the current one, which makes seals, and older ones, whose seals are still opened.
///
/// As text it is one key after another, the current one first, set apart by white space or commas;
/// a line that begins with `#` is a comment.
#[derive(Clone, Debug)]
pub struct KeyRing {
    /// Never empty; the first is the current one.
    keys: Vec<Key>,
}

/// What a seal is for and to what it is bound. It opens for the very same only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seal<'a> {
    /// Who uses it and what for, in a name of one's own, so that no seal serves for another.
    pub purpose: &'static str,
    /// What must be the same when it is opened, such as the name of a principal.
    pub bound_to: &'a [u8],
}

/// Random bytes, drawn anew for each seal.
pub type Salted = [u8; SALT];

impl KeyRing {
    /// How many keys a ring holds at most.
    pub const MOST: usize = 16;

    /// A ring of one key.
    pub fn new(current: Key) -> Self {
        Self { keys: vec![current] }
    }

    /// Makes a new key the current one. What the others have sealed still opens; the oldest one
    /// beyond [`MOST`](Self::MOST) is forgotten.
    ///
    /// ```
    /// # use mcp_flow_seal::{Key, KeyRing, Seal, Unsealed};
    /// let mut ring = KeyRing::new(Key::from_bytes([1; 32]));
    /// let seal = Seal { purpose: "example", bound_to: b"" };
    /// let old = ring.seal(seal, None, b"content", [0; 24]);
    ///
    /// ring.rotate(Key::from_bytes([2; 32]));
    /// assert!(ring.open(seal, 0, &old).is_ok());
    ///
    /// ring.keep(1);
    /// assert_eq!(ring.open(seal, 0, &old), Err(Unsealed::UnknownKey));
    /// ```
    pub fn rotate(&mut self, current: Key) {
        self.keys.retain(|key| key.id() != current.id());
        self.keys.insert(0, current);
        self.keys.truncate(Self::MOST);
    }

    /// Forgets all but so many of the newest keys. The current one always stays.
    pub fn keep(&mut self, newest: usize) {
        self.keys.truncate(newest.max(1));
    }

    /// Seals content as text. It opens before `expires`, in seconds since 1970, or for good.
    pub fn seal(
        &self,
        seal: Seal<'_>,
        expires: Option<u64>,
        content: &[u8],
        random: Salted,
    ) -> String {
        URL_SAFE_NO_PAD.encode(self.seal_bytes(seal, expires, content, random))
    }

    /// Opens a sealed text at a time, in seconds since 1970.
    pub fn open(&self, seal: Seal<'_>, now: u64, text: &str) -> Result<Vec<u8>, Unsealed> {
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| Unsealed::Malformed)?;
        self.open_bytes(seal, now, &bytes)
    }

    /// As [`seal`](Self::seal), as bytes.
    pub fn seal_bytes(
        &self,
        seal: Seal<'_>,
        expires: Option<u64>,
        content: &[u8],
        random: Salted,
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

    /// As [`open`](Self::open), for bytes.
    pub fn open_bytes(&self, seal: Seal<'_>, now: u64, sealed: &[u8]) -> Result<Vec<u8>, Unsealed> {
        let (front, content) = sealed.split_at_checked(HEADER + SALT).ok_or(Unsealed::Malformed)?;
        let (header, random) = front.split_at(HEADER);
        if header[0] != VERSION || content.len() < TAG {
            return Err(Unsealed::Malformed);
        }
        let (id, expires) = header[1..].split_at(size_of::<KeyId>());
        let key = self.keys.iter().find(|key| key.id() == id).ok_or(Unsealed::UnknownKey)?;
        let mut content = content.to_vec();
        let length = seal_key(key, random, seal.purpose)
            .open_in_place(nonce(), authenticated(header, seal), &mut content)
            .map_err(|_| Unsealed::Forged)?
            .len();
        content.truncate(length);
        let expires = expires.try_into().map_or(0, u64::from_be_bytes);
        // Only now: what a forger writes there is not worth an answer of its own.
        if expires != NEVER && now >= expires {
            return Err(Unsealed::Expired);
        }
        Ok(content)
    }

    pub(crate) fn current(&self) -> &Key {
        &self.keys[0]
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &Key> {
        self.keys.iter()
    }

    /// The ring as it stands in a file.
    pub(crate) fn to_text(&self) -> Zeroizing<String> {
        let mut text = Zeroizing::new(String::with_capacity(256 + 44 * self.keys.len()));
        text.push_str(EXPLANATION);
        for key in &self.keys {
            writeln!(text, "{}", &*key.to_text()).expect("memory can be written to");
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
            if keys.len() == Self::MOST {
                return Err(BadKeys::TooMany(Self::MOST));
            }
            if keys.iter().all(|other| other.id() != key.id()) {
                keys.push(key);
            }
        }
        if keys.is_empty() { Err(BadKeys::None) } else { Ok(Self { keys }) }
    }
}

/// Why a seal does not open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unsealed {
    /// It is no seal at all, or one of a version to come.
    #[error("this is not something that was sealed here")]
    Malformed,
    /// It was made with a key that is not on the ring, perhaps no more.
    #[error("the key it was sealed with is not known here any more")]
    UnknownKey,
    /// It was changed, or made for another purpose or bound to something else.
    #[error("it was changed, or sealed for something else")]
    Forged,
    /// Its time is over.
    #[error("it has expired")]
    Expired,
}

/// The key of one seal. Used once, so its nonce need not vary.
fn seal_key(key: &Key, random: &[u8], purpose: &str) -> LessSafeKey {
    let derived = Salt::new(HKDF_SHA256, random).extract(key.secret());
    let info = [b"mcp-flow seal 1 ".as_slice(), purpose.as_bytes()];
    let derived = derived.expand(&info, &AES_256_GCM).expect("HKDF can make a key");
    LessSafeKey::new(UnboundKey::from(derived))
}

fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; 12])
}

/// What is not hidden and still must not change. The header has one length, so the two cannot run
/// into each other.
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
# Whoever reads this file can forge what this server has sealed. Keep it to yourself.
";
