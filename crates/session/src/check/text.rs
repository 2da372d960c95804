//! Texts: length in characters, no control characters, a pattern that runs in linear time.

use serde_json::Value;

use super::{Violation, compiled, limits};
use crate::prompt::{Bound, Rules};

pub(super) fn check(rules: &Rules, answer: &Value) -> Result<(), Violation> {
    let Value::String(text) = answer else { return Err(Violation::new("a text is needed")) };
    let most = count(rules.max.as_ref()).unwrap_or(limits::TEXT).min(limits::TEXT);
    // Before counting, so that a text of any size is refused at once.
    if text.len() > limits::TEXT * 4 {
        return Err(too_long(most));
    }
    if text.chars().any(is_forbidden) {
        return Err(Violation::new("control characters are not allowed")
            .suggest("Remove everything but printable characters, tabs and line breaks"));
    }
    let length = text.chars().count();
    let least = count(rules.min.as_ref()).unwrap_or(0);
    if length < least {
        let characters = if least == 1 { "character is" } else { "characters are" };
        return Err(Violation::new(format!("at least {least} {characters} needed")));
    }
    if length > most {
        return Err(too_long(most));
    }
    let Some(pattern) = &rules.pattern else { return Ok(()) };
    match compiled::pattern(pattern) {
        Ok(regex) if regex.is_match(text) => Ok(()),
        Ok(_) => Err(Violation::new("the text does not match the expected format")
            .suggest(format!("Use text that matches the pattern {pattern}"))),
        // Unsound prompts are not asked, so this is a client that checks what it was sent.
        Err(_) => Err(Violation::new("the pattern of this question cannot be used")),
    }
}

/// A bound as a count of characters; anything below zero bounds nothing.
pub(super) fn count(bound: Option<&Bound>) -> Option<usize> {
    match bound? {
        Bound::Number(number) => {
            let number = number.as_f64()?;
            #[expect(clippy::cast_possible_truncation, reason = "it saturates, as a bound should")]
            Some(number.ceil() as usize)
        }
        Bound::Date(_) => None,
    }
}

fn too_long(most: usize) -> Violation {
    Violation::new(format!("at most {most} characters are allowed"))
}

/// Control characters, and those that reorder what is shown, hide what was typed.
pub(super) fn is_forbidden(character: char) -> bool {
    (character.is_control() && !matches!(character, '\n' | '\r' | '\t'))
        || matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}
