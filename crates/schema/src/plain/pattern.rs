//! JSON Schema patterns translated to the regex crate, which runs in linear time.

use regex::RegexBuilder;

use super::Pattern;

/// Error in a pattern.
pub(super) enum PatternError {
    /// It might have another meaning in the regex crate.
    Unsupported,
    /// It is invalid or too large.
    Bad(regex::Error),
}

impl Pattern {
    pub(super) fn compile(source: &str) -> Result<Self, PatternError> {
        let translated = translate(source).ok_or(PatternError::Unsupported)?;
        let mut builder = RegexBuilder::new(&translated);
        let regex = builder.size_limit(MAX_BYTES).dfa_size_limit(MAX_BYTES).build();
        let regex = regex.map_err(PatternError::Bad)?;
        Ok(Self { source: source.to_owned(), regex })
    }
}

/// Translates character classes; `None` if more than that would be needed.
fn translate(source: &str) -> Option<String> {
    let mut translated = String::with_capacity(source.len());
    let mut characters = source.chars().peekable();
    let mut in_set = false;
    while let Some(character) = characters.next() {
        let next = characters.peek().copied();
        match character {
            '\\' => {
                let escaped = characters.next()?;
                let class = class(escaped.to_ascii_lowercase());
                match (class, escaped.is_ascii_uppercase()) {
                    (Some(class), false) if in_set => {
                        // The engines differ on whether a hyphen then forms a range.
                        let mut rest = characters.clone();
                        if rest.next() == Some('-') && rest.next() != Some(']') {
                            return None;
                        }
                        translated.push_str(class);
                    }
                    (Some(_), true) if in_set => return None,
                    (Some(class), false) => translated.extend(["[", class, "]"]),
                    (Some(class), true) => translated.extend(["[^", class, "]"]),
                    (None, _) if is_plain_escape(escaped) => translated.extend(['\\', escaped]),
                    (None, _) => return None,
                }
                continue;
            }
            '[' if in_set => return None,
            '[' => {
                in_set = true;
                translated.push('[');
                if characters.next_if_eq(&'^').is_some() {
                    translated.push('^');
                }
                // The engines differ on the meaning of an empty set.
                if characters.peek() == Some(&']') {
                    return None;
                }
                continue;
            }
            ']' if in_set => in_set = false,
            ']' => return None,
            '-' if in_set && matches!(next, Some('-' | '\\')) => return None,
            '&' | '~' if in_set && next == Some(character) => return None,
            // Groups with options, names or lookaround.
            '(' if !in_set && next == Some('?') => {
                characters.next();
                characters.next_if_eq(&':')?;
                translated.push_str("(?:");
                continue;
            }
            _ => {}
        }
        translated.push(character);
    }
    (!in_set).then_some(translated)
}

/// The members of a class, as written inside a set.
fn class(letter: char) -> Option<&'static str> {
    match letter {
        'd' => Some("0-9"),
        'w' => Some("A-Za-z0-9_"),
        's' => Some(WHITE_SPACE),
        _ => None,
    }
}

/// White space and line terminators of ECMA-262.
const WHITE_SPACE: &str =
    r"\t-\r \x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}\x{feff}";

/// Returns whether an escaped character means the same in both dialects.
fn is_plain_escape(character: char) -> bool {
    r"tnr.*+?^$()[]{}|\/-".contains(character)
}

/// Largest compiled pattern, in bytes.
const MAX_BYTES: usize = 1024 * 1024;
