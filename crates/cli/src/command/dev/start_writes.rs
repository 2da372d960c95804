//! Files that a server writes whenever it starts: their changes are no reason to start it again.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Starts of the server, and the files that changed right after them.
#[derive(Debug, Default)]
pub(super) struct StartWrites {
    files: HashMap<PathBuf, Written>,
}

/// Starts in a row after which a file changed at once.
#[derive(Debug)]
struct Written {
    starts: u32,
    last: Instant,
}

impl StartWrites {
    /// Returns the first of the changed files that is a reason to restart the server, which was started
    /// at this time.
    pub(super) fn reason(
        &mut self,
        changed: Vec<(PathBuf, Instant)>,
        started: Option<Instant>,
    ) -> Option<PathBuf> {
        let mut reasons =
            changed.into_iter().filter(|(path, at)| self.is_reason(path, *at, started));
        // All of them are counted.
        let first = reasons.next();
        reasons.for_each(drop);
        first.map(|(path, _)| path)
    }

    fn is_reason(&mut self, path: &Path, at: Instant, started: Option<Instant>) -> bool {
        let is_after = |started: &Instant| at >= *started && at - *started < START;
        let Some(started) = started.filter(is_after) else {
            self.files.remove(path);
            return true;
        };
        let new = || Written { starts: 0, last: started };
        let written = self.files.entry(path.to_owned()).or_insert_with(new);
        if written.starts == 0 || written.last != started {
            (written.starts, written.last) = (written.starts + 1, started);
            if written.starts == MOST {
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                eprintln!(
                    "mcp-flow: {} changes whenever the server starts, so that is no reason to restart \
                     it; leave it out with --ignore '{name}'",
                    path.display()
                );
            }
        }
        written.starts < MOST
    }
}

/// Time after a start in which a server writes its files.
const START: Duration = Duration::from_secs(3);

/// Starts in a row after which the changes of a file are its own.
const MOST: u32 = 4;

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::time::{Duration, Instant};

    use super::StartWrites;

    #[test]
    fn a_file_that_every_start_writes_is_no_reason() {
        let begun = Instant::now();
        let at = |millis| begun + Duration::from_millis(millis);
        let mut writes = StartWrites::default();
        let mut reason = |names: &[&str], changed: u64, started: u64| {
            let changed = names.iter().map(|name| (PathBuf::from(name), at(changed))).collect();
            let reason = writes.reason(changed, Some(at(started)));
            reason.map(|path| path.display().to_string())
        };
        let (db, both) = (&["a.db"][..], &["a.db", "main.py"][..]);
        assert_eq!(reason(db, 100, 0).as_deref(), Some("a.db"));
        assert_eq!(reason(db, 400, 0).as_deref(), Some("a.db"), "the same start");
        for start in [1000, 2000] {
            assert_eq!(reason(db, start + 100, start).as_deref(), Some("a.db"));
        }
        assert_eq!(reason(db, 3100, 3000), None);
        assert_eq!(reason(both, 3500, 3000).as_deref(), Some("main.py"));
        assert_eq!(reason(db, 4500, 4000), None);
        // A person has changed it.
        assert_eq!(reason(db, 9000, 4000).as_deref(), Some("a.db"));
        assert_eq!(reason(db, 9500, 9400).as_deref(), Some("a.db"));
        assert_eq!(writes.reason(vec![(PathBuf::from("b"), at(0))], None), Some("b".into()));
    }
}
