//! Reading of CBOR: values of every type, and malformed input.

use super::{Reader, half_float};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

fn read<'de, T: Deserialize<'de>>(bytes: &'de [u8]) -> Result<T, String> {
    T::deserialize(&mut Reader::new(bytes)).map_err(|error| error.to_string())
}

/// The examples of RFC 8949, appendix A.
#[test]
fn half_precision_floats_are_exact() {
    for (bits, expected) in [
        (0x0000, 0.0),
        (0x3c00, 1.0),
        (0x3e00, 1.5),
        (0x7bff, 65504.0),
        (0x0001, 5.960_464_477_539_063e-8),
        (0x0400, 0.000_061_035_156_25),
        (0xc400, -4.0),
        (0x7c00, f64::INFINITY),
        (0xfc00, f64::NEG_INFINITY),
    ] {
        assert_eq!(half_float(bits), expected, "{bits:x}");
    }
    assert!(half_float(0x8000).is_sign_negative() && half_float(0x7e00).is_nan());
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Shape {
    Point,
    Circle(f64),
    Box { width: u8 },
    Line(i8, i8),
}

/// WT-036: types with a shorter binary form are read from the strings they have in JSON.
#[test]
fn types_are_read_from_the_strings_they_are_in_json() {
    let address: std::net::IpAddr = "127.0.0.1".parse().unwrap();
    assert_eq!(read(b"\x69127.0.0.1"), Ok(address));
}

#[test]
fn items_decode_to_the_expected_values() {
    for (bytes, expected) in [
        (&b"\x00"[..], json!(0)),
        (b"\x17", json!(23)),
        (b"\x18\xff", json!(255)),
        (b"\x1b\xff\xff\xff\xff\xff\xff\xff\xff", json!(u64::MAX)),
        (b"\x20", json!(-1)),
        (b"\x3b\x7f\xff\xff\xff\xff\xff\xff\xff", json!(i64::MIN)),
        (b"\x63abc", json!("abc")),
        (b"\x7f\x61a\x62bc\xff", json!("abc")),
        (b"\xf4", json!(false)),
        (b"\xf5", json!(true)),
        (b"\xf6", Value::Null),
        (b"\xf9\x3e\x00", json!(1.5)),
        (b"\xfa\x3f\xc0\0\0", json!(1.5)),
        (b"\xfb\x3f\xf8\0\0\0\0\0\0", json!(1.5)),
        (b"\x82\x01\x80", json!([1, []])),
        (b"\x9f\x01\x9f\xff\xff", json!([1, []])),
        (b"\xa1\x61a\xa0", json!({"a": {}})),
        (b"\xbf\x61a\xbf\xff\xff", json!({"a": {}})),
    ] {
        assert_eq!(read::<Value>(bytes), Ok(expected), "{bytes:x?}");
    }
    for bytes in [
        &b""[..],
        b"\x61",
        b"\x61\xff",
        b"\x7f\x41a\xff",
        b"\x7f\x61\xff\xff",
        b"\x82\x01",
        b"\x9f\x01",
        b"\xa1\x61a",
        b"\xa1\x01\x01",
        b"\xc1\x01",
        b"\xf7",
        b"\xf8\x20",
        b"\xff",
        b"\x1c",
        b"\x3b\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\x9b\xff\xff\xff\xff\xff\xff\xff\xff",
        &[0x81; 200],
    ] {
        assert!(read::<Value>(bytes).is_err(), "{bytes:x?}");
    }
}

#[test]
fn types_accept_the_same_input_as_from_json() {
    assert_eq!(read::<f64>(b"\x02"), Ok(2.0));
    assert_eq!(read::<u8>(b"\x19\x01\x00").ok(), None);
    assert_eq!(read::<i8>(b"\x20"), Ok(-1));
    assert_eq!(read::<Option<u8>>(b"\xf6"), Ok(None));
    assert_eq!(read::<Option<u8>>(b"\x01"), Ok(Some(1)));
    assert_eq!(read::<&str>(b"\x61a"), Ok("a"));
    assert_eq!(read::<String>(b"\x7f\x61a\xff"), Ok("a".to_owned()));
    assert_eq!(read::<()>(b"\xf6"), Ok(()));
    assert_eq!(read::<(u8, u8)>(b"\x82\x01\x02"), Ok((1, 2)));
    for bytes in [&b"\x81\x01"[..], b"\x83\x01\x02\x03", b"\x9f\x01\x02\x03\xff"] {
        assert!(read::<(u8, u8)>(bytes).is_err(), "{bytes:x?}");
    }
    assert_eq!(read::<Shape>(b"\x65point"), Ok(Shape::Point));
    assert_eq!(read::<Shape>(b"\xa1\x66circle\x02"), Ok(Shape::Circle(2.0)));
    assert_eq!(read::<Shape>(b"\xbf\x66circle\x02\xff"), Ok(Shape::Circle(2.0)));
    assert_eq!(
        read::<Shape>(b"\xa1\x63box\xa2\x65width\x01\x61x\x81\x01"),
        Ok(Shape::Box { width: 1 })
    );
    assert_eq!(read::<Shape>(b"\xa1\x64line\x82\x01\x20"), Ok(Shape::Line(1, -1)));
    for bytes in [&b"\x61x"[..], b"\xa0", b"\xa2\x66circle\x02\x61a\x01", b"\x01"] {
        assert!(read::<Shape>(bytes).is_err(), "{bytes:x?}");
    }
    let map: BTreeMap<String, u8> = read(b"\xa1\x61a\x01").unwrap();
    assert_eq!(map, BTreeMap::from([("a".to_owned(), 1)]));
}
