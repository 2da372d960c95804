//! MCP-073: modified, truncated, replayed, reflected, reordered and foreign messages are rejected.

use super::{ClientChannel, EnvelopeError, MessageKeys, ServerChannels, Side, Stamp, is_envelope};
use crate::{Key, KeyRing};

fn ring(byte: u8) -> KeyRing {
    KeyRing::new(Key::from_bytes([byte; 32]))
}

fn keys(byte: u8) -> MessageKeys {
    MessageKeys::new(&ring(byte))
}

const STAMP: Stamp = Stamp { time: NOW, channel: [2; 16], sender: [3; 8], number: 5 };
const NOW: u64 = 1_800_000_000_000;
const WINDOW: u64 = 60_000;

/// Messages in both encodings, JSON and CBOR.
const MESSAGES: [&[u8]; 4] = [b"{\"id\":1}", b"[]", b"\xa1\x62id\x01", b"\x80"];

fn wrapped(side: Side, message: &[u8]) -> Vec<u8> {
    let mut frame = message.to_vec();
    keys(7).wrap(side, &STAMP, &mut frame, 0);
    frame
}

/// MCP-073: an envelope returns the exact bytes of its message.
#[test]
fn an_envelope_returns_its_message() {
    for message in MESSAGES {
        let frame = wrapped(Side::Client, message);
        assert!(is_envelope(&frame) && !is_envelope(message));
        assert_eq!(keys(7).open(Side::Client, &frame), Ok((STAMP, message)));
        // Appended to a buffer that has content.
        let mut queue = b"before\n".to_vec();
        queue.extend_from_slice(message);
        keys(7).wrap(Side::Client, &STAMP, &mut queue, 7);
        assert_eq!(&queue[7..], frame);
    }
    let text = String::from_utf8(wrapped(Side::Server, b"{}")).unwrap();
    assert!(text.starts_with("{\"signed\":\"") && text.ends_with("\",\"message\":{}}"), "{text}");
    let stamp = ".1.s.";
    assert!(text.contains(stamp), "{text}");
}

/// MCP-073: any modified bit is rejected.
#[test]
fn a_modified_byte_is_rejected() {
    for message in MESSAGES {
        let frame = wrapped(Side::Client, message);
        for place in 0..frame.len() {
            for bit in 0..8 {
                let mut changed = frame.clone();
                changed[place] ^= 1 << bit;
                let opened = keys(7).open(Side::Client, &changed);
                assert!(opened.is_err(), "byte {place}, bit {bit} of {frame:?}");
            }
        }
    }
}

/// MCP-073: truncated and extended frames are rejected.
#[test]
fn truncated_and_extended_frames_are_rejected() {
    for message in MESSAGES {
        let frame = wrapped(Side::Client, message);
        for length in 0..frame.len() {
            assert!(keys(7).open(Side::Client, &frame[..length]).is_err(), "{length}");
            assert!(keys(7).open(Side::Client, &frame[length + 1..]).is_err(), "{length}");
            let mut longer = frame.clone();
            longer.insert(length, b' ');
            assert!(keys(7).open(Side::Client, &longer).is_err(), "{length}");
        }
        for behind in [&b" "[..], b"}", b"\n", b"\x80"] {
            let longer = [&frame, behind].concat();
            assert!(keys(7).open(Side::Client, &longer).is_err(), "{behind:?}");
        }
    }
}

/// MCP-073: each reason of rejection has its own error.
#[test]
fn each_rejection_has_its_reason() {
    let frame = wrapped(Side::Client, b"{}");
    assert_eq!(keys(7).open(Side::Client, b"{\"id\":1}"), Err(EnvelopeError::Unsigned));
    assert_eq!(keys(7).open(Side::Client, b""), Err(EnvelopeError::Unsigned));
    assert_eq!(keys(8).open(Side::Client, &frame), Err(EnvelopeError::UnknownKey));
    assert_eq!(keys(7).open(Side::Server, &frame), Err(EnvelopeError::Reflected));
    let mut changed = frame.clone();
    *changed.last_mut().unwrap() = b']';
    assert_eq!(keys(7).open(Side::Client, &changed), Err(EnvelopeError::Changed));
    // Reflected as if the other side had signed it.
    let text = String::from_utf8(frame).unwrap().replace(".1.c.", ".1.s.");
    assert_eq!(keys(7).open(Side::Server, text.as_bytes()), Err(EnvelopeError::Changed));
}

/// MCP-073: the newest key signs, and all keys on the ring verify.
#[test]
fn keys_can_be_rotated_without_a_gap() {
    let old = ring(1);
    let mut both = ring(1);
    both.rotate(Key::from_bytes([2; 32]));
    let new = ring(2);
    let open = |by: &KeyRing, at: &KeyRing| {
        let mut frame = b"{}".to_vec();
        MessageKeys::new(by).wrap(Side::Client, &STAMP, &mut frame, 0);
        MessageKeys::new(at).open(Side::Client, &frame).map(drop)
    };
    assert_eq!(open(&old, &both), Ok(()));
    assert_eq!(open(&both, &both), Ok(()));
    assert_eq!(open(&both, &new), Ok(()));
    assert_eq!(open(&both, &old), Err(EnvelopeError::UnknownKey));
    assert_eq!(open(&old, &new), Err(EnvelopeError::UnknownKey));
}

fn caller(channel: u8) -> ClientChannel {
    ClientChannel::new(keys(7), [channel; 16], [1; 8])
}

fn channels() -> ServerChannels {
    ServerChannels::new(WINDOW, NOW)
}

/// MCP-073: on an unordered transport each message is accepted once, on any connection.
#[test]
fn a_message_is_accepted_once_in_any_order() {
    let (caller, channels, keys) = (caller(1), channels(), keys(7));
    let frames: Vec<_> = (0..4).map(|_| caller.wrap(NOW, b"{}".to_vec())).collect();
    for place in [2, 0, 3, 1] {
        assert!(channels.open(&keys, NOW, &frames[place], || [9; 8]).is_ok(), "{place}");
    }
    for frame in &frames {
        let again = channels.open(&keys, NOW, frame, || [9; 8]).map(drop);
        assert_eq!(again, Err(EnvelopeError::Repeated));
    }
}

/// MCP-073: a message is accepted near its time of signing, and its channel kept no longer.
#[test]
fn an_old_message_is_rejected() {
    for (came, expected) in [
        (NOW, Ok(())),
        (NOW + WINDOW, Ok(())),
        (NOW - WINDOW, Ok(())),
        (NOW + WINDOW + 1, Err(EnvelopeError::Stale)),
        (NOW - WINDOW - 1, Err(EnvelopeError::Stale)),
    ] {
        let frame = caller(1).wrap(NOW, b"{}".to_vec());
        let opened = channels().open(&keys(7), came, &frame, || [9; 8]).map(drop);
        assert_eq!(opened, expected, "{came}");
    }
}

/// MCP-073: a restarted server rejects messages it may have accepted before.
#[test]
fn messages_are_not_accepted_again_after_a_restart() {
    let (caller, keys) = (caller(1), keys(7));
    let frames: Vec<_> = (0..2).map(|_| caller.wrap(NOW, b"{}".to_vec())).collect();
    let restarted = ServerChannels::new(WINDOW, NOW + 10);
    let open = |frame: &[u8]| restarted.open(&keys, NOW + 20, frame, || [9; 8]).map(drop);
    assert_eq!(open(&frames[1]), Err(EnvelopeError::Stale));
    assert_eq!(open(&caller.wrap(NOW + 15, b"{}".to_vec())), Ok(()));
}

/// MCP-073: the number of channels is limited; new ones are rejected until others expire.
#[test]
fn channels_are_limited_and_expire() {
    let (channels, keys) = (channels().limit(2), keys(7));
    let open = |caller: &ClientChannel, now| {
        let frame = caller.wrap(now, b"{}".to_vec());
        channels.open(&keys, now, &frame, || [9; 8]).map(|(channel, _)| channel)
    };
    let held = open(&caller(1), NOW).unwrap();
    assert!(open(&caller(2), NOW).is_ok());
    assert_eq!(open(&caller(3), NOW).unwrap_err(), EnvelopeError::TooMany);
    assert_eq!(open(&caller(3), NOW + 2 * WINDOW).unwrap_err(), EnvelopeError::TooMany);
    // The second has expired, the first is in use.
    let later = NOW + 3 * WINDOW;
    assert!(open(&caller(3), later).is_ok());
    assert_eq!(open(&caller(4), later + WINDOW).unwrap_err(), EnvelopeError::TooMany);
    drop(held);
    assert!(open(&caller(4), later + 2 * WINDOW).is_ok());
}

/// MCP-073: on an ordered transport, repeated, missing, reordered and foreign messages are
/// rejected.
#[test]
fn an_ordered_transport_accepts_only_the_next_message() {
    let (caller, channels, keys) = (caller(1), channels(), keys(7));
    let frames: Vec<_> = (0..4).map(|_| caller.wrap(NOW, b"{}".to_vec())).collect();
    let first = |frame: &[u8]| {
        channels.open_first(&keys, NOW, frame, || [9; 8]).map(|(channel, _)| channel)
    };
    let ahead = |expected, came| Err(EnvelopeError::OutOfOrder { expected, came });
    assert_eq!(first(&frames[1]).map(drop), ahead(0, 1));
    let channel = first(&frames[0]).unwrap();
    assert_eq!(first(&frames[0]).map(drop), Err(EnvelopeError::Repeated));
    // Much later: a connection may be slow.
    let open = |frame: &[u8]| channel.open_next(&keys, NOW + 10 * WINDOW, frame).map(drop);
    assert_eq!(open(&frames[2]), ahead(1, 2));
    assert_eq!(open(&frames[1]), Ok(()));
    assert_eq!(open(&frames[1]), Err(EnvelopeError::Repeated));
    assert_eq!(open(&frames[3]), ahead(2, 3));
    assert_eq!(open(&frames[2]), Ok(()));
    let other = ClientChannel::new(keys.clone(), [8; 16], [1; 8]);
    assert_eq!(open(&other.wrap(NOW, b"{}".to_vec())), Err(EnvelopeError::Foreign));
}

/// MCP-073: the client accepts messages of its own connection, once and in order.
#[test]
fn the_client_accepts_only_messages_of_its_connection() {
    let (caller, channels, keys) = (caller(1), channels(), keys(7));
    let request = caller.wrap(NOW, b"{}".to_vec());
    let (channel, _) = channels.open(&keys, NOW, &request, || [9; 8]).unwrap();
    let reply = || {
        let mut frame = b"{}".to_vec();
        channel.wrap(&keys, NOW, &mut frame, 0);
        frame
    };
    let replies: Vec<_> = (0..3).map(|_| reply()).collect();
    assert_eq!(caller.open(&request), Err(EnvelopeError::Reflected));
    assert_eq!(caller.open(b"{}"), Err(EnvelopeError::Unsigned));
    assert_eq!(super::tests::caller(2).open(&replies[0]), Err(EnvelopeError::Foreign));
    assert_eq!(caller.open(&replies[1]), Err(EnvelopeError::OutOfOrder { expected: 0, came: 1 }));
    assert_eq!(caller.open(&replies[0]), Ok(&b"{}"[..]));
    assert_eq!(caller.open(&replies[0]), Err(EnvelopeError::Repeated));
    caller.allow_any_order();
    assert_eq!(caller.open(&replies[2]), Ok(&b"{}"[..]));
    assert_eq!(caller.open(&replies[1]), Ok(&b"{}"[..]));
    assert_eq!(caller.open(&replies[1]), Err(EnvelopeError::Repeated));
}
