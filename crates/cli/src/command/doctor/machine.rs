//! What the machine gives: its clock, and how many files may be open.

use std::path::Path;
use std::time::{Duration, SystemTime};

use rustix::process::{Resource, getrlimit};

use super::Finding;
use crate::configuration::File;
use crate::store::{self, StoreUrl};

/// A clock that was set back makes tokens and certificates good or bad at the wrong time. What was
/// written here before cannot be from later.
pub(super) fn clock(path: Option<&Path>, file: &File) -> Finding {
    let journal = match &file.offer.store {
        Some(StoreUrl::Redb(path)) => Some(path.as_path()),
        Some(StoreUrl::Memory) => None,
        None => Some(Path::new(store::DEFAULT)),
    };
    let written = [path, journal, file.audit.file.as_deref()].into_iter().flatten();
    let (now, advice) = (SystemTime::now(), "set the clock, and keep it right by NTP");
    for path in written {
        let Ok(changed) = std::fs::metadata(path).and_then(|found| found.modified()) else {
            continue;
        };
        if changed > now + TOLERANCE {
            let problem = format!("{} was changed later than it is now", path.display());
            return Finding::fail("clock", problem, advice);
        }
    }
    if now < SystemTime::UNIX_EPOCH + RELEASED {
        return Finding::fail("clock", "it is before this program was made", advice);
    }
    Finding::ok("clock", "it has not gone back")
}

/// How many connections there can be.
pub(super) fn files() -> Finding {
    let limit = getrlimit(Resource::Nofile).current;
    match limit {
        Some(limit) if limit < ENOUGH => Finding::warn(
            "file limit",
            format!("{limit} files may be open, and each connection takes one"),
            "raise it: `ulimit -n 65536`, or LimitNOFILE=65536 in the unit of systemd",
        ),
        Some(limit) => Finding::ok("file limit", format!("{limit} files may be open")),
        None => Finding::ok("file limit", "any number of files may be open"),
    }
}

const TOLERANCE: Duration = Duration::from_secs(60);

/// 2026-01-01.
const RELEASED: Duration = Duration::from_secs(1_767_225_600);

/// A few thousand connections, and the files of the program itself.
const ENOUGH: u64 = 4096;
