//! Seeing files change.
//!
//! Directories are watched rather than files, because many programs save a file by putting another
//! in its place. All is done by one thread, which is started when it is first needed: it takes
//! commands and what the kernel reports from one inbox, so nobody ever waits for it under a lock.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, SyncSender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use notify::event::{EventKind, ModifyKind};
use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher};

/// What has changed.
#[derive(Debug)]
pub(crate) enum Change<'a> {
    /// What a resource holds.
    Resource(&'a str),
    /// Which files there are.
    List,
}

/// Watches files until it is dropped.
#[derive(Debug)]
pub(crate) struct Watch {
    inbox: Arc<Inbox>,
}

impl Watch {
    /// Starts to watch; what changes is told to a function, on a thread of its own.
    pub(crate) fn start(tell: impl Fn(Change<'_>) + Send + 'static) -> Result<Self, String> {
        let inbox = Arc::new(Inbox::default());
        let (reports, work) = (inbox.clone(), inbox.clone());
        let watcher = notify::recommended_watcher(move |report| reports.put_report(report))
            .map_err(|error| error.to_string())?;
        let directories = HashMap::new();
        let mut thread = Thread { watcher, directories, listed: 0, tell: Box::new(tell) };
        std::thread::Builder::new()
            .name("resource-watch".to_owned())
            .spawn(move || {
                let mut told = None;
                while let Some(items) = work.take(told) {
                    if items.commands.is_empty() {
                        told = Some(Instant::now());
                    }
                    thread.work(items);
                }
            })
            .map_err(|error| error.to_string())?;
        Ok(Self { inbox })
    }

    /// Watches a file for a resource; every change from when this returns is told. Blocks a little.
    pub(crate) fn watch(&self, file: &Path, uri: &Arc<str>) -> Result<(), String> {
        let (done, is_done) = mpsc::sync_channel(1);
        self.inbox.put(Command::Watch { file: file.to_owned(), uri: uri.clone(), done });
        is_done.recv().unwrap_or_else(|_| Err("the watching thread has ended".to_owned()))
    }

    /// Watches a file no longer.
    pub(crate) fn release(&self, file: &Path, uri: &Arc<str>) {
        self.inbox.put(Command::Release { file: file.to_owned(), uri: uri.clone() });
    }

    /// Watches directories for files that come and go, as far as there is room.
    pub(crate) fn watch_lists(&self, directories: Vec<PathBuf>) {
        self.inbox.put(Command::WatchLists(directories));
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.inbox.items().is_over = true;
        self.inbox.wake.notify_one();
    }
}

#[derive(Debug)]
enum Command {
    Watch { file: PathBuf, uri: Arc<str>, done: SyncSender<Result<(), String>> },
    Release { file: PathBuf, uri: Arc<str> },
    WatchLists(Vec<PathBuf>),
}

/// What waits for the thread.
#[derive(Debug, Default)]
struct Inbox {
    items: Mutex<Items>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct Items {
    commands: Vec<Command>,
    /// Paths that changed, and whether one came or went.
    changed: HashMap<PathBuf, bool>,
    /// More changed than is known.
    lost_count: bool,
    is_over: bool,
}

impl Inbox {
    fn put(&self, command: Command) {
        self.items().commands.push(command);
        self.wake.notify_one();
    }

    fn put_report(&self, report: notify::Result<Event>) {
        let mut items = self.items();
        match report {
            Ok(event) if event.need_rescan() => items.lost_count = true,
            Ok(event) => {
                let Some(comes_or_goes) = comes_or_goes(event.kind) else { return };
                if items.changed.len() >= MOST_CHANGES {
                    items.lost_count = true;
                } else {
                    for path in event.paths {
                        *items.changed.entry(path).or_default() |= comes_or_goes;
                    }
                }
            }
            Err(error) => {
                tracing::warn!(%error, "files cannot be watched as they should");
                items.lost_count = true;
            }
        }
        drop(items);
        self.wake.notify_one();
    }

    /// Waits for something to do; `None` when there will be nothing any more. Of what goes on
    /// changing, some is gathered since changes were last told.
    fn take(&self, told: Option<Instant>) -> Option<Items> {
        let mut items = self.items();
        loop {
            if items.is_over {
                return None;
            }
            let has_changes = items.lost_count || !items.changed.is_empty();
            let pause = told.map_or(Duration::ZERO, |told| PAUSE.saturating_sub(told.elapsed()));
            if !items.commands.is_empty() || has_changes && pause.is_zero() {
                return Some(std::mem::take(&mut *items));
            }
            let pause = if has_changes { pause } else { FOREVER };
            let waited = self.wake.wait_timeout(items, pause);
            items = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn items(&self) -> MutexGuard<'_, Items> {
        self.items.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether an event is of a file that came or went; `None` if nothing that matters has changed.
fn comes_or_goes(kind: EventKind) -> Option<bool> {
    match kind {
        EventKind::Access(_) | EventKind::Modify(ModifyKind::Metadata(_)) => None,
        EventKind::Create(_) | EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(_)) => {
            Some(true)
        }
        _ => Some(false),
    }
}

/// What the thread knows.
struct Thread {
    watcher: RecommendedWatcher,
    directories: HashMap<PathBuf, Directory>,
    /// How many directories are watched for their lists.
    listed: usize,
    tell: Box<dyn Fn(Change<'_>) + Send>,
}

/// A directory that is watched.
#[derive(Debug, Default)]
struct Directory {
    /// The resources of its files; one may be subscribed to under several spellings.
    files: HashMap<OsString, Vec<Arc<str>>>,
    /// Whether it was listed to somebody.
    is_listed: bool,
}

impl Thread {
    fn work(&mut self, items: Items) {
        // First of all: what changes after a command was obeyed must be told.
        self.tell_changes(&items);
        for command in items.commands {
            match command {
                Command::Watch { file, uri, done } => {
                    // Whoever asked may have gone.
                    let _ = done.send(self.watch(&file, uri));
                }
                Command::Release { file, uri } => self.release(&file, &uri),
                Command::WatchLists(directories) => self.watch_lists(directories),
            }
        }
    }

    fn tell_changes(&self, items: &Items) {
        let mut list_changed = items.lost_count && self.listed > 0;
        let mut told = HashSet::new();
        let mut tell_all = |directory: &Directory| {
            for uri in directory.files.values().flatten() {
                if told.insert(uri.clone()) {
                    (self.tell)(Change::Resource(uri));
                }
            }
        };
        if items.lost_count {
            self.directories.values().for_each(&mut tell_all);
        }
        for (path, comes_or_goes) in &items.changed {
            // The directory itself is gone.
            if let Some(directory) = self.directories.get(path) {
                tell_all(directory);
            }
            let Some((folder, name)) = path.parent().zip(path.file_name()) else { continue };
            let Some(directory) = self.directories.get(folder) else { continue };
            for uri in directory.files.get(name).into_iter().flatten() {
                (self.tell)(Change::Resource(uri));
            }
            list_changed |= *comes_or_goes && directory.is_listed && !is_hidden(name);
        }
        if list_changed {
            (self.tell)(Change::List);
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
            if self.directories.len() >= MOST_DIRECTORIES {
                return Err(format!("{MOST_DIRECTORIES} directories are watched already"));
            }
            let watched = self.watcher.watch(folder, RecursiveMode::NonRecursive);
            watched.map_err(|error| error.to_string())?;
        }
        Ok(self.directories.entry(folder.to_owned()).or_default())
    }

    fn watch_lists(&mut self, folders: Vec<PathBuf>) {
        for folder in folders {
            if self.listed >= MOST_LISTS {
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
            // It may be gone by itself.
            let _ = self.watcher.unwatch(folder);
        }
    }
}

fn is_hidden(name: &OsStr) -> bool {
    name.as_bytes().starts_with(b".")
}

/// How long changes are gathered here, a small part of how long they are gathered before anyone is
/// told of them.
const PAUSE: Duration = Duration::from_millis(20);

/// Until something comes; nobody minds being woken once an hour.
const FOREVER: Duration = Duration::from_secs(3600);

/// Bounds what waits for the thread; past it, all is told to have changed.
const MOST_CHANGES: usize = 64 * 1024;

/// Bounds what the kernel watches for subscriptions.
const MOST_DIRECTORIES: usize = 32 * 1024;

/// Bounds what the kernel watches for lists.
const MOST_LISTS: usize = 1024;

#[cfg(test)]
mod tests {
    use super::{Change, Watch};
    use std::fs;
    use std::sync::{Arc, mpsc};
    use std::time::Duration;

    /// PAT-059: writing, replacing and removing a file are all seen; what is next to it is not.
    #[test]
    fn every_way_to_change_a_file_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("a"), "1").unwrap();
        let (tell, told) = mpsc::channel();
        let watch = Watch::start(move |change| {
            let _ = tell.send(match change {
                Change::Resource(uri) => uri.to_owned(),
                Change::List => "list".to_owned(),
            });
        })
        .unwrap();
        let uri: Arc<str> = "x:/a".into();
        watch.watch(&path("a"), &uri).unwrap();
        let next = || told.recv_timeout(Duration::from_secs(30)).unwrap();
        let changes: [&dyn Fn(); 4] = [
            &|| fs::write(path("a"), "2").unwrap(),
            &|| {
                fs::write(path("b"), "3").unwrap();
                fs::rename(path("b"), path("a")).unwrap();
            },
            &|| fs::remove_file(path("a")).unwrap(),
            &|| fs::write(path("a"), "4").unwrap(),
        ];
        for change in changes {
            change();
            assert_eq!(next(), "x:/a");
            // One change may be several events.
            while told.recv_timeout(Duration::from_millis(50)).is_ok() {}
        }
        watch.watch_lists(vec![folder.path().to_owned()]);
        watch.release(&path("a"), &uri);
        // Obeyed in order: when this is watched, the other is not.
        watch.watch(&path("b"), &"x:/b".into()).unwrap();
        fs::write(path("a"), "5").unwrap();
        fs::write(path("c"), "6").unwrap();
        assert_eq!(next(), "list");
        fs::write(path("b"), "7").unwrap();
        let seen: Vec<_> = std::iter::from_fn(|| {
            told.recv_timeout(Duration::from_secs(30)).ok().filter(|told| told != "x:/b")
        })
        .collect();
        assert!(seen.iter().all(|told| told == "list"), "{seen:?}");
    }
}
