//! Reading files again when they change.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use notify::event::{EventKind, ModifyKind};
use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher};

use super::{Changes, Library};

/// Keeps a library up to date until it is dropped.
#[derive(Debug)]
pub struct Watching {
    /// Ends the thread when it is dropped, because nobody else reports to it.
    _watcher: RecommendedWatcher,
}

impl Watching {
    pub(super) fn start(
        library: Library,
        tell: impl Fn(Changes) + Send + 'static,
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

fn work(library: &Library, reports: &Receiver<notify::Result<Event>>, tell: &impl Fn(Changes)) {
    while let Ok(first) = reports.recv() {
        let mut changed = Changed::default();
        changed.note(first);
        // A file that is being written reports several times; it is read when that is over.
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
            let mut all = Changes::default();
            for path in changed.paths {
                let Changes { listed, content } = library.reload(&path);
                all.listed.extend(listed);
                all.content.extend(content);
            }
            all
        };
        if changes != Changes::default() {
            tell(changes);
        }
    }
}

#[derive(Debug, Default)]
struct Changed {
    paths: HashSet<PathBuf>,
    /// Something changed of which it is not known what: a directory came or went, or there was too
    /// much to report.
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
                    // What has no extension is probably a directory.
                    self.everything |= event.paths.iter().any(|path| path.extension().is_none());
                    self.paths.extend(event.paths);
                }
            }
            Err(error) => {
                tracing::warn!(%error, "workflows cannot be watched as they should");
                self.everything = true;
            }
        }
    }
}

fn matters(kind: EventKind) -> bool {
    !matches!(kind, EventKind::Access(_) | EventKind::Modify(ModifyKind::Metadata(_)))
}

/// How long nothing must be reported before files are read again.
const PAUSE: Duration = Duration::from_millis(10);

/// How many reports are gathered at most.
const MOST_REPORTS: usize = 10_000;
