//! File watcher.
//!
//! Directories are watched rather than files, because many programs save a file by replacing it.
//! One thread does the work, started when first needed: it takes commands and kernel events from
//! one inbox, so no caller waits for it under a lock.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, SyncSender};
use std::time::{Duration, Instant};

use notify::event::{EventKind, ModifyKind};
use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher};
use parking_lot::{Condvar, Mutex};

use crate::roots::uri::is_hidden;

/// A change.
#[derive(Debug)]
pub(crate) enum Change<'a> {
    /// The contents of a resource.
    Resource(&'a str),
    /// The list of files.
    List,
}

/// Watches files until dropped.
#[derive(Debug)]
pub(crate) struct Watch {
    inbox: Arc<Inbox>,
}

impl Watch {
    /// Starts watching; changes are passed to a function, on a dedicated thread.
    pub(crate) fn start(report: impl Fn(Change<'_>) + Send + 'static) -> Result<Self, String> {
        let inbox = Arc::new(Inbox::default());
        let (events, work) = (inbox.clone(), inbox.clone());
        let watcher = notify::recommended_watcher(move |event| events.put_event(event))
            .map_err(|error| error.to_string())?;
        let directories = HashMap::new();
        let mut thread = Thread { watcher, directories, listed: 0, report: Box::new(report) };
        std::thread::Builder::new()
            .name("resource-watch".to_owned())
            .spawn(move || {
                let mut reported = None;
                while let Some(items) = work.take(reported) {
                    if items.commands.is_empty() {
                        reported = Some(Instant::now());
                    }
                    thread.work(items);
                }
            })
            .map_err(|error| error.to_string())?;
        Ok(Self { inbox })
    }

    /// Watches a file for a resource; every change after this returns is reported. Blocks briefly.
    pub(crate) fn watch(&self, file: &Path, uri: &Arc<str>) -> Result<(), String> {
        let (done, is_done) = mpsc::sync_channel(1);
        self.inbox.put(Command::Watch { file: file.to_owned(), uri: uri.clone(), done });
        is_done.recv().unwrap_or_else(|_| Err("the watching thread has ended".to_owned()))
    }

    /// Stops watching a file.
    pub(crate) fn release(&self, file: &Path, uri: &Arc<str>) {
        self.inbox.put(Command::Release { file: file.to_owned(), uri: uri.clone() });
    }

    /// Watches directories for created and removed files, up to a limit.
    pub(crate) fn watch_lists(&self, directories: Vec<PathBuf>) {
        self.inbox.put(Command::WatchLists(directories));
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.inbox.items.lock().is_over = true;
        self.inbox.wake.notify_one();
    }
}

#[derive(Debug)]
enum Command {
    Watch { file: PathBuf, uri: Arc<str>, done: SyncSender<Result<(), String>> },
    Release { file: PathBuf, uri: Arc<str> },
    WatchLists(Vec<PathBuf>),
}

/// Work for the thread.
#[derive(Debug, Default)]
struct Inbox {
    items: Mutex<Items>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct Items {
    commands: Vec<Command>,
    /// Changed paths, and whether one was created or removed.
    changed: HashMap<PathBuf, bool>,
    /// Set if changes were lost.
    overflowed: bool,
    is_over: bool,
}

impl Inbox {
    fn put(&self, command: Command) {
        self.items.lock().commands.push(command);
        self.wake.notify_one();
    }

    fn put_event(&self, event: notify::Result<Event>) {
        let mut items = self.items.lock();
        match event {
            Ok(event) if event.need_rescan() => items.overflowed = true,
            Ok(event) => {
                let Some(created_or_removed) = created_or_removed(event.kind) else { return };
                if items.changed.len() >= MAX_CHANGES {
                    items.overflowed = true;
                } else {
                    for path in event.paths {
                        *items.changed.entry(path).or_default() |= created_or_removed;
                    }
                }
            }
            Err(error) => {
                tracing::warn!(%error, "file events were lost");
                items.overflowed = true;
            }
        }
        drop(items);
        self.wake.notify_one();
    }

    /// Waits for work; `None` at the end. Changes are collected for a pause since the last report.
    fn take(&self, reported: Option<Instant>) -> Option<Items> {
        let mut items = self.items.lock();
        loop {
            if items.is_over {
                return None;
            }
            let has_changes = items.overflowed || !items.changed.is_empty();
            let pause =
                reported.map_or(Duration::ZERO, |last| PAUSE.saturating_sub(last.elapsed()));
            if !items.commands.is_empty() || has_changes && pause.is_zero() {
                return Some(std::mem::take(&mut *items));
            }
            let pause = if has_changes { pause } else { FOREVER };
            self.wake.wait_for(&mut items, pause);
        }
    }
}

/// Returns whether an event creates or removes a file; `None` if it changes nothing relevant.
fn created_or_removed(kind: EventKind) -> Option<bool> {
    match kind {
        EventKind::Access(_) | EventKind::Modify(ModifyKind::Metadata(_)) => None,
        EventKind::Create(_) | EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(_)) => {
            Some(true)
        }
        _ => Some(false),
    }
}

/// State of the thread.
struct Thread {
    watcher: RecommendedWatcher,
    directories: HashMap<PathBuf, Directory>,
    /// Number of directories watched for their lists.
    listed: usize,
    report: Box<dyn Fn(Change<'_>) + Send>,
}

/// A watched directory.
#[derive(Debug, Default)]
struct Directory {
    /// The resources of its files; one may be subscribed to under several spellings.
    files: HashMap<OsString, Vec<Arc<str>>>,
    /// Set if it was listed to a client.
    is_listed: bool,
}

impl Thread {
    fn work(&mut self, items: Items) {
        // First: changes after a command has taken effect must be reported.
        self.report_changes(&items);
        for command in items.commands {
            match command {
                Command::Watch { file, uri, done } => {
                    // The caller may have gone.
                    let _ = done.send(self.watch(&file, uri));
                }
                Command::Release { file, uri } => self.release(&file, &uri),
                Command::WatchLists(directories) => self.watch_lists(directories),
            }
        }
    }

    fn report_changes(&self, items: &Items) {
        let mut list_changed = items.overflowed && self.listed > 0;
        let mut reported = HashSet::new();
        let mut report_all = |directory: &Directory| {
            for uri in directory.files.values().flatten() {
                if reported.insert(uri.clone()) {
                    (self.report)(Change::Resource(uri));
                }
            }
        };
        if items.overflowed {
            self.directories.values().for_each(&mut report_all);
        }
        for (path, created_or_removed) in &items.changed {
            // The directory itself was removed.
            if let Some(directory) = self.directories.get(path) {
                report_all(directory);
            }
            let Some((folder, name)) = path.parent().zip(path.file_name()) else { continue };
            let Some(directory) = self.directories.get(folder) else { continue };
            for uri in directory.files.get(name).into_iter().flatten() {
                (self.report)(Change::Resource(uri));
            }
            list_changed |= *created_or_removed && directory.is_listed && !is_hidden(name);
        }
        if list_changed {
            (self.report)(Change::List);
        }
    }

    fn watch(&mut self, file: &Path, uri: Arc<str>) -> Result<(), String> {
        let (folder, name) = file.parent().zip(file.file_name()).ok_or("it is in no directory")?;
        self.directory(folder)?.files.entry(name.to_owned()).or_default().push(uri);
        Ok(())
    }

    /// A directory that is watched from now on.
    fn directory(&mut self, folder: &Path) -> Result<&mut Directory, String> {
        if !self.directories.contains_key(folder) {
            if self.directories.len() >= MAX_DIRECTORIES {
                return Err(format!("{MAX_DIRECTORIES} directories are watched already"));
            }
            let watched = self.watcher.watch(folder, RecursiveMode::NonRecursive);
            watched.map_err(|error| error.to_string())?;
        }
        Ok(self.directories.entry(folder.to_owned()).or_default())
    }

    fn watch_lists(&mut self, folders: Vec<PathBuf>) {
        for folder in folders {
            if self.listed >= MAX_LISTS {
                return;
            }
            match self.directory(&folder) {
                Ok(directory) if directory.is_listed => {}
                Ok(directory) => {
                    directory.is_listed = true;
                    self.listed += 1;
                }
                Err(error) => tracing::debug!(error, "a directory cannot be watched"),
            }
        }
    }

    fn release(&mut self, file: &Path, uri: &Arc<str>) {
        let Some((folder, name)) = file.parent().zip(file.file_name()) else { return };
        let Some(directory) = self.directories.get_mut(folder) else { return };
        if let Some(uris) = directory.files.get_mut(name) {
            if let Some(index) = uris.iter().position(|other| other == uri) {
                uris.swap_remove(index);
            }
            if uris.is_empty() {
                directory.files.remove(name);
            }
        }
        if directory.files.is_empty() && !directory.is_listed {
            self.directories.remove(folder);
            // It may have been removed.
            let _ = self.watcher.unwatch(folder);
        }
    }
}

/// Time for which changes are collected here, a small part of the time before clients are notified.
const PAUSE: Duration = Duration::from_millis(20);

/// Long enough; a spurious wake-up once an hour is harmless.
const FOREVER: Duration = Duration::from_secs(3600);

/// Bounds queued changes; past it, everything is reported as changed.
const MAX_CHANGES: usize = 64 * 1024;

/// Bounds directories watched for subscriptions.
const MAX_DIRECTORIES: usize = 32 * 1024;

/// Bounds directories watched for lists.
const MAX_LISTS: usize = 1024;

#[cfg(test)]
mod tests {
    use super::{Change, Watch};
    use std::fs;
    use std::sync::{Arc, mpsc};
    use std::time::Duration;

    /// PAT-059: writing, replacing and removing a file are all reported; changes next to it are
    /// not.
    #[test]
    fn every_way_to_change_a_file_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("a"), "1").unwrap();
        let (sender, changes) = mpsc::channel();
        let watch = Watch::start(move |change| {
            let _ = sender.send(match change {
                Change::Resource(uri) => uri.to_owned(),
                Change::List => "list".to_owned(),
            });
        })
        .unwrap();
        let uri: Arc<str> = "x:/a".into();
        watch.watch(&path("a"), &uri).unwrap();
        let next = || changes.recv_timeout(Duration::from_secs(30)).unwrap();
        let actions: [&dyn Fn(); 4] = [
            &|| fs::write(path("a"), "2").unwrap(),
            &|| {
                fs::write(path("b"), "3").unwrap();
                fs::rename(path("b"), path("a")).unwrap();
            },
            &|| fs::remove_file(path("a")).unwrap(),
            &|| fs::write(path("a"), "4").unwrap(),
        ];
        for action in actions {
            action();
            assert_eq!(next(), "x:/a");
            // One change may cause several events.
            while changes.recv_timeout(Duration::from_millis(50)).is_ok() {}
        }
        watch.watch_lists(vec![folder.path().to_owned()]);
        watch.release(&path("a"), &uri);
        // In order: once this is watched, the other is not.
        watch.watch(&path("b"), &"x:/b".into()).unwrap();
        fs::write(path("a"), "5").unwrap();
        fs::write(path("c"), "6").unwrap();
        assert_eq!(next(), "list");
        fs::write(path("b"), "7").unwrap();
        let seen: Vec<_> = std::iter::from_fn(|| {
            changes.recv_timeout(Duration::from_secs(30)).ok().filter(|change| change != "x:/b")
        })
        .collect();
        assert!(seen.iter().all(|change| change == "list"), "{seen:?}");
    }
}
