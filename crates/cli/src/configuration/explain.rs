//! What is wrong with a file, where, and what may have been meant.

/// Says it with line and column, and with the nearest key if one is unknown.
pub(super) fn explain(text: &str, error: &toml::de::Error) -> String {
    let (line, column) = place(text, error.span().map_or(0, |span| span.start));
    let message = error.message().trim();
    let told = match unknown(message) {
        Some((key, known)) => match nearest(key, &known) {
            Some(near) => format!("there is no key `{key}` here; did you mean `{near}`?"),
            None => format!("there is no key `{key}` here; there are {}", known.join(", ")),
        },
        None => message.to_owned(),
    };
    format!("line {line}, column {column}: {told}")
}

/// The line and column of a byte, both counted from one.
fn place(text: &str, byte: usize) -> (usize, usize) {
    let before = text.get(..byte).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|character| *character != '\n').count() + 1;
    (line, column)
}

/// The key that serde does not know, and those it does.
fn unknown(message: &str) -> Option<(&str, Vec<&str>)> {
    let rest = message.strip_prefix("unknown field `")?;
    let (key, rest) = rest.split_once('`')?;
    // Names stand between backticks, so every second piece is one.
    let known = rest.split('`').skip(1).step_by(2).collect();
    Some((key, known))
}

/// The key that is spelled most like it, if any is near enough to have been meant.
fn nearest<'a>(key: &str, known: &[&'a str]) -> Option<&'a str> {
    let likeness = |name: &&str| strsim::jaro_winkler(key, name);
    let best = known.iter().copied().max_by(|a, b| likeness(a).total_cmp(&likeness(b)))?;
    (likeness(&best) > NEAR).then_some(best)
}

/// From here on two words are taken for spellings of one.
const NEAR: f64 = 0.8;
