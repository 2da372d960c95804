//! Datagrams: short, unordered and unreliable messages.

/// A datagram: its channel, the request it belongs to, and a payload.
///
/// ```
/// use mcp_flow_proto::webtransport::{DatagramChannel, Datagram};
///
/// let datagram = Datagram { channel: DatagramChannel::Progress, request: 42, payload: b"{}" };
/// assert_eq!(datagram.encode(), b"\x01\x00\0\0\0\x2a{}");
/// assert_eq!(Datagram::decode(b"\x01\x00\0\0\0\x2a{}"), Ok(datagram));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// The kind of payload.
    pub channel: DatagramChannel,
    /// The request it belongs to; 0 is the whole session (WT-023).
    pub request: u32,
    /// An [`AudioChunk`] on the audio channel, otherwise params in the negotiated encoding (C-15).
    pub payload: &'a [u8],
}

/// The kind of payload of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum DatagramChannel {
    /// Progress of a call: the params of `notifications/progress`.
    Progress = 1,
    /// An audio chunk.
    Audio = 2,
    /// A log message: the params of `notifications/message`.
    Log = 3,
}

/// The reason a datagram is invalid. Invalid datagrams are dropped and counted (WT-021).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DatagramDecodeError {
    /// It is shorter than the header.
    #[error("the datagram is shorter than its header")]
    TooShort,
    /// Its channel is reserved or unknown.
    #[error("unknown channel {0:#04x}")]
    UnknownChannel(u8),
    /// Its flags are not 0 (WT-022).
    #[error("the flags {0:#04x} are reserved")]
    Flags(u8),
}

impl<'a> Datagram<'a> {
    /// Length of the header in bytes.
    pub const HEADER: usize = 6;
    /// Maximum length that is sent, header included: every path can carry it (WT-024).
    pub const MAX_LENGTH: usize = 1200;

    /// Encodes the datagram.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(Self::HEADER + self.payload.len());
        bytes.extend_from_slice(&[self.channel as u8, 0]);
        bytes.extend_from_slice(&self.request.to_be_bytes());
        bytes.extend_from_slice(self.payload);
        bytes
    }

    /// Decodes a datagram.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DatagramDecodeError> {
        let Some((&[channel, flags, a, b, c, d], payload)) = bytes.split_first_chunk() else {
            return Err(DatagramDecodeError::TooShort);
        };
        let channel = match channel {
            1 => DatagramChannel::Progress,
            2 => DatagramChannel::Audio,
            3 => DatagramChannel::Log,
            unknown => return Err(DatagramDecodeError::UnknownChannel(unknown)),
        };
        if flags != 0 {
            return Err(DatagramDecodeError::Flags(flags));
        }
        Ok(Self { channel, request: u32::from_be_bytes([a, b, c, d]), payload })
    }
}

/// A numbered audio chunk (C-15).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AudioChunk<'a> {
    /// Sequence number, starting at 0. A gap shows that chunks were lost.
    pub sequence: u32,
    /// Start time in milliseconds, relative to the first chunk.
    pub timestamp: u32,
    /// The audio data, in the codec announced by `$/audio`.
    pub data: &'a [u8],
}

impl<'a> AudioChunk<'a> {
    /// Maximum length of the audio data in bytes.
    pub const MAX_LENGTH: usize = Datagram::MAX_LENGTH - Datagram::HEADER - 8;

    /// Encodes the chunk as the payload of a datagram.
    pub fn encode(&self) -> Vec<u8> {
        [&self.sequence.to_be_bytes(), &self.timestamp.to_be_bytes(), self.data].concat()
    }

    /// Decodes a payload; `None` if it is too short.
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
    use super::{AudioChunk, Datagram, DatagramChannel, DatagramDecodeError};

    /// WT-019, WT-020, WT-022, WT-023: a datagram has a channel, flags of 0 and a request number.
    #[test]
    fn datagrams_survive_a_round_trip() {
        for (channel, request, header) in [
            (DatagramChannel::Progress, 42, b"\x01\x00\0\0\0\x2a"),
            (DatagramChannel::Audio, u32::MAX, b"\x02\x00\xff\xff\xff\xff"),
            (DatagramChannel::Log, 0, b"\x03\x00\0\0\0\0"),
        ] {
            let datagram = Datagram { channel, request, payload: b"x" };
            let bytes = datagram.encode();
            assert_eq!((&bytes[..6], &bytes[6..]), (&header[..], &b"x"[..]));
            assert_eq!(Datagram::decode(&bytes), Ok(datagram));
        }
    }

    /// WT-021: the reason is reported, so that invalid datagrams can be counted.
    #[test]
    fn invalid_datagrams_are_rejected() {
        for (bytes, error) in [
            (&b""[..], DatagramDecodeError::TooShort),
            (b"\x01\x00\0\0\0", DatagramDecodeError::TooShort),
            (b"\x00\x00\0\0\0\x01", DatagramDecodeError::UnknownChannel(0)),
            (b"\x7f\x00\0\0\0\x01", DatagramDecodeError::UnknownChannel(0x7f)),
            (b"\x01\x80\0\0\0\x01", DatagramDecodeError::Flags(0x80)),
        ] {
            assert_eq!(Datagram::decode(bytes), Err(error), "{bytes:x?}");
        }
    }

    /// WT-026: a chunk has a sequence number and a timestamp.
    #[test]
    fn audio_chunks_are_numbered() {
        let chunk = AudioChunk { sequence: 3, timestamp: 60, data: &[7; 4] };
        assert_eq!(chunk.encode(), b"\0\0\0\x03\0\0\0\x3c\x07\x07\x07\x07");
        assert_eq!(AudioChunk::decode(&chunk.encode()), Some(chunk));
        assert_eq!(AudioChunk::decode(b"\0\0\0\x03\0\0\0"), None);
    }
}
