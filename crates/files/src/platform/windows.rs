//! Windows: names are Unicode, `C:\a` is `/C:/a` in a URI, and one file may have several names.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::path::Path;

use cap_std::fs::OpenOptions;

/// Returns the bytes of a name or path; `None` if it is not Unicode.
pub(crate) fn to_bytes(text: &OsStr) -> Option<&[u8]> {
    text.to_str().map(str::as_bytes)
}

/// Returns the name or path of these bytes; `None` if they are not UTF-8.
pub(crate) fn from_bytes(bytes: Vec<u8>) -> Option<OsString> {
    String::from_utf8(bytes).ok().map(OsString::from)
}

/// Returns an absolute path as a URI has it, before escaping: with slashes, and without the prefix
/// `\\?\` of canonical paths.
pub(crate) fn uri_path(path: &Path) -> Cow<'_, [u8]> {
    let path = path.to_string_lossy().replace('\\', "/");
    let path = match (path.strip_prefix("//?/UNC/"), path.strip_prefix("//?/")) {
        (Some(share), _) => format!("//{share}"),
        (None, Some(path)) => format!("/{path}"),
        (None, None) => path,
    };
    path.into_bytes().into()
}

/// Returns whether a name could be another one's: the short form of a longer name, which may be hidden,
/// with an end that is ignored, or of a stream within a file.
pub(crate) fn is_alias(name: &[u8]) -> bool {
    let is_short = name.windows(2).any(|two| two[0] == b'~' && two[1].is_ascii_digit());
    is_short || name.contains(&b':') || name.ends_with(b".") || name.ends_with(b" ")
}

/// Options to open a file for reading. Directories hold no named pipes.
pub(crate) fn reading() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true);
    options
}

/// The error of the system for a file that this process may not read, `ERROR_ACCESS_DENIED`.
pub(crate) const ACCESS_DENIED: i32 = 5;
