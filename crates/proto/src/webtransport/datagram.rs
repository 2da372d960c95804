//! Datagrams: short, unordered, and lost without harm.

/// One datagram: a channel, the request it is about, and what it says.
///
/// ```
/// use mcp_flow_proto::webtransport::{Channel, Datagram};
///
/// let datagram = Datagram { channel: Channel::Progress, request: 42, payload: b"{}" };
/// assert_eq!(datagram.encode(), b"\x01\x00\0\0\0\x2a{}");
/// assert_eq!(Datagram::decode(b"\x01\x00\0\0\0\x2a{}"), Ok(datagram));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// What kind of thing it says.
    pub channel: Channel,
    /// The request it is about; 0 is the whole session (WT-023).
    pub request: u32,
    /// What it says: for audio an [`AudioChunk`], otherwise in the encoding agreed on (C-15).
    pub payload: &'a [u8],
}

/// What kind of thing a datagram says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Channel {
    /// How far a call has come: the params of `notifications/progress`.
    Progress = 1,
    /// A piece of sound.
    Audio = 2,
    /// A line of a log: the params of `notifications/message`.
    Log = 3,
}

/// Why something is no datagram. It is dropped and counted, and nobody is told (WT-021).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DatagramFault {
    /// It ends within its header.
    #[error("it is shorter than a header")]
    TooShort,
    /// Its channel is the reserved one, or none that is known.
    #[error("there is no channel {0:#04x}")]
    UnknownChannel(u8),
    /// Its flags are not 0 (WT-022).
    #[error("the flags {0:#04x} are reserved")]
    Flags(u8),
}

impl<'a> Datagram<'a> {
    /// How long the header is.
    pub const HEADER: usize = 6;
    /// The longest one that is sent, header included: what every path carries (WT-024).
    pub const LONGEST: usize = 1200;

    /// As it is sent.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(Self::HEADER + self.payload.len());
        bytes.extend_from_slice(&[self.channel as u8, 0]);
        bytes.extend_from_slice(&self.request.to_be_bytes());
        bytes.extend_from_slice(self.payload);
        bytes
    }

    /// As it is read.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DatagramFault> {
        let Some((&[channel, flags, a, b, c, d], payload)) = bytes.split_first_chunk() else {
            return Err(DatagramFault::TooShort);
        };
        let channel = match channel {
            1 => Channel::Progress,
            2 => Channel::Audio,
            3 => Channel::Log,
            unknown => return Err(DatagramFault::UnknownChannel(unknown)),
        };
        if flags != 0 {
            return Err(DatagramFault::Flags(flags));
        }
        Ok(Self { channel, request: u32::from_be_bytes([a, b, c, d]), payload })
    }
}

/// A numbered piece of sound (C-15).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AudioChunk<'a> {
    /// Which one it is, from 0 on; a gap tells what was lost.
    pub sequence: u32,
    /// When it begins, in milliseconds from the first.
    pub timestamp: u32,
    /// The sound, in the codec announced before.
    pub data: &'a [u8],
}

impl<'a> AudioChunk<'a> {
    /// The most sound that fits.
    pub const LONGEST: usize = Datagram::LONGEST - Datagram::HEADER - 8;

    /// As it is sent.
    pub fn encode(&self) -> Vec<u8> {
        [&self.sequence.to_be_bytes(), &self.timestamp.to_be_bytes(), self.data].concat()
    }

    /// As it is read; `None` if it ends within its numbers.
    pub fn decode(payload: &'a [u8]) -> Option<Self> {
        let (sequence, rest) = payload.split_first_chunk()?;
        let (timestamp, data) = rest.split_first_chunk()?;
        Some(Self {
            sequence: u32::from_be_bytes(*sequence),
            timestamp: u32::from_be_bytes(*timestamp),
            data,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{AudioChunk, Channel, Datagram, DatagramFault};

    /// WT-019, WT-020, WT-022, WT-023: channel, flags of 0, and the request.
    #[test]
    fn datagrams_are_written_as_they_are_read() {
        for (channel, request, header) in [
            (Channel::Progress, 42, b"\x01\x00\0\0\0\x2a"),
            (Channel::Audio, u32::MAX, b"\x02\x00\xff\xff\xff\xff"),
            (Channel::Log, 0, b"\x03\x00\0\0\0\0"),
        ] {
            let datagram = Datagram { channel, request, payload: b"x" };
            let bytes = datagram.encode();
            assert_eq!((&bytes[..6], &bytes[6..]), (&header[..], &b"x"[..]));
            assert_eq!(Datagram::decode(&bytes), Ok(datagram));
        }
    }

    /// WT-021: what is none is named, so that it can be counted.
    #[test]
    fn what_is_no_datagram_is_refused() {
        for (bytes, fault) in [
            (&b""[..], DatagramFault::TooShort),
            (b"\x01\x00\0\0\0", DatagramFault::TooShort),
            (b"\x00\x00\0\0\0\x01", DatagramFault::UnknownChannel(0)),
            (b"\x7f\x00\0\0\0\x01", DatagramFault::UnknownChannel(0x7f)),
            (b"\x01\x80\0\0\0\x01", DatagramFault::Flags(0x80)),
        ] {
            assert_eq!(Datagram::decode(bytes), Err(fault), "{bytes:x?}");
        }
    }

    /// WT-026: a chunk has a number and a time.
    #[test]
    fn sound_is_numbered() {
        let chunk = AudioChunk { sequence: 3, timestamp: 60, data: &[7; 4] };
        assert_eq!(chunk.encode(), b"\0\0\0\x03\0\0\0\x3c\x07\x07\x07\x07");
        assert_eq!(AudioChunk::decode(&chunk.encode()), Some(chunk));
        assert_eq!(AudioChunk::decode(b"\0\0\0\x03\0\0\0"), None);
    }
}
