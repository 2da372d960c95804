//! Header of an envelope, with exactly one text form.

use crate::key::KeyId;

/// Id of a client's connection: random, used once.
pub type ChannelId = [u8; 16];

/// Id of a sequence of messages: random, chosen by each side for each channel.
pub type SenderId = [u8; 8];

/// Side that signed a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The client, whose messages the server opens.
    Client,
    /// The server, whose messages the client opens.
    Server,
}

/// Header of an envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Time of signing, in milliseconds since the Unix epoch.
    pub time: u64,
    /// Connection it belongs to.
    pub channel: ChannelId,
    /// Sequence it belongs to.
    pub sender: SenderId,
    /// Number in that sequence, counted from 0.
    pub number: u64,
}

/// Digits of the signature.
pub(super) const MAC: usize = 64;

/// Characters of the whole text: the signature, then seven parts, each after a dot.
pub(super) const TEXT: usize = MAC + 2 + 2 + 9 + 13 + 33 + 17 + 17;

impl Stamp {
    /// Writes everything but the signature into a slice of that length.
    pub(super) fn write(&self, side: Side, key: KeyId, buffer: &mut [u8]) {
        let (version, rest) = buffer.split_at_mut(2);
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

    /// Reads what [`write`](Self::write) wrote.
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

pub(super) fn write_hex(bytes: &[u8], buffer: &mut [u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for (byte, digits) in bytes.iter().zip(buffer.chunks_exact_mut(2)) {
        digits[0] = DIGITS[usize::from(byte >> 4)];
        digits[1] = DIGITS[usize::from(byte & 15)];
    }
}

/// Decodes lowercase hexadecimal only: a second spelling could be substituted unnoticed.
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
