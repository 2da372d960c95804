//! Comparison of JSON values as JSON Schema defines it: numbers by their exact value, whatever
//! their notation.

use std::cmp::Ordering;
use std::fmt::Write;

use serde_json::{Number, Value};

/// Compares two numbers exactly, also where floats are not exact.
pub(crate) fn compare(left: &Number, right: &Number) -> Option<Ordering> {
    match (whole(left), whole(right)) {
        (Some(left), Some(right)) => Some(left.cmp(&right)),
        (Some(left), None) => Some(compare_to_float(left, right.as_f64()?)),
        (None, Some(right)) => Some(compare_to_float(right, left.as_f64()?).reverse()),
        (None, None) => left.as_f64()?.partial_cmp(&right.as_f64()?),
    }
}

/// Returns whether a number has no fraction; `1.0` has none.
pub(crate) fn is_whole(number: &Number) -> bool {
    !number.is_f64() || number.as_f64().is_some_and(|float| float.fract() == 0.0)
}

/// Returns whether two values are equal; `1` and `1.0` are.
pub(crate) fn equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => {
            compare(left, right) == Some(Ordering::Equal)
        }
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len()
                && left.iter().zip(right).all(|(left, right)| equal(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            let same = |(name, left)| right.get(name).is_some_and(|right| equal(left, right));
            left.len() == right.len() && left.iter().all(same)
        }
        (left, right) => left == right,
    }
}

/// Writes a value so that equal values have equal texts.
pub(crate) fn canonical(value: &Value) -> String {
    let mut text = String::new();
    write_canonical(value, &mut text);
    text
}

fn write_canonical(value: &Value, text: &mut String) {
    let written = match value {
        Value::Number(number) => match whole(number) {
            Some(number) => write!(text, "{number}"),
            None => write!(text, "{number}"),
        },
        Value::Array(items) => {
            text.push('[');
            for item in items {
                write_canonical(item, text);
                text.push(',');
            }
            text.write_char(']')
        }
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by_key(|(name, _)| *name);
            text.push('{');
            for (name, member) in members {
                let _ = write!(text, "{name:?}:");
                write_canonical(member, text);
                text.push(',');
            }
            text.write_char('}')
        }
        scalar => write!(text, "{scalar}"),
    };
    written.expect("writing to a text does not fail");
}

/// The integer value of a number, if it has one below 2^126.
fn whole(number: &Number) -> Option<i128> {
    if let Some(number) = number.as_i64() {
        return Some(number.into());
    }
    if let Some(number) = number.as_u64() {
        return Some(number.into());
    }
    #[expect(clippy::cast_possible_truncation, reason = "it is whole and below 2^126")]
    number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() < LARGE).map(|it| it as i128)
}

/// Compares with a float that has a fraction or is beyond all integers here.
fn compare_to_float(integer: i128, float: f64) -> Ordering {
    #[expect(clippy::cast_possible_truncation, reason = "it saturates, beyond all integers here")]
    let floor = float.floor() as i128;
    if integer <= floor { Ordering::Less } else { Ordering::Greater }
}

/// 2^126, which floats represent exactly.
const LARGE: f64 = (1_u128 << 126) as f64;

#[cfg(test)]
mod tests {
    use super::{canonical, compare, equal};
    use serde_json::Value;
    use std::cmp::Ordering::{self, Equal, Greater, Less};

    #[test]
    fn numbers_are_compared_exactly() {
        check("1", "1.0", Equal);
        check("-0.0", "0", Equal);
        check("0.5", "0", Greater);
        check("-0.5", "0", Less);
        check("-1.5", "-1", Less);
        check("9007199254740993", "9007199254740992.0", Greater);
        check("18446744073709551615", "18446744073709551616.0", Less);
        check("18446744073709551615", "-9223372036854775808", Greater);
        check("1e300", "18446744073709551615", Greater);
        check("-1e300", "-9223372036854775808", Less);
        check("1e300", "1e300", Equal);
    }

    fn check(left: &str, right: &str, expected: Ordering) {
        let [left, right] = [left, right].map(|text| serde_json::from_str::<Value>(text).unwrap());
        let number = |value: &Value| value.as_number().unwrap().clone();
        assert_eq!(compare(&number(&left), &number(&right)), Some(expected), "{left} {right}");
        assert_eq!(compare(&number(&right), &number(&left)), Some(expected.reverse()));
        assert_eq!(equal(&left, &right), expected == Equal, "{left} {right}");
        assert_eq!(canonical(&left) == canonical(&right), expected == Equal, "{left} {right}");
    }
}
