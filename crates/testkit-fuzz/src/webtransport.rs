//! Any bytes on a WebTransport session: frames, headers, datagrams, and streams in any order.

use std::collections::HashSet;
use std::time::Duration;

use mcp_flow_proto::webtransport::{
    Arrival, AudioChunk, Datagram, FrameDecoder, HeaderDecoder, Ledger, StreamHeader,
    StreamRejection, TooLong, write_frame,
};

/// Input: what arrives, decoded as each kind of content.
pub fn run(data: &[u8]) {
    frames(data);
    header(data);
    datagram(data);
    streams(data);
}

/// Input: a byte that selects the limit, one for the length of pieces, then the stream. Frames do
/// not depend on the pieces, and nothing is buffered above the limit.
fn frames(data: &[u8]) {
    let &[limit, size, ref stream @ ..] = data else { return };
    let (limit, size) = (usize::from(limit % 32), usize::from(size % 8) + 1);
    let mut decoder = FrameDecoder::new(limit);
    let mut found = Vec::new();
    let mut end = Ok(());
    for piece in stream.chunks(size) {
        decoder.buffer().extend_from_slice(piece);
        while end.is_ok() {
            match decoder.next_frame() {
                Ok(Some(frame)) => found.push(frame.to_vec()),
                Ok(None) => break,
                Err(error) => end = Err(error),
            }
        }
        if end.is_err() {
            break;
        }
        let kept = decoder.buffer().len();
        assert!(kept < limit + 4, "{kept} bytes are kept past a limit of {limit}");
    }
    let (expected, expected_end) = split(stream, limit);
    assert_eq!((&found, end), (&expected, expected_end));
    let mut written = Vec::new();
    found.iter().for_each(|frame| write_frame(&mut written, frame).unwrap());
    assert!(stream.starts_with(&written), "what is read is written the same");
}

/// Splits the stream plainly: bodies, and whether one is too long.
fn split(mut stream: &[u8], limit: usize) -> (Vec<Vec<u8>>, Result<(), TooLong>) {
    let mut found = Vec::new();
    while let Some((length, rest)) = stream.split_first_chunk() {
        let length = u32::from_be_bytes(*length) as usize;
        if length > limit {
            return (found, Err(TooLong { length, limit }));
        }
        let Some((body, rest)) = rest.split_at_checked(length) else { break };
        found.push(body.to_vec());
        stream = rest;
    }
    (found, Ok(()))
}

/// Checks that a header is the first eight bytes, however they are split.
fn header(data: &[u8]) {
    let mut decoder = HeaderDecoder::default();
    let size = data.first().map_or(1, |size| usize::from(size % 9) + 1);
    let mut found = None;
    for mut piece in data.chunks(size) {
        found = found.or_else(|| decoder.take(&mut piece));
    }
    let expected = data.first_chunk().map(|bytes| StreamHeader::decode(*bytes));
    assert_eq!(found, expected);
    assert_eq!(found.map(StreamHeader::encode).as_ref(), data.first_chunk());
}

/// Checks that a datagram that decodes is encoded the same.
fn datagram(data: &[u8]) {
    if let Ok(datagram) = Datagram::decode(data) {
        assert_eq!(datagram.encode(), data);
        if let Some(chunk) = AudioChunk::decode(datagram.payload) {
            assert_eq!(chunk.encode(), datagram.payload);
        }
    }
}

/// Input: three bytes for each event of one of a few requests and streams.
fn streams(data: &[u8]) {
    const LIMIT: usize = 3;
    let mut ledger = Ledger::new(LIMIT, Duration::from_secs(5));
    let mut now = Duration::ZERO;
    // Streams that have arrived and not ended, as far as their reader knows.
    let mut here = HashSet::new();
    for step in data.chunks_exact(3) {
        let (request, tag) = (u32::from(step[1] % 4), u32::from(step[2] % 4));
        let stream = StreamHeader { request, tag };
        match step[0] % 7 {
            0 => {
                ledger.begin(request);
                here.retain(|stream: &StreamHeader| stream.request != request);
            }
            1 => match ledger.arrive(stream) {
                Ok(Arrival::Named | Arrival::Held) => {
                    assert!(here.insert(stream), "no stream comes twice");
                }
                Err(StreamRejection::Missing) => panic!("one that comes is not missing"),
                Err(StreamRejection::TooMany) => assert_eq!(here.len(), LIMIT),
                Err(_) => {}
            },
            2 => {
                let settled = ledger.settle(request, &[tag, tag + 1], now);
                let named = settled.named.iter().map(|&tag| StreamHeader { request, tag });
                assert!(named.into_iter().all(|stream| here.contains(&stream)));
            }
            3 => {
                ledger.end(stream);
                here.remove(&stream);
            }
            4 => {
                for tag in ledger.cancel(request, now) {
                    assert!(here.remove(&StreamHeader { request, tag }));
                }
                assert!(request == 0 || !ledger.is_in_flight(request));
            }
            5 => _ = ledger.give_up(stream),
            _ => {
                now += Duration::from_secs(u64::from(step[1]));
                for expired in ledger.expire(now) {
                    let was_here = here.remove(&expired.stream);
                    assert_eq!(was_here, expired.rejection == StreamRejection::Injected);
                }
                assert!(ledger.next_deadline().is_none_or(|deadline| deadline > now));
            }
        }
        assert!(ledger.open() <= LIMIT);
        assert_eq!(ledger.open(), here.len());
    }
}
