//! Header of an execution stream: request number and stream tag.

use crate::id::RequestId;

/// The first eight bytes of an execution stream.
///
/// ```
/// use mcp_flow_proto::webtransport::StreamHeader;
///
/// let header = StreamHeader { request: 42, tag: 1 };
/// assert_eq!(header.encode(), *b"\0\0\0\x2a\0\0\0\x01");
/// assert_eq!(StreamHeader::decode(*b"\0\0\0\x2a\0\0\0\x01"), header);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamHeader {
    /// The request the stream belongs to.
    pub request: u32,
    /// The tag by which the request's result refers to the stream.
    pub tag: u32,
}

impl StreamHeader {
    /// Length of the header in bytes.
    pub const LENGTH: usize = 8;

    /// Encodes the header.
    pub fn encode(self) -> [u8; Self::LENGTH] {
        (u64::from(self.request) << 32 | u64::from(self.tag)).to_be_bytes()
    }

    /// Decodes a header.
    pub fn decode(bytes: [u8; Self::LENGTH]) -> Self {
        let [a, b, c, d, e, f, g, h] = bytes;
        Self { request: u32::from_be_bytes([a, b, c, d]), tag: u32::from_be_bytes([e, f, g, h]) }
    }
}

/// Incremental header decoder, for headers that arrive in pieces (WT-017).
#[derive(Debug, Default)]
pub struct HeaderDecoder {
    bytes: [u8; StreamHeader::LENGTH],
    length: usize,
}

impl HeaderDecoder {
    /// Consumes header bytes from the front of `arrived`. Returns the header once it is complete.
    pub fn take(&mut self, arrived: &mut &[u8]) -> Option<StreamHeader> {
        let missing = StreamHeader::LENGTH - self.length;
        let (own, rest) = arrived.split_at(missing.min(arrived.len()));
        self.bytes[self.length..self.length + own.len()].copy_from_slice(own);
        self.length += own.len();
        *arrived = rest;
        (self.length == StreamHeader::LENGTH).then(|| StreamHeader::decode(self.bytes))
    }

    /// Returns the number of bytes still missing.
    pub fn missing(&self) -> usize {
        StreamHeader::LENGTH - self.length
    }
}

/// Returns the 32-bit number of a request id that fits into a header. 0 is excluded: in datagrams
/// it stands for the whole session (C-13).
pub fn request_number(id: &RequestId) -> Option<u32> {
    match id {
        RequestId::Integer(number) => u32::try_from(*number).ok().filter(|number| *number != 0),
        RequestId::String(_) | RequestId::Number(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{HeaderDecoder, StreamHeader, request_number};
    use crate::id::RequestId;

    /// WT-016, WT-018: both numbers are unsigned and big-endian.
    #[test]
    fn headers_survive_a_round_trip() {
        for (request, tag) in [(42, 1), (0, 0), (u32::MAX, 0), (0, u32::MAX), (1 << 31, 7)] {
            let header = StreamHeader { request, tag };
            assert_eq!(StreamHeader::decode(header.encode()), header);
            assert_eq!(header.encode()[..4], request.to_be_bytes());
        }
    }

    /// WT-017: a header may arrive in pieces; the bytes after it are not consumed.
    #[test]
    fn headers_are_read_in_pieces() {
        let stream = b"\0\0\0\x2a\0\0\0\x01payload";
        for size in 1..=stream.len() {
            let mut decoder = HeaderDecoder::default();
            let mut payload = Vec::new();
            let mut header = None;
            for mut piece in stream.chunks(size) {
                header = header.or_else(|| decoder.take(&mut piece));
                payload.extend_from_slice(piece);
            }
            assert_eq!(header, Some(StreamHeader { request: 42, tag: 1 }), "{size}");
            assert_eq!(payload, b"payload");
        }
        let mut decoder = HeaderDecoder::default();
        assert_eq!(decoder.take(&mut &b"\0\0\0\0\0"[..]), None);
        assert_eq!(decoder.missing(), 3);
    }

    /// C-13: only 32-bit integers other than 0 can have streams.
    #[test]
    fn only_32_bit_ids_have_a_number() {
        for (id, number) in [
            (RequestId::Integer(1), Some(1)),
            (RequestId::Integer(4_294_967_295), Some(u32::MAX)),
            (RequestId::Integer(0), None),
            (RequestId::Integer(-1), None),
            (RequestId::Integer(4_294_967_296), None),
            (RequestId::from("1"), None),
            (RequestId::Number("1.0".into()), None),
        ] {
            assert_eq!(request_number(&id), number, "{id}");
        }
    }
}
