//! Signed messages: what shows that a message came as it was sent, from whom it should, and once.
//!
//! Two ends that share a [`KeyRing`] put every message into an envelope. The bytes of the message
//! are not touched, so nothing needs a canonical form, and whoever opens an envelope gets a part of
//! what came, without a copy. [`Caller`] is the client's end, [`Channels`] the server's.
//!
//! # Form
//!
//! In JSON `{"signed":"…","message":…}`, in CBOR the same map, with no choice in how it is written.
//! The text is made of lowercase hexadecimal numbers with points between:
//!
//! | digits | what |
//! |---|---|
//! | 64 | HMAC-SHA-256 of everything behind this number, up to the end of the message |
//! | 1 | the version, 1 |
//! | 1 | who made it: `c` for the client, `s` for the server |
//! | 8 | which key: derived from the key itself |
//! | 12 | when, in milliseconds since 1970 |
//! | 32 | the channel: random, drawn by the client for each connection |
//! | 16 | the sender: random, drawn by each end for each channel |
//! | 16 | which message of this sender it is, counted from 0 |
//!
//! The two ends use different keys, both derived from the one they share, so that nothing can be
//! sent back to whom it came from. What a channel, a sender and a number are checked against is in
//! [`Refused`].

mod caller;
mod channels;
mod numbers;
mod stamp;

use std::sync::Arc;

use ring::hkdf::{HKDF_SHA256, Salt};
use ring::hmac::{self, HMAC_SHA256};

use crate::key::{Key, KeyId};
use crate::key_ring::KeyRing;

pub use caller::Caller;
pub use channels::{Channel, Channels};
pub use stamp::{ChannelId, SenderId, Side, Stamp};

/// The keys of a ring, made ready for signing messages. Cheap to clone.
#[derive(Clone, Debug)]
pub struct MessageKeys {
    /// Never empty; the first signs.
    keys: Arc<[Ready]>,
}

#[derive(Debug)]
struct Ready {
    id: KeyId,
    client: hmac::Key,
    server: hmac::Key,
}

impl MessageKeys {
    /// The current key of the ring signs; what any of them has signed is believed.
    pub fn new(ring: &KeyRing) -> Self {
        let ready = |key: &Key| Ready {
            id: key.id(),
            client: derive(key, b"client"),
            server: derive(key, b"server"),
        };
        Self { keys: ring.keys().map(ready).collect() }
    }

    /// Puts what `frame` holds from `start` on into an envelope, there and then.
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

    /// Takes a message out of its envelope, if this side has made it as it is.
    ///
    /// Whether it is the one that should come now is for [`Caller`] and [`Channels`] to say.
    pub fn open<'a>(&self, side: Side, frame: &'a [u8]) -> Result<(Stamp, &'a [u8]), Refused> {
        let form = [&JSON, &CBOR].into_iter().find(|form| frame.starts_with(form.open));
        let form = form.ok_or(Refused::Unsigned)?;
        let inside = frame[form.open.len()..].strip_suffix(form.close).ok_or(Refused::Changed)?;
        let (mac, signed) = inside.split_at_checked(stamp::MAC).ok_or(Refused::Changed)?;
        let front = stamp::TEXT - stamp::MAC;
        let (text, rest) = signed.split_at_checked(front).ok_or(Refused::Changed)?;
        let message = rest.strip_prefix(form.middle).ok_or(Refused::Changed)?;
        let (stamp, made_by, id) = Stamp::read(text).ok_or(Refused::Changed)?;
        if made_by != side {
            return Err(Refused::Reflected);
        }
        let key = self.keys.iter().find(|key| key.id == id).ok_or(Refused::UnknownKey)?;
        let mut tag = [0; 32];
        stamp::read_hex(mac, &mut tag).ok_or(Refused::Changed)?;
        hmac::verify(key.of(side), signed, &tag).map_err(|_| Refused::Changed)?;
        Ok((stamp, message))
    }
}

/// Whether a frame claims to be an envelope.
pub fn is_envelope(frame: &[u8]) -> bool {
    [&JSON, &CBOR].into_iter().any(|form| frame.starts_with(form.open))
}

impl Ready {
    fn of(&self, side: Side) -> &hmac::Key {
        match side {
            Side::Client => &self.client,
            Side::Server => &self.server,
        }
    }
}

/// Why a message is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// It is in no envelope.
    #[error("it is not signed")]
    Unsigned,
    /// It is signed with a key that is not on the ring.
    #[error("it is signed with a key that is not known here")]
    UnknownKey,
    /// Something about it is not as it was signed.
    #[error("it was changed on its way")]
    Changed,
    /// It was made for the other direction.
    #[error("it was sent back to where it came from")]
    Reflected,
    /// It was signed too long ago, or too far ahead of the clock here.
    #[error("it was signed too long ago, or the clocks of the two ends differ")]
    Stale,
    /// It has come before, or so many after it that nobody knows any more.
    #[error("it has come before")]
    Repeated,
    /// It is not the one whose turn it is.
    #[error("it is number {came} where {expected} should come: one was held back, or taken away")]
    OutOfOrder {
        /// The number that should have come.
        expected: u64,
        /// The number that came.
        came: u64,
    },
    /// It belongs to another connection.
    #[error("it belongs to another connection")]
    Foreign,
    /// More channels are in use than are kept.
    #[error("too many signed connections were opened within a short time")]
    TooMany,
}

/// How an envelope is written: what stands before, between and behind.
struct Form {
    open: &'static [u8],
    middle: &'static [u8],
    close: &'static [u8],
}

impl Form {
    /// That of a message, by how the message itself begins.
    fn of(message: &[u8]) -> &'static Self {
        match message.first() {
            // A list or a map, which no message in JSON begins with.
            Some(0x80..=0xbf) => &CBOR,
            _ => &JSON,
        }
    }
}

const JSON: Form = Form { open: b"{\"signed\":\"", middle: b"\",\"message\":", close: b"}" };

/// A map of two; a text of as many bytes as a stamp has; a text of seven.
const CBOR: Form = Form { open: b"\xa2\x66signed\x78\x9d", middle: b"\x67message", close: b"" };

/// The length that CBOR says in one byte.
const _: () = assert!(stamp::TEXT == 0x9d);

fn derive(key: &Key, side: &'static [u8]) -> hmac::Key {
    let derived = Salt::new(HKDF_SHA256, b"mcp-flow message 1").extract(key.secret());
    let info = [side];
    let derived = derived.expand(&info, HMAC_SHA256);
    hmac::Key::from(derived.expect("HKDF can make a key"))
}

#[cfg(test)]
mod tests;
