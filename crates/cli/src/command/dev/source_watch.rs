//! Watches the source files of a server.
//!
//! Directories are watched one by one, so that those with thousands of generated files are left out.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use notify::event::{AccessKind, AccessMode, EventKind, MetadataKind, ModifyKind};
use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::mpsc;

/// Reports changed files, several at once as one change.
pub(super) struct SourceWatch {
    watcher: RecommendedWatcher,
    events: mpsc::UnboundedReceiver<(Instant, Event)>,
    watched: HashSet<PathBuf>,
    ignored: Vec<String>,
}

impl SourceWatch {
    /// Watches directories with all beneath them that is not ignored.
    pub(super) fn open(folders: &[PathBuf], ignored: &[String]) -> anyhow::Result<Self> {
        let (sender, events) = mpsc::unbounded_channel();
        let watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            if let Ok(event) = event
                && is_change(event.kind)
            {
                let _ = sender.send((Instant::now(), event));
            }
        });
        let watcher = watcher.context("cannot watch files")?;
        let watched = HashSet::new();
        let mut watch = Self { watcher, events, watched, ignored: ignored.to_vec() };
        for folder in folders {
            let folder = std::fs::canonicalize(folder)
                .with_context(|| format!("cannot watch {}", folder.display()))?;
            watch.add(&folder)?;
        }
        Ok(watch)
    }

    /// Waits for a change, and until there is no further one for a moment. Returns the changed files,
    /// each with the time of its first change; `None` if nothing can be watched any more.
    pub(super) async fn changed(&mut self) -> Option<Vec<(PathBuf, Instant)>> {
        let mut changed: Vec<(PathBuf, Instant)> = Vec::new();
        loop {
            let (at, event) = match changed.is_empty() {
                true => self.events.recv().await?,
                false => match tokio::time::timeout(QUIET, self.events.recv()).await {
                    Ok(event) => event?,
                    Err(_) => return Some(changed),
                },
            };
            for path in event.paths {
                if self.is_ignored(&path) {
                    continue;
                }
                if path.is_dir() {
                    // An empty directory changes nothing; files in it may be there already.
                    match self.add(&path) {
                        Ok(0) => continue,
                        Ok(_) => {}
                        Err(error) => eprintln!("mcp-flow: {error:#}"),
                    }
                }
                let is_new = changed.iter().all(|(known, _)| *known != path);
                if is_new && changed.len() < MAX_CHANGES {
                    changed.push((path, at));
                }
            }
        }
    }

    /// Watches a directory and those beneath it. Returns the number of files in them.
    fn add(&mut self, folder: &Path) -> anyhow::Result<usize> {
        let (mut files, mut pending) = (0, vec![folder.to_owned()]);
        while let Some(folder) = pending.pop() {
            self.watched.insert(folder.clone());
            if self.watched.len() > MAX_DIRECTORIES {
                anyhow::bail!(
                    "more than {MAX_DIRECTORIES} directories to watch; name those of the server with \
                     --watch, or leave some out with --ignore"
                );
            }
            // It may be gone already.
            if let Err(error) = self.watcher.watch(&folder, RecursiveMode::NonRecursive) {
                self.watched.remove(&folder);
                if folder.exists() {
                    return Err(error)
                        .with_context(|| format!("cannot watch {}", folder.display()));
                }
                continue;
            }
            for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
                let path = entry.path();
                if self.is_ignored(&path) {
                    continue;
                }
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => pending.push(path),
                    Ok(_) => files += 1,
                    Err(_) => {}
                }
            }
        }
        Ok(files)
    }

    fn is_ignored(&self, path: &Path) -> bool {
        let Some(name) = path.file_name() else { return false };
        let name = name.to_string_lossy();
        name.starts_with('.')
            || name.ends_with('~')
            || IGNORED.contains(&&*name)
            || IGNORED_ENDS.iter().any(|end| name.ends_with(end))
            || self.ignored.iter().any(|pattern| matches(pattern, &name))
    }
}

fn is_change(kind: EventKind) -> bool {
    match kind {
        EventKind::Create(_) | EventKind::Remove(_) => true,
        EventKind::Modify(ModifyKind::Metadata(kind)) => {
            !matches!(kind, MetadataKind::AccessTime | MetadataKind::Any)
        }
        EventKind::Modify(_) | EventKind::Access(AccessKind::Close(AccessMode::Write)) => true,
        _ => false,
    }
}

/// Matches a name with a pattern in which `*` stands for any characters.
fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let mut parts: Vec<_> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// Directories with generated files, and files that editors write to test a directory.
const IGNORED: [&str; 10] = [
    "target",
    "node_modules",
    "__pycache__",
    "venv",
    "CVS",
    "coverage",
    "obj",
    "4913",
    "_build",
    "vendor",
];

/// Ends of the names of files that programs write while they run.
const IGNORED_ENDS: [&str; 7] = [".log", ".pyc", ".swp", ".swx", ".tmp", ".lock", ".redb"];

/// Time without changes after which they are reported.
const QUIET: Duration = Duration::from_millis(150);

/// Limit on the changed files that are told apart.
const MAX_CHANGES: usize = 100;

const MAX_DIRECTORIES: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::{SourceWatch, matches};

    #[test]
    fn patterns_match_names() {
        for (pattern, name, expected) in [
            ("dist", "dist", true),
            ("dist", "distant", false),
            ("*.db", "data.db", true),
            ("*.db", "data.dbx", false),
            ("a*b*c", "a1b2c", true),
            ("a*b*c", "a1c", false),
            ("*", "anything", true),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[tokio::test]
    async fn changes_of_sources_are_reported_and_others_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for name in ["src", "node_modules", ".git"] {
            std::fs::create_dir(root.join(name)).unwrap();
        }
        let mut watch =
            SourceWatch::open(std::slice::from_ref(&root), &["*.db".to_owned()]).unwrap();
        for ignored in ["node_modules/a.js", ".git/HEAD", "a.db", "b.log", "c.swp", "src/.x.kate"] {
            std::fs::write(root.join(ignored), "x").unwrap();
        }
        std::fs::create_dir(root.join("src/new")).unwrap();
        std::fs::write(root.join("src/main.py"), "x").unwrap();
        let limit = std::time::Duration::from_secs(20);
        let mut first = async || {
            let changed = tokio::time::timeout(limit, watch.changed()).await;
            changed.expect("the change is seen").unwrap().swap_remove(0).0
        };
        assert_eq!(first().await, root.join("src/main.py"));
        // Directories that were added are watched as well.
        std::fs::write(root.join("src/new/other.py"), "x").unwrap();
        assert_eq!(first().await, root.join("src/new/other.py"));
    }
}
