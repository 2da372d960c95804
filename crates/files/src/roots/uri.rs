//! Conversion between paths and file URIs, stricter than URIs require.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};

use crate::platform;

/// The URI of a file.
pub(super) fn of_path(path: &Path) -> String {
    format!("file://{}", percent_encode(&platform::uri_path(path), ESCAPED))
}

/// The path of a file URI, unescaped; `None` if it names another host or is ambiguous.
pub(super) fn path_of(uri: &str) -> Option<Vec<u8>> {
    let rest = uri.strip_prefix("file://")?;
    let (host, path) = rest.split_at(rest.find('/')?);
    if !(host.is_empty() || host.eq_ignore_ascii_case("localhost")) {
        return None;
    }
    if path.contains(['?', '#', '\\']) || !is_well_escaped(path) {
        return None;
    }
    Some(percent_decode_str(path).collect())
}

/// A relative path that neither goes up nor contains hidden names; `None` otherwise.
pub(super) fn relative(path: &[u8]) -> Option<PathBuf> {
    let is_good = |part: &[u8]| !part.is_empty() && !is_hidden_name(part);
    let is_plain = !path.iter().any(|byte| b"\0\\".contains(byte));
    let is_relative = is_plain && path.split(|byte| *byte == b'/').all(is_good);
    if is_relative { platform::from_bytes(path.to_vec()).map(PathBuf::from) } else { None }
}

/// Returns whether a file of this name is not served, because the name begins with a dot, or because
/// no URI can name it alone.
pub(crate) fn is_hidden(name: &OsStr) -> bool {
    platform::to_bytes(name).is_none_or(is_hidden_name)
}

/// Includes `.` and `..`.
fn is_hidden_name(name: &[u8]) -> bool {
    name.starts_with(b".") || platform::is_alias(name)
}

/// Returns whether every percent-encoding is valid and none encodes a separator.
fn is_well_escaped(path: &str) -> bool {
    path.split('%').skip(1).all(|rest| {
        let digits =
            rest.get(..2).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        byte.is_some_and(|byte| !b"\0/\\".contains(&byte))
    })
}

/// All characters but those allowed unescaped in a path.
const ESCAPED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'.').remove(b'_').remove(b'~');

#[cfg(test)]
mod tests {
    use super::{of_path, path_of};
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;

    /// C-39: every path has one URI, which converts back to it.
    #[test]
    fn paths_and_uris_convert_both_ways() {
        for (path, uri) in [
            (&b"/a/b.txt"[..], "file:///a/b.txt"),
            (b"/a b/%41?#", "file:///a%20b/%2541%3F%23"),
            ("/é".as_bytes(), "file:///%C3%A9"),
            (b"/\xff", "file:///%FF"),
            (b"/", "file:///"),
        ] {
            let path = Path::new(OsStr::from_bytes(path));
            assert_eq!(of_path(path), uri);
            assert_eq!(path_of(uri).as_deref(), Some(path.as_os_str().as_bytes()));
        }
    }
}
