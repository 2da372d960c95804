//! Decoding of arguments into the type a tool's function takes.

use mcp_flow_proto::decode_error::{plain_type, reword};
use mcp_flow_proto::{Raw, RpcError};
use mcp_flow_schema::{CheckError, Violation, build, dotted, member};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// The error that lists all violations.
pub(crate) fn violations_error(violations: &[Violation]) -> RpcError {
    let details: Vec<_> = violations.iter().map(|violation| violation.sentence.as_str()).collect();
    let list: Vec<_> = violations
        .iter()
        .map(|violation| json!({"pointer": violation.pointer, "message": violation.sentence}))
        .collect();
    RpcError::invalid_params(details.join("; ")).with("violations", list)
}

/// Decodes arguments that conform to their schema.
///
/// In JSON Schema `5.0` is an integer, and some clients write all numbers that way; a Rust integer
/// rejects it. So arguments that fail to decode are tried again with such numbers as integers.
pub(crate) fn decode<T: DeserializeOwned>(arguments: Raw<'_>) -> Result<T, CheckError> {
    arguments.decode().or_else(|_| decode_again(arguments))
}

fn decode_again<T: DeserializeOwned>(arguments: Raw<'_>) -> Result<T, CheckError> {
    let mut value = build(arguments).map_err(CheckError::Unreadable)?;
    // One by one, so that only the necessary ones change; all at once if there are many.
    for _ in 0..MAX_TRIES {
        let error = match serde_path_to_error::deserialize(&value) {
            Ok(decoded) => return Ok(decoded),
            Err(error) => error,
        };
        let target = value.pointer_mut(&pointer(error.path()));
        match target.and_then(|target| Some((whole(target)?, target))) {
            Some((number, target)) => *target = number.into(),
            None => return Err(explain(&value, &error)),
        }
    }
    convert_whole_numbers(&mut value);
    serde_path_to_error::deserialize(&value).map_err(|error| explain(&value, &error))
}

/// The integer value of a float, if it has one without loss.
fn whole(value: &Value) -> Option<i64> {
    let number = value.as_f64().filter(|_| value.is_f64())?;
    // Past 2^53 a float stands for several integers.
    #[expect(clippy::cast_possible_truncation, reason = "it is whole and below 2^53")]
    (number.fract() == 0.0 && number.abs() <= 9_007_199_254_740_991.0).then_some(number as i64)
}

fn convert_whole_numbers(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(convert_whole_numbers),
        Value::Object(members) => members.values_mut().for_each(convert_whole_numbers),
        other => {
            if let Some(number) = whole(other) {
                *other = number.into();
            }
        }
    }
}

/// Describes a value that the type rejects although the schema allows it.
fn explain(arguments: &Value, error: &serde_path_to_error::Error<serde_json::Error>) -> CheckError {
    let pointer = pointer(error.path());
    let name = match dotted(&pointer) {
        name if name.is_empty() => "the arguments".to_owned(),
        name => name,
    };
    let value = arguments.pointer(&pointer).filter(|value| value.is_f64());
    let is_whole = |value: &&Value| value.as_f64().is_some_and(|number| number.fract() == 0.0);
    let sentence = match value.filter(is_whole) {
        Some(value) => format!("{name} is too large a number: {value}"),
        None => format!("{name}: {}", reword(&error.inner().to_string(), plain_type)),
    };
    CheckError::Violations(vec![Violation { pointer, sentence }])
}

fn pointer(path: &serde_path_to_error::Path) -> String {
    use serde_path_to_error::Segment;
    path.iter()
        .map(|segment| match segment {
            Segment::Seq { index } => format!("/{index}"),
            Segment::Map { key } => member("", key),
            // A variant is not a location in the arguments.
            Segment::Enum { .. } | Segment::Unknown => String::new(),
        })
        .collect()
}

/// Most numbers converted one by one.
const MAX_TRIES: usize = 16;

#[cfg(test)]
mod tests {
    use super::decode;
    use mcp_flow_proto::{Encoding, Raw};
    use mcp_flow_schema::CheckError;
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
        let many = Order { count: 1, sizes: vec![7; 100], price: 0.5 };
        check(json!({"count": 1, "sizes": vec![7.0; 100], "price": 0.5}), Ok(many));
        let lost = "/count count: expected a whole number from 0 to 255, found ";
        check(json!({"count": 5.5, "sizes": [], "price": 3}), Err(lost));
        check(json!({"count": 256.0, "sizes": [], "price": 3}), Err(lost));
        let large = json!({"count": 1, "sizes": [0, 1e300], "price": 3});
        check(large, Err("/sizes/1 sizes.1 is too large a number: 1e"));
        check(json!({"count": 1}), Err(" the arguments: `sizes` is required"));
    }

    fn check(arguments: Value, expected: Result<Order, &str>) {
        let (text, cbor) = (arguments.to_string(), Encoding::Cbor.encode(&arguments).unwrap());
        for raw in [Raw::Json(&text), Raw::Cbor(&cbor)] {
            match (decode::<Order>(raw), &expected) {
                (Ok(order), Ok(expected)) => assert_eq!(order, *expected),
                (Err(CheckError::Violations(violations)), Err(expected)) => {
                    let text = format!("{} {}", violations[0].pointer, violations[0].sentence);
                    assert!(text.starts_with(expected), "{text}");
                }
                (outcome, _) => panic!("{arguments}: {outcome:?}"),
            }
        }
    }
}
