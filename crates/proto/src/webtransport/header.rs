//! What an execution stream begins with: whose it is, and which of its streams.

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
    /// Which of the request's streams it is; its result names it by this.
    pub tag: u32,
}

impl StreamHeader {
    /// How long it is.
    pub const LENGTH: usize = 8;

    /// As it is sent.
    pub fn encode(self) -> [u8; Self::LENGTH] {
        (u64::from(self.request) << 32 | u64::from(self.tag)).to_be_bytes()
    }

    /// As it is read.
    pub fn decode(bytes: [u8; Self::LENGTH]) -> Self {
        let [a, b, c, d, e, f, g, h] = bytes;
        Self { request: u32::from_be_bytes([a, b, c, d]), tag: u32::from_be_bytes([e, f, g, h]) }
    }
}

/// Reads a header however it is split (WT-017).
#[derive(Debug, Default)]
pub struct HeaderDecoder {
    bytes: [u8; StreamHeader::LENGTH],
    length: usize,
}

impl HeaderDecoder {
    /// Takes what is missing off the front of what arrived; gives the header once it is complete.
    pub fn take(&mut self, arrived: &mut &[u8]) -> Option<StreamHeader> {
        let missing = StreamHeader::LENGTH - self.length;
        let (own, rest) = arrived.split_at(missing.min(arrived.len()));
        self.bytes[self.length..self.length + own.len()].copy_from_slice(own);
        self.length += own.len();
        *arrived = rest;
        (self.length == StreamHeader::LENGTH).then(|| StreamHeader::decode(self.bytes))
    }

    /// How many bytes are still to come.
    pub fn missing(&self) -> usize {
        StreamHeader::LENGTH - self.length
    }
}

/// The number of a request whose id fits into a header. 0 is none: in datagrams it stands for the
/// whole session (C-13).
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
    fn headers_come_back_as_they_were() {
        for (request, tag) in [(42, 1), (0, 0), (u32::MAX, 0), (0, u32::MAX), (1 << 31, 7)] {
            let header = StreamHeader { request, tag };
            assert_eq!(StreamHeader::decode(header.encode()), header);
            assert_eq!(header.encode()[..4], request.to_be_bytes());
        }
    }

    /// WT-017: a header is read however it is split, and what follows is left alone.
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

    /// C-13: only whole numbers of 32 bits have streams, and 0 has none.
    #[test]
    fn some_ids_have_no_number() {
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
