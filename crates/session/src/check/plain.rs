//! Choices, confirmations, numbers and dates.

use std::cmp::Ordering;

use jiff::civil::Date;
use serde_json::{Number, Value};

use super::InvalidAnswer;
use crate::prompt::{AnswerRules, ChoiceOption, RangeBound};

pub(super) fn choice(choices: &[ChoiceOption], answer: &Value) -> Result<(), InvalidAnswer> {
    if choices.iter().any(|choice| choice.value == *answer) {
        return Ok(());
    }
    let mut values: Vec<_> =
        choices.iter().take(SUGGESTION_LIMIT).map(|choice| display(&choice.value)).collect();
    if choices.len() > SUGGESTION_LIMIT {
        values.push(format!("{} others", choices.len() - SUGGESTION_LIMIT));
    }
    Err(InvalidAnswer::new("this is not one of the choices")
        .suggest(format!("Use one of {}", values.join(", "))))
}

pub(super) fn confirm(answer: &Value) -> Result<(), InvalidAnswer> {
    if answer.is_boolean() {
        return Ok(());
    }
    Err(InvalidAnswer::new("the answer must be true or false"))
}

pub(super) fn number(rules: &AnswerRules, answer: &Value) -> Result<(), InvalidAnswer> {
    let Value::Number(number) = answer else {
        return Err(
            InvalidAnswer::new("the answer must be a number").suggest("Use digits, without quotes")
        );
    };
    if rules.integer && !is_whole(number) {
        return Err(InvalidAnswer::new("the answer must be a whole number"));
    }
    if let Some(RangeBound::Number(least)) = &rules.min
        && compare(number, least) == Ordering::Less
    {
        return Err(InvalidAnswer::new(format!("the number must be at least {least}")));
    }
    if let Some(RangeBound::Number(most)) = &rules.max
        && compare(number, most) == Ordering::Greater
    {
        return Err(InvalidAnswer::new(format!("the number must be at most {most}")));
    }
    Ok(())
}

pub(super) fn date(rules: &AnswerRules, answer: &Value) -> Result<(), InvalidAnswer> {
    let day = answer
        .as_str()
        .and_then(parse_date)
        .ok_or_else(|| InvalidAnswer::new("this is not a valid date").suggest("Use YYYY-MM-DD"))?;
    if let Some(RangeBound::Date(earliest)) = rules.min
        && day < earliest
    {
        return Err(InvalidAnswer::new(format!("the day must not be before {earliest}")));
    }
    if let Some(RangeBound::Date(latest)) = rules.max
        && day > latest
    {
        return Err(InvalidAnswer::new(format!("the day must not be after {latest}")));
    }
    Ok(())
}

/// Parses a date written YYYY-MM-DD; no other format is accepted.
pub(crate) fn parse_date(text: &str) -> Option<Date> {
    let bytes = text.as_bytes();
    let plain = bytes.len() == 10
        && bytes.iter().enumerate().all(|(index, byte)| match index {
            4 | 7 => *byte == b'-',
            _ => byte.is_ascii_digit(),
        });
    if plain { text.parse().ok() } else { None }
}

/// Compares numbers by value; integers exactly, since a float cannot represent all of them.
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

/// Returns whether a number is an integer that a float represents exactly.
fn is_whole(number: &Number) -> bool {
    number.as_i64().is_some()
        || number.as_f64().is_some_and(|float| float.fract() == 0.0 && float.abs() < 9e15)
}

/// A value as a person would type it, strings without quotes.
fn display(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

const SUGGESTION_LIMIT: usize = 20;
