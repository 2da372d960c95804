//! Properties of seals: they open only unmodified, and for the same purpose and data.

use mcp_flow_seal::{BadKeys, Key, KeyRing, Seal, UnsealError};
use proptest::prelude::*;

proptest! {
    #[test]
    fn seals_open(
        content: Vec<u8>, bound_to: Vec<u8>, key: [u8; 32], random: [u8; 24], expires: Option<u32>,
    ) {
        let ring = KeyRing::new(Key::from_bytes(key));
        let seal = Seal { purpose: "test", bound_to: &bound_to };
        let expires = expires.map(u64::from);
        let text = ring.seal(seal, expires, &content, random);
        let now = expires.map_or(u64::MAX, |expires| expires.saturating_sub(1));
        match ring.open(seal, now, &text) {
            Ok(opened) => prop_assert_eq!(opened, content),
            Err(error) => prop_assert!(expires == Some(0) && error == UnsealError::Expired),
        }
    }

    /// C-43: any modified bit is detected.
    #[test]
    fn a_modified_bit_is_detected(content: Vec<u8>, position: prop::sample::Index, bit in 0..8) {
        let ring = ring(1);
        let mut sealed = ring.seal_bytes(SEAL, Some(u64::MAX - 1), &content, [3; 24]);
        let position = position.index(sealed.len());
        sealed[position] ^= 1_u8 << bit;
        prop_assert!(ring.open_bytes(SEAL, 0, &sealed).is_err());
    }

    #[test]
    fn a_modified_character_is_detected(position: prop::sample::Index, other: char) {
        let ring = ring(1);
        let text = ring.seal(SEAL, None, b"some content", [3; 24]);
        let mut characters: Vec<char> = text.chars().collect();
        let position = position.index(characters.len());
        prop_assume!(characters[position] != other);
        characters[position] = other;
        let changed: String = characters.into_iter().collect();
        prop_assert!(ring.open(SEAL, 0, &changed).is_err());
    }

    #[test]
    fn truncation_and_extension_are_detected(cut: prop::sample::Index, more: Vec<u8>) {
        let ring = ring(1);
        let sealed = ring.seal_bytes(SEAL, None, b"some content", [3; 24]);
        prop_assert!(ring.open_bytes(SEAL, 0, &sealed[..cut.index(sealed.len())]).is_err());
        prop_assume!(!more.is_empty());
        prop_assert!(ring.open_bytes(SEAL, 0, &[sealed, more].concat()).is_err());
    }

    #[test]
    fn arbitrary_bytes_are_rejected(bytes: Vec<u8>, text: String) {
        prop_assert!(ring(1).open_bytes(SEAL, 0, &bytes).is_err());
        prop_assert!(ring(1).open(SEAL, 0, &text).is_err());
        // Parsing arbitrary text must not panic.
        let _ = text.parse::<KeyRing>();
    }

    #[test]
    fn a_seal_is_bound_to_its_data(mine: Vec<u8>, other: Vec<u8>) {
        prop_assume!(mine != other);
        let ring = ring(1);
        let text = ring.seal(Seal { bound_to: &mine, ..SEAL }, None, b"", [3; 24]);
        let foreign = Seal { bound_to: &other, ..SEAL };
        prop_assert_eq!(ring.open(foreign, 0, &text), Err(UnsealError::Forged));
    }
}

#[test]
fn a_seal_is_bound_to_its_purpose() {
    let ring = ring(1);
    let text = ring.seal(SEAL, None, b"content", [3; 24]);
    let other = Seal { purpose: "tes", bound_to: b"t" };
    assert_eq!(ring.open(other, 0, &text), Err(UnsealError::Forged));
}

#[test]
fn a_seal_expires_on_the_second() {
    let ring = ring(1);
    let text = ring.seal(SEAL, Some(100), b"content", [3; 24]);
    assert!(ring.open(SEAL, 99, &text).is_ok());
    assert_eq!(ring.open(SEAL, 100, &text), Err(UnsealError::Expired));
    let forever = ring.seal(SEAL, None, b"content", [3; 24]);
    assert!(ring.open(SEAL, u64::MAX, &forever).is_ok());
}

#[test]
fn seals_of_the_same_content_differ() {
    let ring = ring(1);
    let with = |random| ring.seal_bytes(SEAL, None, &[0; 64], random);
    assert_ne!(with([1; 24])[37..], with([2; 24])[37..]);
}

#[test]
fn a_ring_is_parsed_from_text() {
    let one = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE";
    let two = "AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI";
    for text in [
        format!("{one}\n{two}\n"),
        format!("{one},{two}"),
        format!("# keys\r\n  {one}\t{one}\r\n\n# old\n{two}"),
        format!("{one}=\n{}", "02".repeat(32)),
    ] {
        let read: KeyRing = text.parse().unwrap();
        assert!(ring(1).open(SEAL, 0, &read.seal(SEAL, None, b"", [0; 24])).is_ok());
        assert!(read.open(SEAL, 0, &ring(2).seal(SEAL, None, b"", [0; 24])).is_ok());
    }
    let standard = "+/v7+/v7+/v7+/v7+/v7+/v7+/v7+/v7+/v7+/v7+/s=";
    let hexadecimal = "FBFBfbfb".repeat(8);
    let read: KeyRing = standard.parse().unwrap();
    let sealed = read.seal(SEAL, None, b"", [0; 24]);
    assert!(hexadecimal.parse::<KeyRing>().unwrap().open(SEAL, 0, &sealed).is_ok());
    let many: String = ('A'..='Q').map(|letter| format!("{letter}{}\n", &one[1..])).collect();
    for (text, expected) in [
        ("", BadKeys::None),
        ("# only a comment", BadKeys::None),
        (&one[1..], BadKeys::Malformed(1)),
        (&format!("{one} {two}A"), BadKeys::Malformed(2)),
        (&format!("{one} {}", "A".repeat(100)), BadKeys::Malformed(2)),
        (&format!("{one} {}", "+2".repeat(32)), BadKeys::Malformed(2)),
        (&many, BadKeys::TooMany(16)),
    ] {
        assert_eq!(text.parse::<KeyRing>().unwrap_err(), expected, "{text}");
    }
}

#[test]
fn debug_output_hides_keys() {
    let shown = format!("{:?}", ring(65));
    assert!(!shown.contains("65") && !shown.contains("QUFB"), "{shown}");
}

const SEAL: Seal<'_> = Seal { purpose: "test", bound_to: b"bound" };

fn ring(byte: u8) -> KeyRing {
    KeyRing::new(Key::from_bytes([byte; 32]))
}
