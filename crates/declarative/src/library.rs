//! Library of tool files: reading, checking, serving and reloading them.

mod apply;
mod call;
mod cycles;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use mcp_flow_engine::Definition;
use mcp_flow_http_client::Trust;
use mcp_flow_interaction::Interaction;
use mcp_flow_server::{Server, WeakServer};
use mcp_flow_session::event::StepOutcome;
use mcp_flow_session::{JournalEvent, SessionId};
use mcp_flow_workflow::document::{
    ChangedFiles, FolderWatcher, Format, FoundFile, Problem, Severity, find_file, find_files,
    read_each,
};
use parking_lot::Mutex;

use crate::flow::{self, RecordedFlow};
use crate::http::HttpClients;
use crate::model::{Action, DeclaredTool, ToolFile, alias};
use crate::read::{ToolReading, problems_of_tools};
use crate::sandbox::Launcher;

pub use apply::UnsupportedSandbox;
pub(crate) use call::Caller;
use cycles::{called_tools, find_cycles};

/// Tool files in directories, and the tools they declare. A handle; clones share one library.
#[derive(Clone, Debug)]
pub struct ToolLibrary {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// Directories and files to read, canonical.
    paths: Vec<PathBuf>,
    launcher: Option<Launcher>,
    http: HttpClients,
    state: Mutex<State>,
    attached: OnceLock<Attached>,
    /// Tools that the server has, by name.
    registered: Mutex<BTreeMap<Box<str>, Arc<DeclaredTool>>>,
    /// Set if clients may call internal tools.
    serves_internal: bool,
    /// Sessions that wait with a call which is left to their server; `None` if calls are made here.
    left_to_server: Option<Mutex<HashSet<SessionId>>>,
}

#[derive(Debug, Default)]
struct State {
    files: BTreeMap<Arc<Path>, LoadedFile>,
    /// Tools in effect, by name.
    tools: BTreeMap<Box<str>, Effective>,
}

/// A file and its last good version.
#[derive(Debug)]
struct LoadedFile {
    good: Option<Arc<ToolFile>>,
    /// Problems of its present text.
    problems: Vec<Problem>,
    /// Problems of its tools on this system, and with those of other files.
    unavailable: Vec<Problem>,
}

/// A tool in effect.
#[derive(Clone, Debug)]
struct Effective {
    tool: Arc<DeclaredTool>,
    path: Arc<Path>,
    hash: Arc<str>,
}

/// The server that has the tools.
#[derive(Debug)]
struct Attached {
    server: WeakServer,
    interaction: Interaction,
}

/// State of one tool file, for people.
#[derive(Debug)]
pub struct ToolFileStatus {
    /// Path of the file.
    pub path: Arc<Path>,
    /// Names and kinds of its tools that are served.
    pub tools: Vec<(String, &'static str)>,
    /// Problems of the file. If there are errors, its tools are those of its last good version.
    pub problems: Vec<Problem>,
    /// Set if the tools are those of an earlier version.
    pub is_outdated: bool,
}

/// A directory or file that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("the tools in {} cannot be read: {source}", path.display())]
pub struct UnreadableTools {
    path: PathBuf,
    source: std::io::Error,
}

impl ToolLibrary {
    /// Reads the files in directories, and files by themselves. Broken files are kept with their
    /// problems; a path that cannot be read is an error.
    pub fn open(
        paths: impl IntoIterator<Item = PathBuf>,
        launcher: Option<Launcher>,
        trust: Trust,
    ) -> Result<Self, UnreadableTools> {
        let mut canonical = Vec::new();
        let mut found = Vec::new();
        for path in paths {
            let bad = |source| UnreadableTools { path: path.clone(), source };
            let path = path.canonicalize().map_err(bad)?;
            match path.is_dir() {
                true => found.extend(find_files(&path).map_err(bad)?),
                false => found.push(FoundFile::named(&path)),
            }
            canonical.push(path);
        }
        let readings = read_each(&found, &|found| ToolReading::of_file(found));
        let mut state = State::default();
        for (found, reading) in found.into_iter().zip(readings) {
            let reading = reading.unwrap_or_else(|| ToolReading::failed(BUG));
            state.insert(found.path, reading);
        }
        let inner = Inner {
            paths: canonical,
            launcher,
            http: HttpClients::new(trust),
            state: Mutex::new(state),
            ..Inner::default()
        };
        let library = Self { inner: Arc::new(inner) };
        library.update();
        Ok(library)
    }

    /// Serves internal tools as well, to try them. Has no effect once the library is shared.
    pub fn serve_internal(mut self) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.inner) {
            inner.serves_internal = true;
        }
        self
    }

    /// Creates a library without files, for the sessions of an offline store. Their flows continue as
    /// their journals recorded them, up to the next call of a tool: its program, its secrets and its
    /// sandbox are those of the server, which makes the call when it runs again.
    pub fn offline() -> Self {
        let inner = Inner { left_to_server: Some(Mutex::default()), ..Inner::default() };
        Self { inner: Arc::new(inner) }
    }

    /// Returns whether a session waits with a call that is left to its server.
    pub fn is_left_to_server(&self, session: SessionId) -> bool {
        let left = self.inner.left_to_server.as_ref();
        left.is_some_and(|sessions| sessions.lock().contains(&session))
    }

    /// Waits forever if calls are left to the server of a session.
    pub(crate) async fn leave_to_server(&self, session: SessionId) {
        if let Some(sessions) = &self.inner.left_to_server {
            sessions.lock().insert(session);
            std::future::pending::<()>().await;
        }
    }

    /// Serves the tools, now and after each change of the files. Flows run on the engine of
    /// `interaction`, which must be that of the server.
    pub fn attach(&self, server: &Server, interaction: &Interaction) {
        let attached = Attached { server: server.downgrade(), interaction: interaction.clone() };
        if self.inner.attached.set(attached).is_ok() {
            self.register_all();
        }
        self.log_problems();
    }

    /// Reads files again when they change, until the result is dropped.
    pub fn watch(&self) -> Result<FolderWatcher, String> {
        let library = self.clone();
        // The directory of a single file is watched: editors replace files.
        let paths: Vec<PathBuf> = self.inner.paths.iter().map(|path| folder_of(path)).collect();
        FolderWatcher::start("tool-watch", paths.iter().map(PathBuf::as_path), move |changed| {
            library.reload(&changed);
        })
    }

    /// Returns the state of every file, in the order of their paths.
    pub fn files(&self) -> Vec<ToolFileStatus> {
        let state = self.inner.state.lock();
        let mut served: HashMap<&Path, Vec<(String, &'static str)>> = HashMap::new();
        for Effective { tool, path, .. } in state.tools.values() {
            served.entry(&**path).or_default().push((tool.name.to_string(), tool.kind()));
        }
        let files = state.files.iter().map(|(path, file)| ToolFileStatus {
            path: path.clone(),
            tools: served.remove(&**path).unwrap_or_default(),
            problems: file.problems.iter().chain(&file.unavailable).cloned().collect(),
            is_outdated: file.good.is_some() && file.problems.iter().any(Problem::is_error),
        });
        files.collect()
    }

    /// Returns the number of tools in effect.
    pub fn len(&self) -> usize {
        self.inner.state.lock().tools.len()
    }

    /// Returns whether there are no tools.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Defines the flow of a session whose file is gone, by what its journal recorded.
    pub fn recorded_definition(&self, name: &str, events: &[JournalEvent]) -> Option<Definition> {
        let is_record = |event: &&JournalEvent| {
            matches!(event, JournalEvent::StepDone { key, outcome: StepOutcome::Ok(_), .. }
                if key == flow::RECORD)
        };
        let Some(JournalEvent::StepDone { outcome: StepOutcome::Ok(recorded), .. }) =
            events.iter().find(is_record)
        else {
            return None;
        };
        let recorded: RecordedFlow = serde_json::from_value(recorded.clone()).ok()?;
        let tool = crate::read::read_stored(&recorded.tool, &recorded.folder)?;
        (*tool.name == *name).then(|| flow::offer(self, &tool).into_definition())
    }

    /// Returns what a session of a flow records.
    pub(crate) fn recorded_flow(&self, name: &str) -> Result<RecordedFlow, String> {
        let state = self.inner.state.lock();
        let found = state.find(name);
        let found = found.ok_or_else(|| format!("there is no flow {name} any more"))?;
        let file = state.files.get(&found.path).and_then(|file| file.good.as_ref());
        let called = file.map_or_else(Vec::new, |file| called_tools(&found.tool, &file.tools));
        Ok(RecordedFlow {
            hash: found.hash.to_string(),
            folder: folder_of(&found.path),
            tool: found.tool.source.clone(),
            called: called.into_iter().map(|tool| tool.source.clone()).collect(),
        })
    }

    /// Returns whether a tool is a flow of a file.
    pub(crate) fn is_flow(&self, name: &str) -> bool {
        let state = self.inner.state.lock();
        state.find(name).is_some_and(|one| matches!(one.tool.action, Action::Flow(_)))
    }

    fn find(&self, name: &str) -> Option<Arc<DeclaredTool>> {
        self.inner.state.lock().find(name).map(|one| one.tool.clone())
    }

    /// Reads changed files again, and serves what they declare now.
    fn reload(&self, changed: &ChangedFiles) {
        let paths: Vec<PathBuf> = match changed.everything {
            true => self.all_paths(),
            false => changed.paths.iter().cloned().collect(),
        };
        let mut has_changed = false;
        for path in paths {
            let Some(found) = self.found(&path) else {
                has_changed |= self.inner.state.lock().files.remove(&*path).is_some();
                continue;
            };
            let reading = std::panic::catch_unwind(|| ToolReading::of_file(&found));
            let reading = reading.unwrap_or_else(|_| ToolReading::failed(BUG));
            for problem in &reading.problems {
                tracing::warn!("{}: {problem}", path.display());
            }
            has_changed |= self.inner.state.lock().insert(found.path.clone(), reading);
        }
        if has_changed {
            let before = self.unavailable();
            self.update();
            self.register_all();
            for (path, message) in self.unavailable().difference(&before) {
                tracing::warn!("{}: {message}", path.display());
            }
        }
    }

    /// Returns the problems of tools that are not served, without their positions, which change.
    fn unavailable(&self) -> BTreeSet<(Arc<Path>, String)> {
        let state = self.inner.state.lock();
        let problems = state.files.iter().flat_map(|(path, file)| {
            file.unavailable.iter().map(|one| (path.clone(), one.message.clone()))
        });
        problems.collect()
    }

    /// Returns the file at a path, if it exists and belongs to the library.
    fn found(&self, path: &Path) -> Option<FoundFile> {
        let root = self.inner.paths.iter().find(|root| path.starts_with(root))?;
        match root.is_dir() {
            true => find_file(path, root),
            false => path.is_file().then(|| FoundFile::named(path)),
        }
    }

    fn all_paths(&self) -> Vec<PathBuf> {
        let known = self.inner.state.lock().files.keys().map(|path| path.to_path_buf()).collect();
        let mut paths: Vec<PathBuf> = known;
        for root in &self.inner.paths {
            let found = find_files(root).unwrap_or_default();
            paths.extend(found.into_iter().map(|found| found.path.to_path_buf()));
        }
        paths.sort();
        paths.dedup();
        paths
    }

    fn log_problems(&self) {
        for file in self.files() {
            for problem in &file.problems {
                tracing::warn!("{}: {problem}", file.path.display());
            }
        }
    }
}

impl State {
    /// Finds a tool in effect by its name, or by the name with underscores for dots.
    fn find(&self, name: &str) -> Option<&Effective> {
        let by_alias = || self.tools.values().find(|one| alias(&one.tool.name) == alias(name));
        self.tools.get(name).or_else(by_alias)
    }

    /// Replaces a file. A broken one keeps its last good version. Returns whether its tools may have
    /// changed.
    fn insert(&mut self, path: Arc<Path>, reading: ToolReading) -> bool {
        let ToolReading { file, problems } = reading;
        let before = self.files.remove(&path);
        let is_good = file.is_some();
        let earlier = before.and_then(|before| before.good);
        let good = file.map(Arc::new).or(earlier);
        self.files.insert(path, LoadedFile { good, problems, unavailable: Vec::new() });
        is_good
    }
}

/// Returns all problems of files, for authors: those of the files, and what is missing on this
/// system as warnings.
pub fn check_tool_files(
    paths: &[PathBuf],
    launcher: Option<&Launcher>,
) -> Vec<(PathBuf, Vec<Problem>)> {
    let mut results: Vec<(PathBuf, Vec<Problem>)> = Vec::new();
    let mut files = Vec::new();
    for path in paths {
        let reading = match path.metadata() {
            Ok(_) => ToolReading::of_file(&FoundFile::named(path)),
            Err(error) => ToolReading::failed(error.to_string()),
        };
        let mut problems = reading.problems;
        if let Some(file) = reading.file {
            let missing = file.tools.iter().filter_map(|tool| {
                let message = apply::check_system(tool, launcher).err()?;
                Some((tool.name.clone(), format!("{}: {message}", tool.name)))
            });
            let missing = missing.collect();
            problems.extend(problems_of_tools(path, &file, Severity::Warning, missing));
            files.push((results.len(), file));
        }
        results.push((path.clone(), problems));
    }
    // The first file keeps a name, as on the server.
    let mut names: HashSet<String> = HashSet::new();
    for (at, file) in &files {
        let is_taken = |tool: &&Arc<DeclaredTool>| names.contains(&alias(&tool.name));
        let taken = file.tools.iter().filter(is_taken);
        let messages =
            taken.map(|tool| (tool.name.clone(), format!("{}: {DUPLICATE}", tool.name))).collect();
        let (path, problems) = &mut results[*at];
        problems.extend(problems_of_tools(path, file, Severity::Error, messages));
        names.extend(file.tools.iter().map(|tool| alias(&tool.name)));
    }
    let tools = files.iter().flat_map(|(_, file)| &file.tools);
    let cycles = find_cycles(tools.map(|tool| &**tool));
    for (at, file) in &files {
        let is_here = |cycle: &&Vec<&str>| file.tools.iter().any(|tool| *tool.name == *cycle[0]);
        let messages = cycles.iter().filter(is_here);
        let messages = messages.map(|cycle| (cycle[0].into(), cycles::describe(cycle)));
        let (path, problems) = &mut results[*at];
        problems.extend(problems_of_tools(path, file, Severity::Error, messages.collect()));
    }
    results
}

/// Returns the tool files that a path names: itself, or those in the directory.
pub fn tool_files_in(path: &Path) -> std::io::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let found = find_files(path)?;
    let mut paths: Vec<_> = found.into_iter().map(|found| found.path.to_path_buf()).collect();
    paths.retain(|path| Format::of(path).is_some());
    paths.sort();
    Ok(paths)
}

/// Returns a directory itself, or the directory of a file.
fn folder_of(path: &Path) -> PathBuf {
    match path.is_dir() {
        true => path.to_owned(),
        false => path.parent().unwrap_or(Path::new(".")).to_owned(),
    }
}

const DUPLICATE: &str = "another file declares a tool of this name; rename one of them";

const BUG: &str = "the file cannot be read; please report this";
