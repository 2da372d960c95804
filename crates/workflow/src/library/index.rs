//! Index of workflow files, by path and by id.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

use super::{LibraryChanges, LibraryEntry, Origin};
use crate::problem::Problem;
use crate::read::{Reading, is_identifier};

/// A file without a usable workflow.
#[derive(Debug)]
pub struct BrokenFile {
    /// Path of the file.
    pub path: Arc<Path>,
    /// Problems found in it.
    pub problems: Vec<Problem>,
    /// Ids it is listed under.
    ids: Vec<Box<str>>,
}

impl BrokenFile {
    /// Returns the file name without its directory.
    pub fn file_name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Returns the first problem, with its position.
    pub fn reason(&self) -> String {
        let first = self.problems.iter().find(|problem| problem.is_error());
        let first = first.or(self.problems.first());
        first.map_or_else(String::new, |problem| format!("{}, {problem}", self.file_name()))
    }

    /// Returns all problems as text.
    pub fn report(&self) -> String {
        let all: Vec<_> = self.problems.iter().map(ToString::to_string).collect();
        format!("skipped {}: {}", self.path.display(), all.join("; "))
    }
}

/// Workflows with one id, by the rank of their directory and then by path.
type ByRank = BTreeMap<(usize, Arc<Path>), LibraryEntry>;

/// Index of workflows and broken files.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// Workflows by id; the last of each is in effect.
    workflows: BTreeMap<Box<str>, ByRank>,
    broken: HashMap<Box<str>, BTreeMap<Arc<Path>, Arc<BrokenFile>>>,
    files: HashMap<Arc<Path>, FileContent>,
}

/// Content of a file.
#[derive(Debug)]
enum FileContent {
    Workflow { id: Box<str>, rank: usize },
    Broken(Arc<BrokenFile>),
}

/// Workflow that was in effect for an id before a change.
#[derive(Debug)]
struct Before {
    id: Box<str>,
    entry: Option<LibraryEntry>,
}

impl Index {
    pub(super) fn find(&self, id: &str) -> Option<&LibraryEntry> {
        self.workflows.get(id).and_then(|entries| entries.values().next_back())
    }

    pub(super) fn find_broken(&self, id: &str) -> Option<Arc<BrokenFile>> {
        self.broken.get(id).and_then(|files| files.values().next_back()).cloned()
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = &LibraryEntry> {
        self.workflows.values().filter_map(|entries| entries.values().next_back())
    }

    pub(super) fn broken(&self) -> impl Iterator<Item = &Arc<BrokenFile>> {
        self.files.values().filter_map(|content| match content {
            FileContent::Broken(broken) => Some(broken),
            FileContent::Workflow { .. } => None,
        })
    }

    /// Another file with the same id in the same directory, and the one of the two in effect.
    pub(super) fn duplicate(&self, id: &str, rank: usize, path: &Path) -> Option<(&Path, &Path)> {
        let here =
            || self.workflows.get(id).into_iter().flatten().filter(|((at, _), _)| *at == rank);
        let paths = || here().map(|((_, path), _)| &**path);
        Some((paths().find(|other| *other != path)?, paths().next_back()?))
    }

    pub(super) fn paths(&self) -> Vec<Arc<Path>> {
        self.files.keys().cloned().collect()
    }

    /// Replaces the content of a file.
    pub(super) fn insert(
        &mut self,
        origin: Origin,
        rank: usize,
        path: Arc<Path>,
        reading: Reading,
    ) -> LibraryChanges {
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        let ids =
            [reading.id.as_deref(), stem].into_iter().flatten().filter(|id| is_identifier(id));
        let mut ids: Vec<Box<str>> = ids.map(Into::into).collect();
        ids.dedup();
        let before = self.remove_file(&path);
        let mut other = None;
        let content = match reading.workflow {
            Some(workflow) => {
                let id = workflow.id.clone();
                if before.as_ref().is_none_or(|one| one.id != id) {
                    let entry = self.find(&id).cloned();
                    other = Some(Before { id: id.clone(), entry });
                }
                let entry =
                    LibraryEntry { workflow: Arc::new(workflow), origin, path: path.clone() };
                self.workflows.entry(id.clone()).or_default().insert((rank, path.clone()), entry);
                FileContent::Workflow { id, rank }
            }
            None => {
                let broken =
                    Arc::new(BrokenFile { path: path.clone(), problems: reading.problems, ids });
                for id in &broken.ids {
                    let files = self.broken.entry(id.clone()).or_default();
                    files.insert(path.clone(), broken.clone());
                }
                FileContent::Broken(broken)
            }
        };
        self.files.insert(path, content);
        self.changes([before, other])
    }

    /// Removes a file.
    pub(super) fn remove(&mut self, path: &Path) -> LibraryChanges {
        let before = self.remove_file(path);
        self.changes([before, None])
    }

    /// Removes a file from the index; returns the workflow that was in effect before.
    fn remove_file(&mut self, path: &Path) -> Option<Before> {
        let (path, content) = self.files.remove_entry(path)?;
        match content {
            FileContent::Workflow { id, rank } => {
                let entry = self.find(&id).cloned();
                if let Some(entries) = self.workflows.get_mut(&id) {
                    entries.remove(&(rank, path));
                    if entries.is_empty() {
                        self.workflows.remove(&id);
                    }
                }
                Some(Before { id, entry })
            }
            FileContent::Broken(broken) => {
                for id in &broken.ids {
                    if let Some(files) = self.broken.get_mut(id) {
                        files.remove(&path);
                    }
                }
                None
            }
        }
    }

    /// Compares the index with the state before.
    fn changes(&self, before: [Option<Before>; 2]) -> LibraryChanges {
        let mut changes = LibraryChanges::default();
        for before in before.iter().flatten() {
            self.note_change(before, &mut changes);
        }
        changes
    }

    fn note_change(&self, Before { id, entry }: &Before, changes: &mut LibraryChanges) {
        let (before, now) = (entry.as_ref(), self.find(id));
        let [before, now] = [before, now].map(|entry| entry.map(|entry| &entry.workflow));
        if before == now {
            return;
        }
        let listed = before.zip(now).is_none_or(|(before, now)| {
            (&before.name, &before.description) != (&now.name, &now.description)
        });
        if listed {
            changes.listed.push(id.clone());
        }
        changes.content.push(id.clone());
    }
}
