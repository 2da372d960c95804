//! Signed messages: integrity, origin, order and replay protection.
//!
//! Two peers that share a [`KeyRing`] put every message into an envelope. The bytes of the message
//! stay as they are, so no canonical form is needed, and opening an envelope returns a slice of the
//! frame without a copy. [`ClientChannel`] is the client's side, [`ServerChannels`] the server's.
//!
//! # Form
//!
//! In JSON `{"signed":"…","message":…}`, in CBOR the same map, with exactly one encoding. The text
//! consists of lowercase hexadecimal numbers separated by dots:
//!
//! | digits | what |
//! |---|---|
//! | 64 | HMAC-SHA-256 of everything after this number, up to the end of the message |
//! | 1 | the version, 1 |
//! | 1 | side that signed it: `c` for the client, `s` for the server |
//! | 8 | key id, derived from the key |
//! | 12 | time of signing, in milliseconds since the Unix epoch |
//! | 32 | channel id: random, chosen by the client for each connection |
//! | 16 | sender id: random, chosen by each side for each channel |
//! | 16 | sequence number of this sender, counted from 0 |
//!
//! The two sides use different keys, both derived from the shared one, so that a message cannot be
//! reflected to its sender. [`EnvelopeError`] lists the checks.

mod client_channel;
mod replay_window;
mod server_channels;
mod stamp;

use std::sync::Arc;

use ring::hkdf::{HKDF_SHA256, Salt};
use ring::hmac::{self, HMAC_SHA256};

use crate::key::{Key, KeyId};
use crate::key_ring::KeyRing;

pub use client_channel::ClientChannel;
pub use server_channels::{ServerChannel, ServerChannels};
pub use stamp::{ChannelId, SenderId, Side, Stamp};

/// HMAC keys derived from a key ring, for signing messages. Cheap to clone.
#[derive(Clone, Debug)]
pub struct MessageKeys {
    /// Never empty; the first one signs.
    keys: Arc<[DerivedKeys]>,
}

#[derive(Debug)]
struct DerivedKeys {
    id: KeyId,
    client: hmac::Key,
    server: hmac::Key,
}

impl MessageKeys {
    /// Derives the keys of a ring: its current key signs, and all of them verify.
    pub fn new(ring: &KeyRing) -> Self {
        let derive_keys = |key: &Key| DerivedKeys {
            id: key.id(),
            client: derive(key, b"client"),
            server: derive(key, b"server"),
        };
        Self { keys: ring.keys().map(derive_keys).collect() }
    }

    /// Wraps the message in `frame` from `start` on into an envelope, in place.
    ///
    /// ```
    /// use mcp_flow_seal::envelope::{MessageKeys, Side, Stamp};
    /// use mcp_flow_seal::{Key, KeyRing};
    ///
    /// let keys = MessageKeys::new(&KeyRing::new(Key::from_bytes([7; 32])));
    /// let stamp = Stamp { time: 1, channel: [2; 16], sender: [3; 8], number: 0 };
    /// let mut frame = b"{}".to_vec();
    /// keys.wrap(Side::Client, &stamp, &mut frame, 0);
    ///
    /// assert_eq!(keys.open(Side::Client, &frame), Ok((stamp, &b"{}"[..])));
    /// ```
    pub fn wrap(&self, side: Side, stamp: &Stamp, frame: &mut Vec<u8>, start: usize) {
        let form = Form::of(&frame[start..]);
        let length = frame.len() - start;
        let front = form.open.len() + stamp::TEXT + form.middle.len();
        frame.resize(start + front + length, 0);
        frame.copy_within(start..start + length, start + front);
        let key = &self.keys[0];
        let signed = start + form.open.len() + stamp::MAC;
        let middle = start + front - form.middle.len();
        frame[start..start + form.open.len()].copy_from_slice(form.open);
        stamp.write(side, key.id, &mut frame[signed..middle]);
        frame[middle..start + front].copy_from_slice(form.middle);
        let tag = hmac::sign(key.of(side), &frame[signed..]);
        stamp::write_hex(tag.as_ref(), &mut frame[signed - stamp::MAC..signed]);
        frame.extend_from_slice(form.close);
    }

    /// Opens an envelope and verifies that this side signed it.
    ///
    /// Order and replay are checked by [`ClientChannel`] and [`ServerChannels`].
    pub fn open<'a>(
        &self,
        side: Side,
        frame: &'a [u8],
    ) -> Result<(Stamp, &'a [u8]), EnvelopeError> {
        let form = [&JSON, &CBOR].into_iter().find(|form| frame.starts_with(form.open));
        let form = form.ok_or(EnvelopeError::Unsigned)?;
        let inside =
            frame[form.open.len()..].strip_suffix(form.close).ok_or(EnvelopeError::Changed)?;
        let (mac, signed) = inside.split_at_checked(stamp::MAC).ok_or(EnvelopeError::Changed)?;
        let front = stamp::TEXT - stamp::MAC;
        let (text, rest) = signed.split_at_checked(front).ok_or(EnvelopeError::Changed)?;
        let message = rest.strip_prefix(form.middle).ok_or(EnvelopeError::Changed)?;
        let (stamp, made_by, id) = Stamp::read(text).ok_or(EnvelopeError::Changed)?;
        if made_by != side {
            return Err(EnvelopeError::Reflected);
        }
        let key = self.keys.iter().find(|key| key.id == id).ok_or(EnvelopeError::UnknownKey)?;
        let mut tag = [0; 32];
        stamp::read_hex(mac, &mut tag).ok_or(EnvelopeError::Changed)?;
        hmac::verify(key.of(side), signed, &tag).map_err(|_| EnvelopeError::Changed)?;
        Ok((stamp, message))
    }
}

/// Returns whether a frame has the form of an envelope.
pub fn is_envelope(frame: &[u8]) -> bool {
    [&JSON, &CBOR].into_iter().any(|form| frame.starts_with(form.open))
}

impl DerivedKeys {
    fn of(&self, side: Side) -> &hmac::Key {
        match side {
            Side::Client => &self.client,
            Side::Server => &self.server,
        }
    }
}

/// Reason a signed message is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EnvelopeError {
    /// It is not in an envelope.
    #[error("the message is not signed")]
    Unsigned,
    /// Its key is not on the ring.
    #[error("the message is signed with an unknown key")]
    UnknownKey,
    /// It was modified after it was signed.
    #[error("the message was modified in transit")]
    Changed,
    /// It was signed for the other direction.
    #[error("the message was reflected to its sender")]
    Reflected,
    /// Its time is too far from the local clock.
    #[error("the message is too old, or the clocks of client and server differ")]
    Stale,
    /// It was received before, or is older than the replay window.
    #[error("the message was replayed")]
    Repeated,
    /// Its sequence number is not the next one.
    #[error(
        "the message has sequence number {came} instead of {expected}: one was delayed or dropped"
    )]
    OutOfOrder {
        /// Number that was expected.
        expected: u64,
        /// Number that was received.
        came: u64,
    },
    /// It belongs to another connection.
    #[error("the message belongs to another connection")]
    Foreign,
    /// Too many channels are in use.
    #[error("too many signed connections were opened in a short time")]
    TooMany,
}

/// Encoding of an envelope: the bytes before, between and after its parts.
struct Form {
    open: &'static [u8],
    middle: &'static [u8],
    close: &'static [u8],
}

impl Form {
    /// Selects the encoding by the first byte of the message.
    fn of(message: &[u8]) -> &'static Self {
        match message.first() {
            // An array or a map in CBOR; no JSON message begins with these.
            Some(0x80..=0xbf) => &CBOR,
            _ => &JSON,
        }
    }
}

const JSON: Form = Form { open: b"{\"signed\":\"", middle: b"\",\"message\":", close: b"}" };

/// A map of two; a string of the length of a stamp; a string of seven bytes.
const CBOR: Form = Form { open: b"\xa2\x66signed\x78\x9d", middle: b"\x67message", close: b"" };

/// The length in the CBOR header above.
const _: () = assert!(stamp::TEXT == 0x9d);

fn derive(key: &Key, side: &'static [u8]) -> hmac::Key {
    let derived = Salt::new(HKDF_SHA256, b"mcp-flow message 1").extract(key.secret());
    let info = [side];
    let derived = derived.expand(&info, HMAC_SHA256);
    hmac::Key::from(derived.expect("HKDF can derive a key"))
}

#[cfg(test)]
mod tests;
