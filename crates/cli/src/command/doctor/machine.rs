//! Checks of the machine: its clock and its limit on open files.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::Finding;
use crate::configuration::File;
use crate::platform::open_file_limit;
use crate::server::store::StoreUrl;

/// Checks that the clock was not set back, which makes tokens and certificates expire at the wrong
/// time: no file can be newer than now.
pub(super) fn clock(path: Option<&Path>, file: &File) -> Finding {
    let default = StoreUrl::default();
    let journal = file.offer.store.as_ref().unwrap_or(&default).path().map(PathBuf::as_path);
    let written = [path, journal, file.audit.file.as_deref()].into_iter().flatten();
    let (now, advice) = (SystemTime::now(), "set the clock, and synchronize it with NTP");
    for path in written {
        let Ok(changed) = std::fs::metadata(path).and_then(|found| found.modified()) else {
            continue;
        };
        if changed > now + TOLERANCE {
            let problem = format!("{} was modified in the future", path.display());
            return Finding::fail("clock", problem, advice);
        }
    }
    if now < SystemTime::UNIX_EPOCH + RELEASED {
        return Finding::fail(
            "clock",
            "the clock shows a time before this program was built",
            advice,
        );
    }
    Finding::ok("clock", "no sign that it was set back")
}

/// Checks the limit on open files, which bounds the number of connections.
pub(super) fn files() -> Finding {
    match open_file_limit() {
        Some(limit) if limit < RECOMMENDED_OPEN_FILES => Finding::warn(
            "file limit",
            format!("only {limit} open files allowed, and each connection needs one"),
            "raise the limit: `ulimit -n 65536`, or LimitNOFILE=65536 in the systemd unit",
        ),
        Some(limit) => Finding::ok("file limit", format!("{limit} open files allowed")),
        None => Finding::ok("file limit", "no limit on open files"),
    }
}

const TOLERANCE: Duration = Duration::from_secs(60);

/// 2026-01-01.
const RELEASED: Duration = Duration::from_secs(1_767_225_600);

/// Limit on open files that suffices for a few thousand connections and the program's own files.
const RECOMMENDED_OPEN_FILES: u64 = 4096;
