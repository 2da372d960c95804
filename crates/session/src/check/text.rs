//! Text answers: length in characters, no control characters, a linear-time pattern.

use serde_json::Value;

use super::{InvalidAnswer, compiled, limits};
use crate::prompt::{AnswerRules, RangeBound};

pub(super) fn check(rules: &AnswerRules, answer: &Value) -> Result<(), InvalidAnswer> {
    let Value::String(text) = answer else {
        return Err(InvalidAnswer::new("the answer must be text"));
    };
    let most = count(rules.max.as_ref()).unwrap_or(limits::TEXT).min(limits::TEXT);
    // By bytes first, so that a huge text is rejected without counting its characters.
    if text.len() > limits::TEXT * 4 {
        return Err(too_long(most));
    }
    if text.chars().any(is_forbidden) {
        return Err(InvalidAnswer::new("control characters are not allowed")
            .suggest("Remove everything but printable characters, tabs and line breaks"));
    }
    let length = text.chars().count();
    let least = count(rules.min.as_ref()).unwrap_or(0);
    if length < least {
        let characters = if least == 1 { "character is" } else { "characters are" };
        return Err(InvalidAnswer::new(format!("at least {least} {characters} needed")));
    }
    if length > most {
        return Err(too_long(most));
    }
    let Some(pattern) = &rules.pattern else { return Ok(()) };
    match compiled::pattern(pattern) {
        Ok(regex) if regex.is_match(text) => Ok(()),
        Ok(_) => Err(InvalidAnswer::new("the text does not match the expected format").suggest(
            match &rules.pattern_description {
                Some(description) => format!("Expected: {description}"),
                None => format!("Use text that matches the pattern {pattern}"),
            },
        )),
        // Invalid prompts are not asked, so this is a client that checks a prompt it received.
        Err(_) => Err(InvalidAnswer::new("the pattern of this question cannot be used")),
    }
}

/// Converts a bound to a number of characters.
pub(super) fn count(bound: Option<&RangeBound>) -> Option<usize> {
    match bound? {
        RangeBound::Number(number) => {
            let number = number.as_f64()?;
            #[expect(clippy::cast_possible_truncation, reason = "it saturates, as a bound should")]
            Some(number.ceil() as usize)
        }
        RangeBound::Date(_) => None,
    }
}

fn too_long(most: usize) -> InvalidAnswer {
    InvalidAnswer::new(format!("at most {most} characters are allowed"))
}

/// Returns whether a character can hide or reorder text: controls and bidirectional overrides.
pub(super) fn is_forbidden(character: char) -> bool {
    (character.is_control() && !matches!(character, '\n' | '\r' | '\t'))
        || matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}
