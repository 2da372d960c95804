//! Unix: a name is any bytes, and a path is written in a URI as it is.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use cap_std::fs::{OpenOptions, OpenOptionsExt};
use rustix::fs::OFlags;

/// Returns the bytes of a name or path.
pub(crate) fn to_bytes(text: &OsStr) -> Option<&[u8]> {
    Some(text.as_bytes())
}

/// Returns the name or path of these bytes.
pub(crate) fn from_bytes(bytes: Vec<u8>) -> Option<OsString> {
    Some(OsString::from_vec(bytes))
}

/// Returns an absolute path as a URI has it, before escaping.
pub(crate) fn uri_path(path: &Path) -> Cow<'_, [u8]> {
    path.as_os_str().as_bytes().into()
}

/// Returns whether a name could be another one's. Here no two names are one file's.
pub(crate) fn is_alias(_: &[u8]) -> bool {
    false
}

/// Options to open a file for reading. Opening a named pipe must not block until it has a writer.
pub(crate) fn reading() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    options
}

/// The error of the system for a file that this process may not read.
pub(crate) const ACCESS_DENIED: i32 = rustix::io::Errno::ACCESS.raw_os_error();
