//! Frames of the control stream: each message is prefixed with its length in four bytes.

/// Splits a byte stream into length-prefixed frames.
///
/// The length is checked before anything is allocated, and the buffer grows only as bytes arrive.
/// Announcing a frame of four gigabytes costs the receiver nothing (WT-014).
///
/// ```
/// use mcp_flow_proto::webtransport::FrameDecoder;
///
/// let mut decoder = FrameDecoder::new(1024);
/// decoder.buffer().extend_from_slice(b"\0\0\0\x02{}\0\0\0\x07{\"a\"");
/// assert_eq!(decoder.next_frame(), Ok(Some(&b"{}"[..])));
/// assert_eq!(decoder.next_frame(), Ok(None));
/// ```
#[derive(Debug)]
pub struct FrameDecoder {
    buffer: Vec<u8>,
    /// Start of the next frame.
    start: usize,
    limit: usize,
}

/// A frame exceeds the length limit. The stream cannot be used any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a frame of {length} bytes is longer than {limit}")]
pub struct TooLong {
    /// The announced length.
    pub length: usize,
    /// The limit.
    pub limit: usize,
}

impl FrameDecoder {
    /// Creates a decoder for bodies of up to `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self { buffer: Vec::new(), start: 0, limit }
    }

    /// Returns the buffer to append received bytes to.
    ///
    /// Discards frames already returned, so call it only when [`next_frame`](Self::next_frame) has
    /// returned `None`.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        if self.start == self.buffer.len() {
            self.buffer.clear();
        } else {
            self.buffer.drain(..self.start);
        }
        self.start = 0;
        // A single huge message must not keep its memory for the lifetime of the connection.
        if self.buffer.capacity() > KEEP_CAPACITY && self.buffer.len() < KEEP_CAPACITY / 2 {
            self.buffer.shrink_to(KEEP_CAPACITY);
        }
        &mut self.buffer
    }

    /// Returns the body of the next complete frame, or `None` until more bytes arrive.
    pub fn next_frame(&mut self) -> Result<Option<&[u8]>, TooLong> {
        let Some((length, rest)) = self.buffer[self.start..].split_first_chunk() else {
            return Ok(None);
        };
        let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
        if length > self.limit {
            return Err(TooLong { length, limit: self.limit });
        }
        let Some(body) = rest.get(..length) else { return Ok(None) };
        self.start += PREFIX + length;
        Ok(Some(body))
    }

    /// Returns the number of buffered bytes, most of them of an incomplete frame.
    pub fn pending(&self) -> usize {
        self.buffer.len() - self.start
    }

    /// Returns whether the buffer ends inside a frame.
    pub fn is_within_frame(&self) -> bool {
        self.start < self.buffer.len()
    }
}

/// Appends a body, prefixed with its length.
pub fn write_frame(out: &mut Vec<u8>, body: &[u8]) -> Result<(), TooLong> {
    let length = u32::try_from(body.len())
        .map_err(|_| TooLong { length: body.len(), limit: u32::MAX as usize })?;
    out.reserve(PREFIX + body.len());
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(body);
    Ok(())
}

/// Length of the prefix in bytes.
const PREFIX: usize = 4;

/// Capacity above which the buffer shrinks between messages.
const KEEP_CAPACITY: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::{FrameDecoder, TooLong, write_frame};

    /// The complete sample of seed 001.
    const SAMPLE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{},"clientInfo":{"name":"test","version":"1.0"},"transport":{"type":"mcp-flow","version":"0.1","encodings":["cbor","json"]}}}"#;

    /// WT-011, WT-012, C-03: the sample is prefixed with its true length, big-endian.
    #[test]
    fn the_sample_has_its_true_length() {
        let mut frame = Vec::new();
        write_frame(&mut frame, SAMPLE.as_bytes()).unwrap();
        assert_eq!(frame.len(), 231);
        assert_eq!(frame[..8], *b"\0\0\0\xe3\x7b\x22\x6a\x73");
        assert_eq!(frame[4..18], *b"{\"jsonrpc\":\"2.");
    }

    /// C-03: with the length stated in the seed, the rest is the start of an impossible frame.
    #[test]
    fn the_wrong_length_of_the_sample_does_not_hang() {
        let mut decoder = FrameDecoder::new(16 << 20);
        decoder.buffer().extend_from_slice(b"\0\0\0\xda");
        decoder.buffer().extend_from_slice(SAMPLE.as_bytes());
        assert_eq!(decoder.next_frame(), Ok(Some(&SAMPLE.as_bytes()[..218])));
        let length = u32::from_be_bytes(*b"json") as usize;
        assert_eq!(decoder.next_frame(), Err(TooLong { length, limit: 16 << 20 }));
    }

    /// WT-013, WT-015: frames do not depend on how bytes arrive; an empty frame is valid.
    #[test]
    fn frames_do_not_depend_on_how_bytes_arrive() {
        let whole = b"\0\0\0\x02{}\0\0\0\x00\0\0\0\x05[1,2]\0\0\0\x01";
        for size in 1..=whole.len() {
            let mut decoder = FrameDecoder::new(5);
            let mut found = Vec::new();
            for piece in whole.chunks(size) {
                decoder.buffer().extend_from_slice(piece);
                while let Some(frame) = decoder.next_frame().unwrap() {
                    found.push(frame.to_vec());
                }
            }
            assert_eq!(found, [&b"{}"[..], b"", b"[1,2]"], "in pieces of {size}");
            assert!(decoder.is_within_frame());
        }
    }

    /// WT-014: an oversized frame is rejected by its announced length.
    #[test]
    fn an_announced_length_over_the_limit_is_rejected_at_once() {
        for (length, refused) in [(5, false), (6, true), (u32::MAX, true)] {
            let mut decoder = FrameDecoder::new(5);
            decoder.buffer().extend_from_slice(&length.to_be_bytes());
            assert_eq!(decoder.next_frame().is_err(), refused, "{length}");
            assert!(decoder.buffer().capacity() < 1024);
        }
    }
}
