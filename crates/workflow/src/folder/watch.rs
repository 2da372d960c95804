//! File watcher of directories.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use notify::event::{EventKind, ModifyKind};
use notify::{Config, Event, RecommendedWatcher, RecursiveMode, Watcher};

/// Reports changed files in directories until it is dropped.
#[derive(Debug)]
pub struct FolderWatcher {
    /// Dropping it ends the thread, which has no other sender.
    _watcher: RecommendedWatcher,
}

impl FolderWatcher {
    /// Watches directories, and files by themselves, by their canonical paths. `tell` is called on a thread of this name.
    pub fn start<'a>(
        name: &str,
        paths: impl IntoIterator<Item = &'a Path>,
        tell: impl FnMut(ChangedFiles) + Send + 'static,
    ) -> Result<Self, String> {
        let (report, reports) = mpsc::channel();
        let handler = move |event| {
            // The thread ends after the watcher.
            let _ = report.send(event);
        };
        // Nothing is read through links to directories, which could lead anywhere.
        let config = Config::default().with_follow_symlinks(false);
        let mut watcher =
            RecommendedWatcher::new(handler, config).map_err(|error| error.to_string())?;
        for path in paths {
            let watched = watcher.watch(path, RecursiveMode::Recursive);
            watched.map_err(|error| format!("{}: {error}", path.display()))?;
        }
        std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || work(&reports, tell))
            .map_err(|error| error.to_string())?;
        Ok(Self { _watcher: watcher })
    }
}

fn work(reports: &Receiver<notify::Result<Event>>, mut tell: impl FnMut(ChangedFiles)) {
    while let Ok(first) = reports.recv() {
        let mut changed = ChangedFiles::default();
        changed.note(first);
        // A file being written reports several times; it is read after the last of them.
        let begun = Instant::now();
        while changed.count <= MAX_REPORTS && begun.elapsed() < MAX_WAIT {
            match reports.recv_timeout(PAUSE) {
                Ok(report) => changed.note(report),
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
        if changed.everything || !changed.paths.is_empty() {
            tell(changed);
        }
    }
}

/// Files that have changed.
#[derive(Debug, Default)]
pub struct ChangedFiles {
    /// Paths of the files, which may be new or removed.
    pub paths: HashSet<PathBuf>,
    /// True if everything must be read again: a directory was added or removed, or events were
    /// lost.
    pub everything: bool,
    count: usize,
}

impl ChangedFiles {
    fn note(&mut self, report: notify::Result<Event>) {
        self.count += 1;
        match report {
            Ok(event) if event.need_rescan() => self.everything = true,
            Ok(event) => {
                if matters(event.kind) {
                    // A path without an extension is probably a directory.
                    self.everything |= event.paths.iter().any(|path| path.extension().is_none());
                    self.paths.extend(event.paths);
                }
            }
            Err(error) => {
                tracing::warn!(%error, "watching files failed; reading all of them again");
                self.everything = true;
            }
        }
    }
}

fn matters(kind: EventKind) -> bool {
    !matches!(kind, EventKind::Access(_) | EventKind::Modify(ModifyKind::Metadata(_)))
}

/// Quiet period before changed files are read.
const PAUSE: Duration = Duration::from_millis(10);

/// Longest wait for files that keep changing.
const MAX_WAIT: Duration = Duration::from_secs(1);

/// Limit on the events collected at once.
const MAX_REPORTS: usize = 10_000;
