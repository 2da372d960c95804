//! File watcher that keeps a library up to date.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use notify::event::{EventKind, ModifyKind};
use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher};

use super::{Library, LibraryChanges};

/// Keeps a library up to date until it is dropped.
#[derive(Debug)]
pub struct LibraryWatcher {
    /// Dropping it ends the thread, which has no other sender.
    _watcher: RecommendedWatcher,
}

impl LibraryWatcher {
    pub(super) fn start(
        library: Library,
        tell: impl Fn(LibraryChanges) + Send + 'static,
    ) -> Result<Self, String> {
        let (report, reports) = mpsc::channel();
        let mut watcher = notify::recommended_watcher(move |event| {
            // The thread ends after the watcher.
            let _ = report.send(event);
        })
        .map_err(|error| error.to_string())?;
        for directory in library.directories() {
            let watched = watcher.watch(directory, RecursiveMode::Recursive);
            watched.map_err(|error| error.to_string())?;
        }
        std::thread::Builder::new()
            .name("workflow-watch".to_owned())
            .spawn(move || work(&library, &reports, &tell))
            .map_err(|error| error.to_string())?;
        Ok(Self { _watcher: watcher })
    }
}

fn work(
    library: &Library,
    reports: &Receiver<notify::Result<Event>>,
    tell: &impl Fn(LibraryChanges),
) {
    while let Ok(first) = reports.recv() {
        let mut changed = Changed::default();
        changed.note(first);
        // A file being written reports several times; it is read after the last of them.
        loop {
            match reports.recv_timeout(PAUSE) {
                Ok(report) => changed.note(report),
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if changed.count > MOST_REPORTS {
                break;
            }
        }
        let changes = if changed.everything {
            library.reload_all()
        } else {
            let mut all = LibraryChanges::default();
            for path in changed.paths {
                let LibraryChanges { listed, content } = library.reload(&path);
                all.listed.extend(listed);
                all.content.extend(content);
            }
            all
        };
        if changes != LibraryChanges::default() {
            tell(changes);
        }
    }
}

#[derive(Debug, Default)]
struct Changed {
    paths: HashSet<PathBuf>,
    /// True if everything must be read again: a directory was added or removed, or events were
    /// lost.
    everything: bool,
    count: usize,
}

impl Changed {
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
                tracing::warn!(%error, "watching workflow files failed; reading all of them again");
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

/// Limit on the events collected at once.
const MOST_REPORTS: usize = 10_000;
