//! MCP-073: what is changed, cut, repeated, sent back, mixed up or signed by others is refused.

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

/// Both forms of an envelope: around JSON, and around an empty map of CBOR.
const MESSAGES: [&[u8]; 4] = [b"{\"id\":1}", b"[]", b"\xa1\x62id\x01", b"\x80"];

fn wrapped(side: Side, message: &[u8]) -> Vec<u8> {
    let mut frame = message.to_vec();
    keys(7).wrap(side, &STAMP, &mut frame, 0);
    frame
}

/// MCP-073: the bytes come out as they went in, and the envelope is what it looks like.
#[test]
fn an_envelope_gives_back_what_was_put_in() {
    for message in MESSAGES {
        let frame = wrapped(Side::Client, message);
        assert!(is_envelope(&frame) && !is_envelope(message));
        assert_eq!(keys(7).open(Side::Client, &frame), Ok((STAMP, message)));
        // Behind something else, as in a queue.
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

/// MCP-073: with signing on, a changed byte is refused, whichever it is and however it is changed.
#[test]
fn a_changed_byte_is_refused() {
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

/// MCP-073: nothing can be cut off, put in, or put behind.
#[test]
fn a_cut_or_longer_message_is_refused() {
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

/// MCP-073: each reason has its name, so that people learn what to do.
#[test]
fn why_a_message_is_refused_is_told_apart() {
    let frame = wrapped(Side::Client, b"{}");
    assert_eq!(keys(7).open(Side::Client, b"{\"id\":1}"), Err(EnvelopeError::Unsigned));
    assert_eq!(keys(7).open(Side::Client, b""), Err(EnvelopeError::Unsigned));
    assert_eq!(keys(8).open(Side::Client, &frame), Err(EnvelopeError::UnknownKey));
    assert_eq!(keys(7).open(Side::Server, &frame), Err(EnvelopeError::Reflected));
    let mut changed = frame.clone();
    *changed.last_mut().unwrap() = b']';
    assert_eq!(keys(7).open(Side::Client, &changed), Err(EnvelopeError::Changed));
    // Sent back as if the other side had made it.
    let text = String::from_utf8(frame).unwrap().replace(".1.c.", ".1.s.");
    assert_eq!(keys(7).open(Side::Server, text.as_bytes()), Err(EnvelopeError::Changed));
}

/// MCP-073: the newest key signs, and all of them are believed until they are taken away.
#[test]
fn keys_can_be_exchanged_without_a_gap() {
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

/// MCP-073: over transports without an order each message is good once, wherever it comes.
#[test]
fn a_message_is_good_once_in_any_order() {
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

/// MCP-073: a message is believed near the time it was signed at, and not remembered for longer.
#[test]
fn an_old_message_is_refused() {
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

/// MCP-073: a server that was started anew does not take up what it may have had before.
#[test]
fn a_restart_makes_nothing_good_again() {
    let (caller, keys) = (caller(1), keys(7));
    let frames: Vec<_> = (0..2).map(|_| caller.wrap(NOW, b"{}".to_vec())).collect();
    let restarted = ServerChannels::new(WINDOW, NOW + 10);
    let open = |frame: &[u8]| restarted.open(&keys, NOW + 20, frame, || [9; 8]).map(drop);
    assert_eq!(open(&frames[1]), Err(EnvelopeError::Stale));
    assert_eq!(open(&caller.wrap(NOW + 15, b"{}".to_vec())), Ok(()));
}

/// MCP-073: memory is bounded; what is full lets nobody in, and forgets what can do no harm.
#[test]
fn channels_are_bounded_and_forgotten() {
    let (channels, keys) = (channels().limit(2), keys(7));
    let open = |caller: &ClientChannel, now| {
        let frame = caller.wrap(now, b"{}".to_vec());
        channels.open(&keys, now, &frame, || [9; 8]).map(|(channel, _)| channel)
    };
    let held = open(&caller(1), NOW).unwrap();
    assert!(open(&caller(2), NOW).is_ok());
    assert_eq!(open(&caller(3), NOW).unwrap_err(), EnvelopeError::TooMany);
    assert_eq!(open(&caller(3), NOW + 2 * WINDOW).unwrap_err(), EnvelopeError::TooMany);
    // The second may be forgotten, the first is in use.
    let later = NOW + 3 * WINDOW;
    assert!(open(&caller(3), later).is_ok());
    assert_eq!(open(&caller(4), later + WINDOW).unwrap_err(), EnvelopeError::TooMany);
    drop(held);
    assert!(open(&caller(4), later + 2 * WINDOW).is_ok());
}

/// MCP-073: over transports with an order nothing is repeated, left out, exchanged or put elsewhere.
#[test]
fn in_order_means_in_order() {
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

/// MCP-073: the client believes what the server says on this connection, once, and in its turn.
#[test]
fn the_client_believes_answers_to_itself_alone() {
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
