//! All skills of a server, and the tree of their files.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mcp_flow_proto::model::{Description, ResourceDefinition};
use mcp_flow_workflow::{Library, Workflow};
use parking_lot::{Mutex, RwLock};

use crate::directory::{self, BadDirectory};
use crate::skill::{Skill, SkillError, SkillFile};
use crate::uri;
use crate::workflows::skill_of;

/// The skills a server is to serve: from memory, directories and a workflow library.
///
/// ```
/// use mcp_flow_server::Server;
/// use mcp_flow_skills::{ServeSkills, Skill, Skills};
///
/// let text = "---\nname: greet\ndescription: Greets people\n---\nSay hello.\n";
/// let skills = Skills::new().skill(Skill::new("greet", [("SKILL.md", text)]).unwrap());
/// let server = Server::builder("greeter", "1.0.0").skills(skills).build().unwrap();
/// ```
#[derive(Debug, Default)]
#[must_use]
pub struct Skills {
    memory: Vec<Skill>,
    directories: Vec<PathBuf>,
    library: Option<Library>,
}

impl Skills {
    /// Starts without any skill.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a skill that is in memory.
    pub fn skill(mut self, skill: Skill) -> Self {
        self.memory.push(skill);
        self
    }

    /// Adds every skill in a directory: each subdirectory with a `SKILL.md`, also below others,
    /// whose names become the prefix of its path. Changes are taken up while the server runs.
    ///
    /// A skill that cannot be served is left out with a warning in the log. Only a directory that
    /// cannot be read at all is an error.
    pub fn directory(mut self, path: impl AsRef<Path>) -> Result<Self, BadDirectory> {
        let path = path.as_ref();
        let bad = |source| BadDirectory { path: path.to_owned(), source };
        let path = path.canonicalize().map_err(bad)?;
        std::fs::read_dir(&path).map_err(bad)?;
        self.directories.push(path);
        Ok(self)
    }

    /// Publishes every workflow of a library, at `skill://workflows/ID/SKILL.md`. The library
    /// follows its own files.
    pub fn workflows(mut self, library: Library) -> Self {
        self.library = Some(library);
        self
    }

    /// Returns whether there is no source of skills at all.
    pub fn is_empty(&self) -> bool {
        self.memory.is_empty() && self.directories.is_empty() && self.library.is_none()
    }
}

/// A skill that is not served.
#[derive(Debug)]
pub struct LeftOut {
    /// Its directory, or its URI.
    pub place: String,
    /// The reason, with advice.
    pub error: SkillError,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "the skill {} is skipped: {}", self.place, self.error)
    }
}

/// The skills of a running server.
pub(crate) struct Catalog {
    sources: Skills,
    current: RwLock<Arc<Snapshot>>,
    /// Serializes updates, so that no snapshot is built from an outdated one.
    update: Mutex<()>,
}

impl Catalog {
    /// Reads all skills. Blocks for as long as the file system does.
    pub(crate) fn open(sources: Skills) -> Self {
        let snapshot = Snapshot::read(&sources);
        Self { sources, current: RwLock::new(Arc::new(snapshot)), update: Mutex::new(()) }
    }

    /// Returns all skills as they are now. What is in directories is as it was read last; workflows
    /// are those the library has.
    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        let current = self.current();
        if is_same(&self.sources.workflow_list(), &current.workflows) {
            return current;
        }
        let _update = self.update.lock();
        let stored = self.current().stored.clone();
        self.replace(Snapshot::build(stored, self.sources.workflow_list()))
    }

    /// Reads the directories again, and returns what was there before and what is there now.
    pub(crate) fn reload(&self) -> (Arc<Snapshot>, Arc<Snapshot>) {
        let _update = self.update.lock();
        let before = self.current();
        let now = self.replace(Snapshot::read(&self.sources));
        (before, now)
    }

    pub(crate) fn directories(&self) -> &[PathBuf] {
        &self.sources.directories
    }

    fn current(&self) -> Arc<Snapshot> {
        self.current.read().clone()
    }

    fn replace(&self, snapshot: Snapshot) -> Arc<Snapshot> {
        let snapshot = Arc::new(snapshot);
        *self.current.write() = snapshot.clone();
        snapshot
    }
}

impl Skills {
    fn workflow_list(&self) -> Vec<Arc<Workflow>> {
        let entries = self.library.as_ref().map(Library::entries).unwrap_or_default();
        entries.into_iter().map(|entry| entry.workflow).collect()
    }
}

fn is_same(one: &[Arc<Workflow>], other: &[Arc<Workflow>]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| Arc::ptr_eq(one, other))
}

/// All skills at one moment.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    /// In the order of their URIs.
    pub(crate) skills: Vec<Arc<Skill>>,
    /// Files and directories by their URIs.
    nodes: BTreeMap<String, Node>,
    /// The skills from memory and directories.
    stored: Vec<Arc<Skill>>,
    /// The workflows that the others were made of.
    workflows: Vec<Arc<Workflow>>,
}

/// A file or directory, found by its URI.
#[derive(Debug)]
pub(crate) enum Node {
    File(File),
    Directory(Directory),
}

#[derive(Debug)]
pub(crate) struct File {
    skill: Arc<Skill>,
    index: usize,
}

impl File {
    pub(crate) fn file(&self) -> &SkillFile {
        &self.skill.files()[self.index]
    }

    /// Describes the file; a `SKILL.md` by its frontmatter.
    pub(crate) fn definition(&self) -> ResourceDefinition {
        let file = self.file();
        let entry = self.skill.entry();
        let (name, text) = match file.uri == entry.uri {
            true => (entry.name(), Some(entry.description().to_owned())),
            false => (file.name(), None),
        };
        ResourceDefinition {
            uri: file.uri.clone(),
            description: Description {
                name: name.to_owned(),
                text,
                mime_type: file.mime_type().map(str::to_owned),
                ..Description::default()
            },
            size: Some(file.bytes.len() as u64),
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Directory {
    name: String,
    /// The URIs of its direct children, in order.
    pub(crate) children: Vec<String>,
}

impl Snapshot {
    fn read(sources: &Skills) -> Self {
        let mut stored: Vec<Arc<Skill>> = Vec::new();
        for skill in &sources.memory {
            add(&mut stored, vec![skill.clone()]);
        }
        for path in &sources.directories {
            match directory::read(path) {
                Ok(found) => {
                    found.left_out.iter().for_each(|left_out| tracing::warn!("{left_out}"));
                    add(&mut stored, found.skills);
                }
                Err(error) => tracing::warn!("{error}: {}", error.source),
            }
        }
        Self::build(stored, sources.workflow_list())
    }

    fn build(stored: Vec<Arc<Skill>>, workflows: Vec<Arc<Workflow>>) -> Self {
        let mut published = Vec::new();
        for workflow in &workflows {
            match skill_of(workflow) {
                Ok(skill) => published.push(skill),
                Err(error) => {
                    let place = format!("of the workflow `{}`", workflow.id);
                    tracing::warn!("{}", LeftOut { place, error });
                }
            }
        }
        let mut skills = stored.clone();
        add(&mut skills, published);
        skills.sort_by(|one, other| one.entry().uri.cmp(&other.entry().uri));
        let nodes = tree(&skills);
        Self { skills, nodes, stored, workflows }
    }

    /// Finds a skill by the URI of its `SKILL.md`.
    pub(crate) fn find(&self, uri: &str) -> Option<&Arc<Skill>> {
        let index = self.skills.binary_search_by(|skill| skill.entry().uri.as_str().cmp(uri));
        index.ok().map(|index| &self.skills[index])
    }

    pub(crate) fn node(&self, uri: &str) -> Option<&Node> {
        self.nodes.get(uri)
    }

    /// Describes what a directory has at a URI.
    pub(crate) fn definition(&self, uri: &str) -> Option<ResourceDefinition> {
        Some(match self.node(uri)? {
            Node::File(file) => file.definition(),
            Node::Directory(directory) => ResourceDefinition {
                uri: uri.to_owned(),
                description: Description {
                    name: directory.name.clone(),
                    mime_type: Some("inode/directory".to_owned()),
                    ..Description::default()
                },
                size: None,
            },
        })
    }

    /// Returns all files by their URIs.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&str, &SkillFile)> {
        self.nodes.iter().filter_map(|(uri, node)| match node {
            Node::File(file) => Some((uri.as_str(), file.file())),
            Node::Directory(_) => None,
        })
    }

    /// Returns the URIs of all files below a directory.
    pub(crate) fn files_below(&self, directory: &str) -> impl Iterator<Item = &str> {
        let inside = format!("{directory}/");
        let nodes = self.nodes.range(inside.clone()..);
        let nodes = nodes.take_while(move |(uri, _)| uri.starts_with(&inside));
        nodes.filter(|(_, node)| matches!(node, Node::File(_))).map(|(uri, _)| uri.as_str())
    }
}

/// Adds the skills of one source. None of them may be at, in or around a skill of a source before
/// it: the manifest of that would not be complete any more.
fn add(skills: &mut Vec<Arc<Skill>>, source: Vec<Skill>) {
    let before = skills.len();
    for skill in source {
        let collides = |other: &&Arc<Skill>| {
            is_within(skill.path(), other.path()) || is_within(other.path(), skill.path())
        };
        let error = match skills[..before].iter().find(collides) {
            Some(other) => Some(SkillError::Taken(other.entry().uri.clone())),
            None => (skills.len() >= MAX_SKILLS).then_some(SkillError::NoRoom),
        };
        match error {
            Some(error) => {
                let place = skill.entry().uri.clone();
                tracing::warn!("{}", LeftOut { place, error });
            }
            None => skills.push(Arc::new(skill)),
        }
    }
}

fn is_within(path: &str, directory: &str) -> bool {
    let rest = path.strip_prefix(directory);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Indexes all files and the directories above them.
fn tree(skills: &[Arc<Skill>]) -> BTreeMap<String, Node> {
    let mut nodes = BTreeMap::new();
    // A file of a nested skill is known by that one, which has its description.
    let mut nearest: Vec<_> = skills.iter().collect();
    nearest.sort_by_key(|skill| std::cmp::Reverse(skill.path().len()));
    for skill in nearest {
        for (index, file) in skill.files().iter().enumerate() {
            if nodes.contains_key(&file.uri) {
                continue;
            }
            let mut child = file.uri.clone();
            nodes.insert(child.clone(), Node::File(File { skill: skill.clone(), index }));
            for (place, _) in file.path.match_indices('/').collect::<Vec<_>>().into_iter().rev() {
                let path = &file.path[..place];
                let directory = nodes.entry(uri::of_path(path)).or_insert_with(|| {
                    let name = path.rsplit('/').next().unwrap_or(path).to_owned();
                    Node::Directory(Directory { name, children: Vec::new() })
                });
                let Node::Directory(directory) = directory else { break };
                directory.children.push(std::mem::replace(&mut child, uri::of_path(path)));
            }
        }
    }
    for node in nodes.values_mut() {
        if let Node::Directory(directory) = node {
            directory.children.sort();
            directory.children.dedup();
        }
    }
    nodes
}

/// Returns whether a URI may be that of a skill's file.
pub(crate) fn claims(uri: &str) -> bool {
    uri.starts_with(uri::SCHEME)
}

/// Skills of a server at most.
const MAX_SKILLS: usize = 1000;

#[cfg(test)]
mod tests {
    use super::{Catalog, Node, Skills};
    use crate::skill::Skill;
    use mcp_flow_workflow::Library;

    fn skill(path: &str, more: &[&str]) -> Skill {
        let name = path.rsplit('/').next().unwrap();
        let text = format!("---\nname: {name}\ndescription: About {name}\n---\n");
        let more = more.iter().map(|path| ((*path).to_owned(), "x".to_owned()));
        Skill::new(path, [("SKILL.md".to_owned(), text)].into_iter().chain(more)).unwrap()
    }

    #[test]
    fn directories_have_their_direct_children() {
        let skills = Skills::new()
            .skill(skill("acme/refunds", &["a/b/c.md", "a/d.md", "e f.md"]))
            .skill(skill("acme/billing", &[]));
        let snapshot = Catalog::open(skills).snapshot();
        for (uri, children) in [
            ("skill://acme", vec!["skill://acme/billing", "skill://acme/refunds"]),
            (
                "skill://acme/refunds",
                vec![
                    "skill://acme/refunds/SKILL.md",
                    "skill://acme/refunds/a",
                    "skill://acme/refunds/e%20f.md",
                ],
            ),
            (
                "skill://acme/refunds/a",
                vec!["skill://acme/refunds/a/b", "skill://acme/refunds/a/d.md"],
            ),
            ("skill://acme/refunds/a/b", vec!["skill://acme/refunds/a/b/c.md"]),
        ] {
            let Some(Node::Directory(directory)) = snapshot.node(uri) else { panic!("{uri}") };
            assert_eq!(directory.children, children, "{uri}");
        }
        for uri in ["skill://", "skill://acme/", "skill://acme/refunds/a/", "skill://x"] {
            assert!(snapshot.node(uri).is_none(), "{uri}");
        }
    }

    #[test]
    fn no_skill_hides_another() {
        let skills = Skills::new()
            .skill(skill("a/b", &["c"]))
            .skill(skill("a/b", &[]))
            .skill(skill("a/b/c", &[]))
            .skill(skill("a", &[]))
            .skill(skill("a/bc", &[]))
            .skill(skill("workflows/code-review", &["mine"]))
            .workflows(Library::bundled());
        let snapshot = Catalog::open(skills).snapshot();
        let uris: Vec<_> = snapshot.skills.iter().map(|skill| skill.entry().uri.as_str()).collect();
        assert_eq!(uris[..2], ["skill://a/b/SKILL.md", "skill://a/bc/SKILL.md"]);
        assert_eq!(uris.len(), 2 + Library::bundled().entries().len());
        assert!(snapshot.node("skill://workflows/code-review/mine").is_some());
    }
}
