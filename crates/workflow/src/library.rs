//! All workflows there are: from which directories, under which ids, and which files are broken.
//!
//! Directories come in an order, and of two workflows with one id that of the later directory
//! counts. A broken file hides nothing; it is known by the id in it, and by its own name.

mod files;
mod shelf;
mod watch;

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use crate::bundled;
use crate::model::Workflow;
use crate::problem::{Problem, nearest};
use crate::read::Reading;
use files::Found;
use shelf::Shelf;

pub use shelf::Broken;
pub use watch::Watching;

/// Where a directory of workflows comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// It is part of the program.
    Bundled,
    /// It is the user's own.
    User,
    /// It belongs to the project, `./workflows`.
    Project,
    /// It was named when the program was started.
    Named,
}

impl Origin {
    /// In a word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bundled => "bundled",
            Self::User => "user",
            Self::Project => "project",
            Self::Named => "named",
        }
    }
}

/// A workflow and where it is from.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The workflow.
    pub workflow: Arc<Workflow>,
    /// Where its directory comes from.
    pub origin: Origin,
    /// Its file.
    pub path: Arc<Path>,
}

/// All workflows there are. A handle; clones are the same library.
///
/// ```
/// use mcp_flow_workflow::Library;
///
/// let library = Library::bundled();
/// assert!(library.find("code-review").is_some());
/// ```
#[derive(Clone, Debug)]
pub struct Library {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    directories: Vec<Directory>,
    shelf: RwLock<Shelf>,
}

/// A directory that is looked through.
#[derive(Clone, Debug)]
struct Directory {
    origin: Origin,
    /// As it is spelled by the file system, links followed.
    path: PathBuf,
}

/// What has changed in a library.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Ids of workflows that came, went, or are listed otherwise than before.
    pub listed: Vec<Box<str>>,
    /// Ids of workflows whose content is another.
    pub content: Vec<Box<str>>,
}

impl Library {
    /// The workflows that come with the program.
    pub fn bundled() -> Self {
        let mut shelf = Shelf::default();
        for (name, text) in bundled::FILES {
            let reading = Reading::of(text, bundled::FORMAT, "general");
            shelf.put(Origin::Bundled, 0, Path::new(name).into(), reading);
        }
        Self { inner: Arc::new(Inner { directories: Vec::new(), shelf: RwLock::new(shelf) }) }
    }

    /// Those, and the ones in directories, in this order. What is wrong with a file is noted; a
    /// directory that cannot be read at all is an error.
    pub fn open(
        directories: impl IntoIterator<Item = (Origin, PathBuf)>,
    ) -> Result<Self, BadDirectory> {
        let mut library = Self::bundled();
        let inner = Arc::get_mut(&mut library.inner).expect("nobody else has it yet");
        let shelf = inner.shelf.get_mut().unwrap_or_else(PoisonError::into_inner);
        for (origin, path) in directories {
            let bad = |source| BadDirectory { path: path.clone(), source };
            let path = path.canonicalize().map_err(bad)?;
            let found = files::find(&path).map_err(bad)?;
            inner.directories.push(Directory { origin, path: path.clone() });
            let rank = inner.directories.len();
            for (found, reading) in files::read_all(found, &path) {
                warn_of(&found.path, &reading);
                let id = reading.workflow.as_ref().map(|workflow| workflow.id.clone());
                shelf.put(origin, rank, found.path.clone(), reading);
                let twin = id.and_then(|id| shelf.twin(&id, rank, &found.path));
                if let Some((twin, counts)) = twin {
                    let (file, twin, counts) =
                        (found.path.display(), twin.display(), counts.display());
                    tracing::warn!("{file} and {twin} have the same id; {counts} counts");
                }
            }
        }
        for broken in shelf.broken() {
            tracing::warn!("{}", broken.report());
        }
        Ok(library)
    }

    /// The workflow of this id.
    pub fn find(&self, id: &str) -> Option<Arc<Workflow>> {
        self.shelf().find(id).map(|entry| entry.workflow.clone())
    }

    /// The workflow of this id, and where it is from.
    pub fn entry(&self, id: &str) -> Option<Entry> {
        self.shelf().find(id).cloned()
    }

    /// The broken file that is known by this id.
    pub fn find_broken(&self, id: &str) -> Option<Arc<Broken>> {
        self.shelf().find_broken(id)
    }

    /// All workflows, in the order of their ids.
    pub fn entries(&self) -> Vec<Entry> {
        self.shelf().entries().cloned().collect()
    }

    /// Does something with every workflow, in the order of their ids.
    pub(crate) fn each(&self, mut see: impl FnMut(&Entry)) {
        self.shelf().entries().for_each(&mut see);
    }

    /// All broken files.
    pub fn broken(&self) -> Vec<Arc<Broken>> {
        self.shelf().broken().cloned().collect()
    }

    /// The id that was probably meant.
    pub fn nearest(&self, id: &str) -> Option<Box<str>> {
        let shelf = self.shelf();
        nearest(id, shelf.entries().map(|entry| &*entry.workflow.id)).map(Into::into)
    }

    /// Reads one file again, which may be new or gone.
    pub fn reload(&self, path: &Path) -> Changes {
        let place =
            self.inner.directories.iter().enumerate().rev().find_map(|(index, directory)| {
                path.starts_with(&directory.path).then_some((index + 1, directory))
            });
        let Some((rank, directory)) = place else { return Changes::default() };
        let found = files::look(path, &directory.path);
        let reading = found.as_ref().map(|found| files::read(found, &directory.path));
        if let Some(reading) = &reading {
            warn_of(path, reading);
            if let Some(problem) = reading.first_error() {
                tracing::warn!("{}: {problem}", path.display());
            }
        }
        let mut shelf = self.inner.shelf.write().unwrap_or_else(PoisonError::into_inner);
        match (found, reading) {
            (Some(Found { path, .. }), Some(reading)) => {
                shelf.put(directory.origin, rank, path, reading)
            }
            _ => shelf.remove(path),
        }
    }

    /// Reads everything again, because it is not known what has changed.
    pub fn reload_all(&self) -> Changes {
        let mut changes = Changes::default();
        let known = self.shelf().paths();
        let mut paths: Vec<PathBuf> = known.iter().map(|path| path.to_path_buf()).collect();
        for directory in &self.inner.directories {
            let found = files::find(&directory.path).unwrap_or_default();
            paths.extend(found.into_iter().map(|found| found.path.to_path_buf()));
        }
        paths.sort();
        paths.dedup();
        for path in paths {
            let Changes { listed, content } = self.reload(&path);
            changes.listed.extend(listed);
            changes.content.extend(content);
        }
        changes
    }

    /// Reads files again when they change, and tells what became of it, until the result is
    /// dropped.
    pub fn watch(&self, tell: impl Fn(Changes) + Send + 'static) -> Result<Watching, String> {
        Watching::start(self.clone(), tell)
    }

    /// The directories that are looked through.
    pub(crate) fn directories(&self) -> impl Iterator<Item = &Path> {
        self.inner.directories.iter().map(|directory| directory.path.as_path())
    }

    fn shelf(&self) -> RwLockReadGuard<'_, Shelf> {
        self.inner.shelf.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Says what is not as it should be with a file that can be used all the same.
fn warn_of(path: &Path, reading: &Reading) {
    if reading.workflow.is_some() {
        for problem in &reading.problems {
            tracing::warn!("{}: {problem}", path.display());
        }
    }
}

/// A directory that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("the workflows in {} cannot be read", path.display())]
pub struct BadDirectory {
    /// Which.
    pub path: PathBuf,
    /// Why.
    pub source: std::io::Error,
}

/// What is wrong with a file by itself, for those who write one.
pub fn check_file(path: &Path) -> std::io::Result<Vec<Problem>> {
    files::check(path)
}

/// The files of a directory that would be read as workflows, in order.
pub fn files_in(directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    let found = files::find(directory)?;
    let mut paths: Vec<_> = found.into_iter().map(|found| found.path.to_path_buf()).collect();
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests;
