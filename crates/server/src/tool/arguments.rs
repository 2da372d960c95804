//! From encoded arguments to the type a tool's function takes.

use mcp_flow_proto::Raw;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::schema::{MOST_VALUES, dotted};

/// One way in which arguments break their schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Where, as a JSON Pointer into the arguments; empty for the whole.
    pub pointer: String,
    /// What is wrong and what would be right.
    pub sentence: String,
}

impl Violation {
    pub(super) fn to_value(&self) -> Value {
        json!({"pointer": self.pointer, "message": self.sentence})
    }
}

/// Decodes arguments that keep to their schema.
///
/// To JSON Schema `5.0` is an integer, and some clients write all numbers that way; to a Rust
/// integer it is not. So what does not fit at once is tried again with its whole numbers written
/// as such.
pub(super) fn decode<T: DeserializeOwned>(arguments: Raw<'_>) -> Result<T, Violation> {
    arguments.decode().or_else(|_| decode_again(arguments))
}

fn decode_again<T: DeserializeOwned>(arguments: Raw<'_>) -> Result<T, Violation> {
    let whole = |sentence| Violation { pointer: String::new(), sentence };
    if arguments.count() > MOST_VALUES {
        return Err(whole(format!("the arguments hold more than {MOST_VALUES} values")));
    }
    let mut value: Value = arguments.decode().map_err(|error| whole(error.to_string()))?;
    write_whole_numbers_as_such(&mut value);
    serde_path_to_error::deserialize(value).map_err(|error| {
        let pointer = pointer(error.path());
        let reason = error.inner();
        let sentence = match dotted(&pointer) {
            name if name.is_empty() => format!("the arguments cannot be used: {reason}"),
            name => format!("{name} cannot be used: {reason}"),
        };
        Violation { pointer, sentence }
    })
}

fn write_whole_numbers_as_such(value: &mut Value) {
    match value {
        Value::Number(number) => {
            let float = number.as_f64().filter(|_| number.is_f64());
            // Past 2^53 a float stands for several integers, and none of them was meant for sure.
            #[expect(clippy::cast_possible_truncation, reason = "it is whole and below 2^53")]
            if let Some(float) = float.filter(|float| float.fract() == 0.0 && float.abs() < 9.0e15)
            {
                *number = (float as i64).into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(write_whole_numbers_as_such),
        Value::Object(members) => members.values_mut().for_each(write_whole_numbers_as_such),
        _ => {}
    }
}

fn pointer(path: &serde_path_to_error::Path) -> String {
    use serde_path_to_error::Segment;
    path.iter()
        .map(|segment| match segment {
            Segment::Seq { index } => format!("/{index}"),
            Segment::Map { key } => format!("/{}", key.replace('~', "~0").replace('/', "~1")),
            // A variant is not a place in the arguments of its own.
            Segment::Enum { .. } | Segment::Unknown => String::new(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::decode;
    use mcp_flow_proto::{Encoding, Raw};
    use serde::Deserialize;
    use serde_json::{Value, json};

    #[derive(Debug, Deserialize, PartialEq)]
    struct Order {
        count: u8,
        sizes: Vec<i64>,
        price: f64,
    }

    /// MCP-027: numbers are converted where nothing is lost.
    #[test]
    fn whole_numbers_may_be_written_with_a_point() {
        let order = Order { count: 5, sizes: vec![-1000, 2], price: 3.0 };
        check(json!({"count": 5.0, "sizes": [-1e3, 2], "price": 3}), Ok(order));
        let lost = "/count count cannot be used: ";
        check(json!({"count": 5.5, "sizes": [], "price": 3}), Err(lost));
        check(json!({"count": 256.0, "sizes": [], "price": 3}), Err(lost));
        let large = json!({"count": 1, "sizes": [0, 1e300], "price": 3});
        check(large, Err("/sizes/1 sizes.1 cannot be used: "));
        check(json!({"count": 1}), Err(" the arguments cannot be used: missing field"));
    }

    fn check(arguments: Value, expected: Result<Order, &str>) {
        let (text, cbor) = (arguments.to_string(), Encoding::Cbor.encode(&arguments).unwrap());
        for raw in [Raw::Json(&text), Raw::Cbor(&cbor)] {
            match (decode::<Order>(raw), &expected) {
                (Ok(order), Ok(expected)) => assert_eq!(order, *expected),
                (Err(violation), Err(expected)) => {
                    let told = format!("{} {}", violation.pointer, violation.sentence);
                    assert!(told.starts_with(expected), "{told}");
                }
                (outcome, _) => panic!("{arguments}: {outcome:?}"),
            }
        }
    }
}
