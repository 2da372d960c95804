//! Comparison of the JSON walk with serde_json.

use std::collections::BTreeMap;

use mcp_flow_proto::{Encoding, Incoming, Message, Raw};
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop, prop_oneof, proptest};
use serde::de::IgnoredAny;
use serde_json::Value;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// MCP-022: near-misses of JSON are rejected exactly where a general parser rejects them.
    #[test]
    fn syntax_verdicts_match_serde_json(text in json_like()) {
        let expected = serde_json::from_str::<IgnoredAny>(&text).is_ok();
        let object = format!("{{\"x\":{text}}}");
        let found = Raw::Json(&object).members(["x"]).is_ok();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn members_are_what_serde_json_finds(value in value(), other in value()) {
        let text = serde_json::json!({"other": other, "a\"b": 1, "value": value}).to_string();
        // White space between tokens must not matter; inside a string it changes both sides alike.
        for text in [text.clone(), text.replace(',', " , ").replace(':', " : ")] {
            let [found] = Raw::Json(&text).members(["value"]).unwrap();
            let expected: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(found.unwrap().decode::<Value>().unwrap(), expected["value"]);
        }
    }

    /// MCP-022: arbitrary bytes never make decoding panic.
    #[test]
    fn no_frame_makes_decoding_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        for encoding in [Encoding::Json, Encoding::Cbor] {
            let _ = Incoming::decode(&bytes, encoding);
        }
    }

    /// MCP-022: errors name members and positions of the message in plain words, whatever was sent.
    #[test]
    fn errors_have_no_words_of_a_parser(value in value(), cut in any::<prop::sample::Index>()) {
        let (text, cbor) = (value.to_string(), Encoding::Cbor.encode(&value).unwrap());
        let cut_text = text.get(..cut.index(text.len())).unwrap_or_default();
        let raws = [Raw::Json(&text), Raw::Cbor(&cbor), Raw::Json(cut_text), Raw::Cbor(&cbor[..cut.index(cbor.len())])];
        for raw in raws {
            let outcome = raw.decode::<BTreeMap<String, Vec<BTreeMap<String, u8>>>>();
            let error = outcome.map_or_else(|error| error.to_string(), |_| String::new());
            for word in [" at line ", "at position", "missing field", "invalid type"] {
                assert!(!error.contains(word), "{raw:?}: {error}");
            }
        }
    }

    #[test]
    fn cbor_and_json_decode_alike(value in value()) {
        let message = serde_json::json!({"jsonrpc": "2.0", "id": 1, "method": "m", "params": {"v": value}});
        let frame = Encoding::Cbor.encode(&message).unwrap();
        let Ok(Incoming::Message(Message::Request(request))) = Incoming::decode(&frame, Encoding::Cbor) else {
            panic!("not a request: {message}");
        };
        let [found] = request.params.members(["v"]).unwrap();
        assert_eq!(found.unwrap().decode::<Value>().unwrap(), value);
    }
}

#[test]
fn deep_nesting_is_walked_without_recursion() {
    for depth in [63, 64, 65, 127, 128, 129, 1000, 1_000_000] {
        let text = format!("{{\"x\":{}1{}}}", "[{\"a\":".repeat(depth / 2), "}]".repeat(depth / 2));
        assert!(Raw::Json(&text).members(["x"]).is_ok(), "{depth}");
        let wrong = text.replacen("}]", "]}", 1);
        assert!(depth < 2 || Raw::Json(&wrong).members(["x"]).is_err(), "{depth}");
    }
}

/// Generates texts from pieces of JSON, most of them almost valid.
fn json_like() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => prop::sample::select(vec![
            "{", "}", "[", "]", ":", ",", "\"", "\\", "\\u00e9", "\\u00", "\\n", "\\x", "1", "0", "-",
            ".", "e", "+", "true", "false", "null", "tru", " ", "\n", "\t", "\u{1}", "é", "\"a\"",
            "{\"a\":1}", "[1,2]", "1.5e3", "-0", "01",
        ]).prop_map(str::to_owned),
        1 => "[ -~]{0,12}",
    ];
    prop_oneof![
        prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat()),
        value().prop_map(|value| value.to_string()),
        (value(), any::<prop::sample::Index>()).prop_map(|(value, index)| {
            let mut text = value.to_string();
            let at = index.index(text.len());
            if text.is_char_boundary(at) && text.is_char_boundary(at + 1) {
                text.remove(at);
            }
            text
        }),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u32>().prop_map(|number| Value::from(f64::from(number) / 8.0)),
        "\\PC{0,20}".prop_map(Value::from),
        "[\"\\\\\u{0}-\u{7f}]{0,20}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map("[a-z\"\\\\]{0,6}", inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}
