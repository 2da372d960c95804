//! Paths of skills to `skill://` URIs, and the checks on URIs that others made.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use crate::SKILL_FILE;

/// Writes the URI of a path such as `acme/refunds/SKILL.md`.
pub(crate) fn of_path(path: &str) -> String {
    format!("{SCHEME}{}", encode(path))
}

/// Escapes a path for a URI.
pub(crate) fn encode(path: &str) -> String {
    utf8_percent_encode(path, ESCAPED).to_string()
}

/// Returns the directory of a skill by the URI of its `SKILL.md`, under any scheme.
pub(crate) fn root_of(uri: &str) -> Option<&str> {
    let root = uri.strip_suffix(SKILL_FILE)?.strip_suffix('/')?;
    let (_, path) = root.split_once("://")?;
    is_plain(path).then_some(root)
}

/// Returns the path within a skill's directory that a URI names.
pub(crate) fn path_within<'a>(uri: &'a str, root: &str) -> Option<&'a str> {
    let path = uri.strip_prefix(root)?.strip_prefix('/')?;
    is_plain(path).then_some(path)
}

/// Returns whether a path of a URI only goes down: no segment is empty, `.` or `..`, escaped or
/// not, and nothing follows the path.
fn is_plain(path: &str) -> bool {
    let is_plain = |segment: &str| {
        let decoded: Vec<u8> = percent_decode_str(segment).collect();
        is_segment(&decoded)
    };
    !path.contains(['?', '#']) && path.split('/').all(is_plain)
}

/// Returns whether bytes can be one segment of a path everywhere.
pub(crate) fn is_segment(segment: &[u8]) -> bool {
    let is_dots = matches!(segment, b"" | b"." | b"..");
    !is_dots && !segment.iter().any(|byte| byte.is_ascii_control() || b"/\\".contains(byte))
}

pub(crate) const SCHEME: &str = "skill://";

/// Characters that are percent-encoded in a path.
const ESCAPED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'.').remove(b'_').remove(b'~');

#[cfg(test)]
mod tests {
    use super::{of_path, path_within, root_of};

    #[test]
    fn roots_are_found_by_the_uri_of_the_skill_file() {
        for (uri, root) in [
            ("skill://a/SKILL.md", Some("skill://a")),
            ("skill://a/b/SKILL.md", Some("skill://a/b")),
            ("github://o/r/a/SKILL.md", Some("github://o/r/a")),
            ("skill://SKILL.md", None),
            ("skill:///SKILL.md", None),
            ("skill://a/README.md", None),
            ("skill://a/../b/SKILL.md", None),
            ("skill://a/%2E%2e/b/SKILL.md", None),
            ("skill://a/SKILL.md?x", None),
            ("skill://a/b?c/SKILL.md", None),
            ("a/SKILL.md", None),
        ] {
            assert_eq!(root_of(uri), root, "{uri}");
        }
    }

    #[test]
    fn nothing_outside_a_skill_is_within_it() {
        let root = "skill://a";
        assert_eq!(path_within("skill://a/x/y.md", root), Some("x/y.md"));
        assert_eq!(path_within(&of_path("a/x y%.md"), root), Some("x%20y%25.md"));
        for outside in [
            "skill://a",
            "skill://a/",
            "skill://ab/x",
            "skill://b/x",
            "skill://a/../b/x",
            "skill://a/x/..",
            "skill://a/%2e%2e/b",
            "skill://a/.%2E/b",
            "skill://a/..%2fb",
            "skill://a/x%00",
            "skill://a/x\\..\\b",
            "skill://a//x",
            "skill://a/x#y",
        ] {
            assert_eq!(path_within(outside, root), None, "{outside}");
        }
    }
}
