//! What an envelope says of its message, as text of one spelling.

use crate::key::KeyId;

/// Names one connection of a client's: random, never used again.
pub type ChannelId = [u8; 16];

/// Names who counts the messages: random, drawn by each end for each channel.
pub type SenderId = [u8; 8];

/// Which end has made a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The client, whose messages the server opens.
    Client,
    /// The server, whose messages the client opens.
    Server,
}

/// What an envelope says of its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// When it was signed, in milliseconds since 1970.
    pub time: u64,
    /// The connection it belongs to.
    pub channel: ChannelId,
    /// Who has counted it.
    pub sender: SenderId,
    /// Which of that sender's messages it is, counted from 0.
    pub number: u64,
}

/// How many digits the signature has.
pub(super) const MAC: usize = 64;

/// How many characters the whole text has: the signature, then seven parts with a point before.
pub(super) const TEXT: usize = MAC + 2 + 2 + 9 + 13 + 33 + 17 + 17;

impl Stamp {
    /// Writes everything but the signature. The room is exactly as long.
    pub(super) fn write(&self, side: Side, key: KeyId, room: &mut [u8]) {
        let (version, rest) = room.split_at_mut(2);
        version.copy_from_slice(b".1");
        let (made_by, mut rest) = rest.split_at_mut(2);
        made_by.copy_from_slice(match side {
            Side::Client => b".c",
            Side::Server => b".s",
        });
        let time = self.time.to_be_bytes();
        let number = self.number.to_be_bytes();
        for bytes in [&key[..], &time[2..], &self.channel, &self.sender, &number] {
            let (part, behind) = rest.split_at_mut(1 + 2 * bytes.len());
            part[0] = b'.';
            write_hex(bytes, &mut part[1..]);
            rest = behind;
        }
    }

    /// Reads the same.
    pub(super) fn read(text: &[u8]) -> Option<(Self, Side, KeyId)> {
        let rest = text.strip_prefix(b".1")?;
        let (side, mut rest) = match rest.split_at_checked(2)? {
            (b".c", rest) => (Side::Client, rest),
            (b".s", rest) => (Side::Server, rest),
            _ => return None,
        };
        let (mut key, mut time) = (KeyId::default(), [0; 8]);
        let (mut channel, mut sender, mut number) = ([0; 16], [0; 8], [0; 8]);
        for bytes in [&mut key[..], &mut time[2..], &mut channel, &mut sender, &mut number] {
            let (part, behind) = rest.split_at_checked(1 + 2 * bytes.len())?;
            read_hex(part.strip_prefix(b".")?, bytes)?;
            rest = behind;
        }
        let (time, number) = (u64::from_be_bytes(time), u64::from_be_bytes(number));
        rest.is_empty().then_some((Self { time, channel, sender, number }, side, key))
    }
}

pub(super) fn write_hex(bytes: &[u8], room: &mut [u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for (byte, digits) in bytes.iter().zip(room.chunks_exact_mut(2)) {
        digits[0] = DIGITS[usize::from(byte >> 4)];
        digits[1] = DIGITS[usize::from(byte & 15)];
    }
}

/// Capitals are refused: what may be written in two ways may be changed unseen.
pub(super) fn read_hex(text: &[u8], bytes: &mut [u8]) -> Option<()> {
    let digit = |character: u8| match character {
        b'0'..=b'9' => Some(character - b'0'),
        b'a'..=b'f' => Some(character - b'a' + 10),
        _ => None,
    };
    for (digits, byte) in text.chunks_exact(2).zip(bytes) {
        *byte = digit(digits[0])? << 4 | digit(digits[1])?;
    }
    Some(())
}
