//! What is known of files, by path and by id.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

use super::{Changes, Entry, Origin};
use crate::problem::Problem;
use crate::read::{Reading, is_identifier};

/// A file that cannot be used.
#[derive(Debug)]
pub struct Broken {
    /// Which.
    pub path: Arc<Path>,
    /// What is wrong with it.
    pub problems: Vec<Problem>,
    /// By what it is known.
    ids: Vec<Box<str>>,
}

impl Broken {
    /// Its name, without the directory.
    pub fn file_name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// The first thing that is wrong, with its place.
    pub fn reason(&self) -> String {
        let first = self.problems.iter().find(|problem| problem.is_error());
        let first = first.or(self.problems.first());
        first.map_or_else(String::new, |problem| format!("{}, {problem}", self.file_name()))
    }

    /// All that is wrong, for people.
    pub fn report(&self) -> String {
        let all: Vec<_> = self.problems.iter().map(ToString::to_string).collect();
        format!("{} is left out: {}", self.path.display(), all.join("; "))
    }
}

/// Workflows of one id, by the order of their directories and then by path.
type ByRank = BTreeMap<(usize, Arc<Path>), Entry>;

/// Workflows and broken files.
#[derive(Debug, Default)]
pub(super) struct Shelf {
    /// By id; the last of each counts.
    good: BTreeMap<Box<str>, ByRank>,
    broken: HashMap<Box<str>, BTreeMap<Arc<Path>, Arc<Broken>>>,
    files: HashMap<Arc<Path>, Known>,
}

/// What is known of a file.
#[derive(Debug)]
enum Known {
    Good { id: Box<str>, rank: usize },
    Broken(Arc<Broken>),
}

/// Which workflow of an id counted before something was changed.
#[derive(Debug)]
struct Before {
    id: Box<str>,
    entry: Option<Entry>,
}

impl Shelf {
    pub(super) fn find(&self, id: &str) -> Option<&Entry> {
        self.good.get(id).and_then(|entries| entries.values().next_back())
    }

    pub(super) fn find_broken(&self, id: &str) -> Option<Arc<Broken>> {
        self.broken.get(id).and_then(|files| files.values().next_back()).cloned()
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.good.values().filter_map(|entries| entries.values().next_back())
    }

    pub(super) fn broken(&self) -> impl Iterator<Item = &Arc<Broken>> {
        self.files.values().filter_map(|known| match known {
            Known::Broken(broken) => Some(broken),
            Known::Good { .. } => None,
        })
    }

    /// Another file with the id of this one in the same directory, and that of both which counts.
    pub(super) fn twin(&self, id: &str, rank: usize, path: &Path) -> Option<(&Path, &Path)> {
        let here = || self.good.get(id).into_iter().flatten().filter(|((at, _), _)| *at == rank);
        let paths = || here().map(|((_, path), _)| &**path);
        Some((paths().find(|other| *other != path)?, paths().next_back()?))
    }

    pub(super) fn paths(&self) -> Vec<Arc<Path>> {
        self.files.keys().cloned().collect()
    }

    /// Notes what is in a file, instead of what was in it before.
    pub(super) fn put(
        &mut self,
        origin: Origin,
        rank: usize,
        path: Arc<Path>,
        reading: Reading,
    ) -> Changes {
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        let ids =
            [reading.id.as_deref(), stem].into_iter().flatten().filter(|id| is_identifier(id));
        let mut ids: Vec<Box<str>> = ids.map(Into::into).collect();
        ids.dedup();
        let before = self.taken_out(&path);
        let mut other = None;
        let known = match reading.workflow {
            Some(workflow) => {
                let id = workflow.id.clone();
                if before.as_ref().is_none_or(|one| one.id != id) {
                    let entry = self.find(&id).cloned();
                    other = Some(Before { id: id.clone(), entry });
                }
                let entry = Entry { workflow: Arc::new(workflow), origin, path: path.clone() };
                self.good.entry(id.clone()).or_default().insert((rank, path.clone()), entry);
                Known::Good { id, rank }
            }
            None => {
                let broken =
                    Arc::new(Broken { path: path.clone(), problems: reading.problems, ids });
                for id in &broken.ids {
                    let files = self.broken.entry(id.clone()).or_default();
                    files.insert(path.clone(), broken.clone());
                }
                Known::Broken(broken)
            }
        };
        self.files.insert(path, known);
        self.changes([before, other])
    }

    /// Forgets a file.
    pub(super) fn remove(&mut self, path: &Path) -> Changes {
        let before = self.taken_out(path);
        self.changes([before, None])
    }

    /// Takes out what was known of a file; tells which workflow counted before.
    fn taken_out(&mut self, path: &Path) -> Option<Before> {
        let (path, known) = self.files.remove_entry(path)?;
        match known {
            Known::Good { id, rank } => {
                let entry = self.find(&id).cloned();
                if let Some(entries) = self.good.get_mut(&id) {
                    entries.remove(&(rank, path));
                    if entries.is_empty() {
                        self.good.remove(&id);
                    }
                }
                Some(Before { id, entry })
            }
            Known::Broken(broken) => {
                for id in &broken.ids {
                    if let Some(files) = self.broken.get_mut(id) {
                        files.remove(&path);
                    }
                }
                None
            }
        }
    }

    /// What is another than before.
    fn changes(&self, before: [Option<Before>; 2]) -> Changes {
        let mut changes = Changes::default();
        for before in before.iter().flatten() {
            self.note_change(before, &mut changes);
        }
        changes
    }

    fn note_change(&self, Before { id, entry }: &Before, changes: &mut Changes) {
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
