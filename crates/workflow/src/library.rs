//! Library of workflow files: the bundled ones and those in directories, by id.
//!
//! Directories are ordered; a workflow in a later directory overrides one with the same id. A
//! broken file overrides nothing. It is listed under the id it contains and under its file name.

mod files;
mod index;
mod watch;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{RwLock, RwLockReadGuard};

use crate::bundled;
use crate::folder::{FoundFile, find_file, find_files};
use crate::model::Workflow;
use crate::problem::{Problem, nearest};
use crate::read::Reading;
use index::Index;

pub use index::BrokenFile;
pub use watch::LibraryWatcher;

/// Source of a workflow directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// Part of the program.
    Bundled,
    /// Directory of the user.
    User,
    /// Directory of the project, `./workflows`.
    Project,
    /// Directory given when the program was started.
    Named,
}

impl Origin {
    /// Returns the name of the source.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bundled => "bundled",
            Self::User => "user",
            Self::Project => "project",
            Self::Named => "named",
        }
    }
}

/// A workflow with its source.
#[derive(Clone, Debug)]
pub struct LibraryEntry {
    /// The workflow.
    pub workflow: Arc<Workflow>,
    /// Source of its directory.
    pub origin: Origin,
    /// Path of its file.
    pub path: Arc<Path>,
}

/// All workflows by id. A handle; clones share the same library.
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
    index: RwLock<Index>,
}

/// A directory to search.
#[derive(Clone, Debug)]
struct Directory {
    origin: Origin,
    /// Canonical path.
    path: PathBuf,
}

/// Changes of a library.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LibraryChanges {
    /// Ids of workflows added, removed, or listed differently.
    pub listed: Vec<Box<str>>,
    /// Ids of workflows with different content.
    pub content: Vec<Box<str>>,
}

impl Library {
    /// Returns the workflows bundled with the program.
    pub fn bundled() -> Self {
        let mut index = Index::default();
        for (name, text) in bundled::FILES {
            let reading = Reading::bundled(text, bundled::FORMAT);
            index.insert(Origin::Bundled, 0, Path::new(name).into(), reading);
        }
        Self { inner: Arc::new(Inner { directories: Vec::new(), index: RwLock::new(index) }) }
    }

    /// Reads the bundled workflows and those in directories, in this order. Broken files are kept
    /// and logged; a directory that cannot be read is an error.
    pub fn open(
        directories: impl IntoIterator<Item = (Origin, PathBuf)>,
    ) -> Result<Self, UnreadableDirectory> {
        let mut library = Self::bundled();
        let inner = Arc::get_mut(&mut library.inner).expect("the handle is not shared yet");
        let index = inner.index.get_mut();
        for (origin, path) in directories {
            let bad = |source| UnreadableDirectory { path: path.clone(), source };
            let path = path.canonicalize().map_err(bad)?;
            let found = find_files(&path).map_err(bad)?;
            inner.directories.push(Directory { origin, path: path.clone() });
            let rank = inner.directories.len();
            for (found, reading) in files::read_all(found, &path) {
                log_warnings(&found.path, &reading);
                let id = reading.workflow.as_ref().map(|workflow| workflow.id.clone());
                index.insert(origin, rank, found.path.clone(), reading);
                let duplicate = id.and_then(|id| index.duplicate(&id, rank, &found.path));
                if let Some((duplicate, effective)) = duplicate {
                    let (file, duplicate, effective) =
                        (found.path.display(), duplicate.display(), effective.display());
                    tracing::warn!(
                        "{file} and {duplicate} have the same id; {effective} takes effect"
                    );
                }
            }
        }
        for broken in index.broken() {
            tracing::warn!("{}", broken.report());
        }
        Ok(library)
    }

    /// Returns the workflow with this id.
    pub fn find(&self, id: &str) -> Option<Arc<Workflow>> {
        self.index().find(id).map(|entry| entry.workflow.clone())
    }

    /// Returns the workflow with this id and its source.
    pub fn entry(&self, id: &str) -> Option<LibraryEntry> {
        self.index().find(id).cloned()
    }

    /// Returns the broken file listed under this id.
    pub fn find_broken(&self, id: &str) -> Option<Arc<BrokenFile>> {
        self.index().find_broken(id)
    }

    /// Returns all workflows, ordered by id.
    pub fn entries(&self) -> Vec<LibraryEntry> {
        self.index().entries().cloned().collect()
    }

    /// Visits every workflow, ordered by id.
    pub(crate) fn for_each(&self, mut see: impl FnMut(&LibraryEntry)) {
        self.index().entries().for_each(&mut see);
    }

    /// Returns all broken files.
    pub fn broken(&self) -> Vec<Arc<BrokenFile>> {
        self.index().broken().cloned().collect()
    }

    /// Returns the most similar id, if one is close enough.
    pub fn nearest(&self, id: &str) -> Option<Box<str>> {
        let index = self.index();
        nearest(id, index.entries().map(|entry| &*entry.workflow.id)).map(Into::into)
    }

    /// Reads one file again, which may be new or removed.
    pub fn reload(&self, path: &Path) -> LibraryChanges {
        let place =
            self.inner.directories.iter().enumerate().rev().find_map(|(index, directory)| {
                path.starts_with(&directory.path).then_some((index + 1, directory))
            });
        let Some((rank, directory)) = place else { return LibraryChanges::default() };
        let found = find_file(path, &directory.path);
        let reading = found.as_ref().map(|found| files::read(found, &directory.path));
        if let Some(reading) = &reading {
            log_warnings(path, reading);
            if let Some(problem) = reading.first_error() {
                tracing::warn!("{}: {problem}", path.display());
            }
        }
        let mut index = self.inner.index.write();
        match (found, reading) {
            (Some(FoundFile { path, .. }), Some(reading)) => {
                index.insert(directory.origin, rank, path, reading)
            }
            _ => index.remove(path),
        }
    }

    /// Reads all files again, for when it is unknown which have changed.
    pub fn reload_all(&self) -> LibraryChanges {
        let mut changes = LibraryChanges::default();
        let known = self.index().paths();
        let mut paths: Vec<PathBuf> = known.iter().map(|path| path.to_path_buf()).collect();
        for directory in &self.inner.directories {
            let found = find_files(&directory.path).unwrap_or_default();
            paths.extend(found.into_iter().map(|found| found.path.to_path_buf()));
        }
        paths.sort();
        paths.dedup();
        for path in paths {
            let LibraryChanges { listed, content } = self.reload(&path);
            changes.listed.extend(listed);
            changes.content.extend(content);
        }
        changes
    }

    /// Reads files again when they change and calls `tell` with the changes, until the result is
    /// dropped.
    pub fn watch(
        &self,
        tell: impl Fn(LibraryChanges) + Send + 'static,
    ) -> Result<LibraryWatcher, String> {
        LibraryWatcher::start(self.clone(), tell)
    }

    /// Directories to search.
    pub(crate) fn directories(&self) -> impl Iterator<Item = &Path> {
        self.inner.directories.iter().map(|directory| directory.path.as_path())
    }

    fn index(&self) -> RwLockReadGuard<'_, Index> {
        self.inner.index.read()
    }
}

/// Logs the warnings of a usable file.
fn log_warnings(path: &Path, reading: &Reading) {
    if reading.workflow.is_some() {
        for problem in &reading.problems {
            tracing::warn!("{}: {problem}", path.display());
        }
    }
}

/// A directory that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("the workflows in {} cannot be read", path.display())]
pub struct UnreadableDirectory {
    /// The directory.
    pub path: PathBuf,
    /// Cause.
    pub source: std::io::Error,
}

/// Returns the problems of one file, for authors.
pub fn check_file(path: &Path) -> std::io::Result<Vec<Problem>> {
    files::check(path)
}

/// Returns the workflow files of a directory, sorted.
pub fn files_in(directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    let found = find_files(directory)?;
    let mut paths: Vec<_> = found.into_iter().map(|found| found.path.to_path_buf()).collect();
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests;
