//! The name that a person probably meant, among those that a server offers.

use crate::configuration::nearest;
use crate::terminal::output::sanitize;

/// Returns "Did you mean NAME?" for a name that is not among the known ones, or else `otherwise`.
pub(crate) fn did_you_mean<'a>(
    typed: &str,
    known: impl IntoIterator<Item = &'a str>,
    otherwise: &str,
) -> String {
    match similar(typed, known) {
        Some(name) => format!("Did you mean {}?", sanitize(name)),
        None => otherwise.to_owned(),
    }
}

/// Finds the known name that is most similar. A server decides how many names there are and how long
/// they are, so both are bounded.
fn similar<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if typed.len() > MAX_NAME_LENGTH {
        return None;
    }
    let known: Vec<&str> = known
        .into_iter()
        .take(MAX_NAMES)
        .filter(|name| !name.is_empty() && name.len() <= MAX_NAME_LENGTH)
        .collect();
    let variant = known.iter().copied().find(|name| is_variant(name, typed));
    variant.or_else(|| match typed.contains("://") {
        // All URIs of a server begin alike, which makes every one similar to every other.
        true => nearest_uri(typed, &known),
        false => nearest(typed, &known),
    })
}

/// Returns the URI that differs by the fewest characters, if these are few.
fn nearest_uri<'a>(typed: &str, known: &[&'a str]) -> Option<&'a str> {
    let distances = known.iter().map(|uri| (strsim::damerau_levenshtein(typed, uri), *uri));
    let (distance, uri) = distances.min_by_key(|(distance, _)| *distance)?;
    let path = typed.split_once("://").map_or(typed, |(_, path)| path);
    (distance <= 1 + path.chars().count() / 5).then_some(uri)
}

/// Returns whether a name differs only in punctuation and case, or is cut off.
fn is_variant(known: &str, typed: &str) -> bool {
    let plain = |name: &str| -> String {
        name.chars()
            .filter(|character| character.is_alphanumeric())
            .collect::<String>()
            .to_lowercase()
    };
    let (known, typed) = (plain(known), plain(typed));
    !typed.is_empty()
        && (known == typed
            || (typed.len() > 3 && (known.ends_with(&typed) || known.starts_with(&typed))))
}

/// Limit on the names that are compared.
const MAX_NAMES: usize = 2000;

/// Limit on the length of a name in bytes.
const MAX_NAME_LENGTH: usize = 256;

#[cfg(test)]
mod tests {
    use super::similar;

    #[test]
    fn the_name_that_was_meant_is_found() {
        let tools = ["calculator.add", "calculator.divide", "register", "book_trip"];
        let uris = ["file:///notes/today.md", "file:///notes/readme.md", "status://queue"];
        for (typed, known, meant) in [
            ("calculater.add", &tools[..], Some("calculator.add")),
            ("calculator_add", &tools, Some("calculator.add")),
            ("REGISTER", &tools, Some("register")),
            ("divide", &tools, Some("calculator.divide")),
            ("weather", &tools, None),
            ("file:///notes/todya.md", &uris, Some("file:///notes/today.md")),
            ("file:///notes/nothing-like-it.txt", &uris, None),
            ("today.md", &uris, Some("file:///notes/today.md")),
            ("", &tools, None),
            ("…", &tools, None),
        ] {
            assert_eq!(similar(typed, known.iter().copied()), meant, "{typed:?}");
        }
    }

    /// A server that offers very many names, or very long ones, does not keep the program busy.
    #[test]
    fn hostile_lists_are_bounded() {
        let long = "x".repeat(1 << 20);
        let many = std::iter::repeat_n(long.as_str(), 1 << 20).chain(["wanted"]);
        assert_eq!(similar("wantde", many), None);
        assert_eq!(similar(&long, [long.as_str()]), None);
        assert_eq!(similar("wantde", [long.as_str(), "wanted"]), Some("wanted"));
    }
}
