//! Names of upstreams, and of their tools and prompts behind the gateway.

use std::collections::HashSet;

/// Maps the name of an upstream in a configuration to a prefix: letters, digits, `_` and `-`.
pub(crate) fn prefix(name: &str) -> String {
    replace_invalid(name, |letter| matches!(letter, '_' | '-'))
}

/// Checks the name of an upstream, as the prefix it becomes.
pub(crate) fn check(name: &str) -> Result<String, String> {
    let prefix = prefix(name);
    if !prefix.contains(|letter: char| letter.is_ascii_alphanumeric()) {
        return Err(format!("the name {name:?} has no letters or digits"));
    }
    if prefix.len() > MAX_PREFIX_LENGTH {
        return Err(format!("the name {name:?} is longer than {MAX_PREFIX_LENGTH} characters"));
    }
    Ok(prefix)
}

/// Maps a name that an upstream gave to one behind the gateway, different from those in use.
///
/// The result has at most 128 letters, digits, `_`, `-` and `.`. An empty prefix adds nothing. Names in
/// use are recorded without regard to the difference between `.` and `_`.
pub(crate) fn assign(prefix: &str, name: &str, used: &mut HashSet<String>) -> String {
    let own = part(name);
    let prefix = join(prefix, "");
    let room = MAX_NAME_LENGTH - prefix.len();
    for number in 1_u32.. {
        let suffix = if number == 1 { String::new() } else { format!("-{number}") };
        let kept = &own[..own.len().min(room - suffix.len())];
        let candidate = format!("{prefix}{kept}{suffix}");
        if used.insert(alias(&candidate)) {
            return candidate;
        }
    }
    format!("{prefix}{own}")
}

/// A name with its prefix, if that is not empty.
pub(crate) fn join(prefix: &str, name: &str) -> String {
    if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") }
}

/// The part of a name behind a prefix; `None` if it has another one.
pub(crate) fn own<'a>(prefix: &str, name: &'a str) -> Option<&'a str> {
    if prefix.is_empty() { Some(name) } else { name.strip_prefix(prefix)?.strip_prefix('.') }
}

/// Maps a name that an upstream gave to a valid one, without prefix.
pub(crate) fn part(name: &str) -> String {
    let part = replace_invalid(name, |letter| matches!(letter, '_' | '-' | '.'));
    if part.is_empty() { "_".to_owned() } else { part }
}

/// The form in which two names must differ.
pub(crate) fn alias(name: &str) -> String {
    name.replace('.', "_")
}

fn replace_invalid(name: &str, is_valid: impl Fn(char) -> bool) -> String {
    let valid = |letter: char| letter.is_ascii_alphanumeric() || is_valid(letter);
    name.chars()
        .take(MAX_NAME_LENGTH)
        .map(|letter| if valid(letter) { letter } else { '_' })
        .collect()
}

const MAX_NAME_LENGTH: usize = 128;

const MAX_PREFIX_LENGTH: usize = 48;

#[cfg(test)]
mod tests {
    use super::{assign, check};
    use std::collections::HashSet;

    #[test]
    fn names_become_valid_and_unique() {
        let mut used = HashSet::new();
        for (given, expected) in [
            ("echo", "up.echo"),
            ("echo", "up.echo-2"),
            ("a.b", "up.a.b"),
            ("a_b", "up.a_b-2"),
            ("a b\u{1b}[31m", "up.a_b__31m"),
            ("é", "up._"),
            ("", "up._-2"),
        ] {
            assert_eq!(assign("up", given, &mut used), expected, "{given:?}");
        }
        assert_eq!(assign("", "echo", &mut used), "echo");
        assert_eq!(assign("", "echo", &mut used), "echo-2");
        let long = "x".repeat(500);
        for end in ["x", "-2", "-3"] {
            let name = assign("up", &long, &mut used);
            assert!(name.len() == 128 && name.ends_with(end), "{name}");
        }
    }

    #[test]
    fn prefixes_are_checked() {
        assert_eq!(check("My Server").unwrap(), "My_Server");
        assert_eq!(check("io.github/x").unwrap(), "io_github_x");
        for bad in ["", "..", "é", &"x".repeat(49)] {
            assert!(check(bad).is_err(), "{bad:?}");
        }
    }
}
