//! Choices, confirmations, numbers and days.

use std::cmp::Ordering;

use jiff::civil::Date;
use serde_json::{Number, Value};

use super::Violation;
use crate::prompt::{Bound, Choice, Rules};

pub(super) fn choice(choices: &[Choice], answer: &Value) -> Result<(), Violation> {
    if choices.iter().any(|choice| choice.value == *answer) {
        return Ok(());
    }
    let mut values: Vec<_> =
        choices.iter().take(MOST_SUGGESTED).map(|choice| shown(&choice.value)).collect();
    if choices.len() > MOST_SUGGESTED {
        values.push(format!("{} others", choices.len() - MOST_SUGGESTED));
    }
    Err(Violation::new("this is not one of the choices")
        .suggest(format!("Use one of {}", values.join(", "))))
}

pub(super) fn confirm(answer: &Value) -> Result<(), Violation> {
    if answer.is_boolean() {
        return Ok(());
    }
    Err(Violation::new("the answer must be true or false"))
}

pub(super) fn number(rules: &Rules, answer: &Value) -> Result<(), Violation> {
    let Value::Number(number) = answer else {
        return Err(Violation::new("a number is needed").suggest("Use digits, without quotes"));
    };
    if rules.integer && !is_whole(number) {
        return Err(Violation::new("a whole number is needed"));
    }
    if let Some(Bound::Number(least)) = &rules.min
        && compare(number, least) == Ordering::Less
    {
        return Err(Violation::new(format!("the number must be at least {least}")));
    }
    if let Some(Bound::Number(most)) = &rules.max
        && compare(number, most) == Ordering::Greater
    {
        return Err(Violation::new(format!("the number must be at most {most}")));
    }
    Ok(())
}

pub(super) fn date(rules: &Rules, answer: &Value) -> Result<(), Violation> {
    let day = answer
        .as_str()
        .and_then(parse_date)
        .ok_or_else(|| Violation::new("this is not a valid date").suggest("Use YYYY-MM-DD"))?;
    if let Some(Bound::Date(earliest)) = rules.min
        && day < earliest
    {
        return Err(Violation::new(format!("the day must not be before {earliest}")));
    }
    if let Some(Bound::Date(latest)) = rules.max
        && day > latest
    {
        return Err(Violation::new(format!("the day must not be after {latest}")));
    }
    Ok(())
}

/// A day written YYYY-MM-DD and in no other way, though calendars know more.
pub(crate) fn parse_date(text: &str) -> Option<Date> {
    let bytes = text.as_bytes();
    let plain = bytes.len() == 10
        && bytes.iter().enumerate().all(|(place, byte)| match place {
            4 | 7 => *byte == b'-',
            _ => byte.is_ascii_digit(),
        });
    if plain { text.parse().ok() } else { None }
}

/// Orders numbers by value; whole ones exactly, since a float cannot hold every one of them.
pub(super) fn compare(left: &Number, right: &Number) -> Ordering {
    match (whole(left), whole(right)) {
        (Some(left), Some(right)) => left.cmp(&right),
        _ => {
            let (left, right) = (left.as_f64(), right.as_f64());
            left.partial_cmp(&right).unwrap_or(Ordering::Equal)
        }
    }
}

fn whole(number: &Number) -> Option<i128> {
    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
}

/// Whether a number is whole and small enough to be one exactly.
fn is_whole(number: &Number) -> bool {
    number.as_i64().is_some()
        || number.as_f64().is_some_and(|float| float.fract() == 0.0 && float.abs() < 9e15)
}

/// A value as a person would type it.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

const MOST_SUGGESTED: usize = 20;
