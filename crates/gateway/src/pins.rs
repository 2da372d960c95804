//! Pins: the approved definitions of upstreams' tools, and what was listed last.
//!
//! The tools of an upstream are pinned when it is first listed. A tool that is new or whose definition
//! has changed since is quarantined until somebody approves it: hidden, and not callable. Pins are
//! kept in a file, together with the other definitions that were listed last, which are served while
//! an upstream has not started yet.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use mcp_flow_proto::Revision;
use mcp_flow_proto::model::{
    PromptDefinition, ResourceDefinition, TemplateDefinition, ToolDefinition,
};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::definitions::Definitions;
use crate::difference::difference;
use crate::naming;

/// Pins of all upstreams, in a file or in memory.
#[derive(Debug)]
pub struct Pins {
    path: Option<PathBuf>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    kept: KeptFile,
    /// Time of the last change of the file that is known.
    modified: Option<SystemTime>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
struct KeptFile {
    #[serde(default)]
    servers: BTreeMap<String, KeptServer>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
struct KeptServer {
    /// Set once it was listed: tools that come later are new, even if there were none at first.
    #[serde(default)]
    was_listed: bool,
    /// By the upstream's name of the tool.
    #[serde(default)]
    tools: BTreeMap<String, Pin>,
    /// The upstream's names of tools, by those behind the gateway with prefix, where they differ.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    served: BTreeMap<String, String>,
    /// Names of the tools that were listed last, in their order.
    #[serde(default)]
    listed: Vec<String>,
    /// Tools of a server without pins, as they were listed last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    unpinned: Vec<Value>,
    #[serde(default)]
    prompts: Vec<Value>,
    #[serde(default)]
    resources: Vec<Value>,
    #[serde(default)]
    templates: Vec<Value>,
}

/// Pin of one tool.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[non_exhaustive]
pub struct Pin {
    /// The approved definition; `None` for a tool that was never approved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved: Option<Value>,
    /// The definition that waits for approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quarantined: Option<Value>,
}

/// Pin of one tool, with its names, as it is listed.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PinEntry {
    /// Name of the upstream.
    pub server: String,
    /// The upstream's name of the tool.
    pub tool: String,
    /// State of the pin.
    pub state: PinState,
    /// SHA-256 of the approved definition, in hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// SHA-256 of the definition that waits for approval, in hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quarantined: Option<String>,
    /// Difference between the approved definition and the one that waits, in lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub difference: Option<String>,
}

/// State of a pin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PinState {
    /// Approved, and unchanged since.
    Pinned,
    /// Changed since it was approved; quarantined.
    Changed,
    /// Never approved; quarantined.
    New,
}

/// Failure to approve a definition.
#[derive(Debug)]
#[non_exhaustive]
pub enum ApproveError {
    /// The definition is not the one that was shown any more. Look at it again.
    Changed(String),
    /// The file of pins cannot be written.
    Io(io::Error),
}

impl fmt::Display for ApproveError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Changed(name) => write!(
                formatter,
                "the definition of {name} has changed since it was shown, or was approved already; \
                 look at it again with `mcp-flow pins show {name}`"
            ),
            Self::Io(_) => formatter.write_str("cannot write the file of pins"),
        }
    }
}

impl std::error::Error for ApproveError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Changed(_) => None,
            Self::Io(cause) => Some(cause),
        }
    }
}

impl From<io::Error> for ApproveError {
    fn from(cause: io::Error) -> Self {
        Self::Io(cause)
    }
}

impl Pin {
    /// Returns the state.
    pub fn state(&self) -> PinState {
        match (&self.approved, &self.quarantined) {
            (_, None) => PinState::Pinned,
            (Some(_), Some(_)) => PinState::Changed,
            (None, Some(_)) => PinState::New,
        }
    }

    /// Returns the difference between the approved definition and the one that waits, in lines.
    pub fn difference(&self) -> String {
        let text = |definition: &Option<Value>| {
            let pinned = definition.as_ref().map(pinned_part);
            pinned.map_or_else(String::new, |part| format!("{part:#}"))
        };
        difference(&text(&self.approved), &text(&self.quarantined))
    }
}

impl Pins {
    /// Keeps pins in memory only.
    pub fn in_memory() -> Self {
        Self { path: None, state: Mutex::default() }
    }

    /// Opens the file of pins, which is created when there is something to keep.
    pub fn open(path: impl Into<PathBuf>) -> io::Result<Self> {
        let path = path.into();
        let (kept, modified) = read(&path)?;
        Ok(Self { path: Some(path), state: Mutex::new(State { kept, modified }) })
    }

    /// Lists the pins of all upstreams.
    pub fn list(&self) -> Vec<PinEntry> {
        let state = self.state.lock();
        let servers = state.kept.servers.iter();
        servers
            .flat_map(|(server, kept)| {
                kept.tools.iter().map(move |(tool, pin)| pin.entry(server, tool))
            })
            .collect()
    }

    /// Finds the pin of a tool by `NAME.tool`.
    pub fn find(&self, name: &str) -> Option<PinEntry> {
        let state = self.state.lock();
        let (server, tool) = locate(&state.kept, name)?;
        Some(state.kept.servers.get(&server)?.tools.get(&tool)?.entry(&server, &tool))
    }

    /// Approves the definition of a tool that waits for it, by `NAME.tool`: the one with this digest,
    /// if one is given. Returns the pin as it was before; `None` if there is no such tool.
    pub fn approve(
        &self,
        name: &str,
        shown: Option<&str>,
    ) -> Result<Option<PinEntry>, ApproveError> {
        let mut state = self.state.lock();
        self.read_again(&mut state);
        let Some((server, tool)) = locate(&state.kept, name) else { return Ok(None) };
        let kept = state.kept.servers.get_mut(&server);
        let Some(pin) = kept.and_then(|kept| kept.tools.get_mut(&tool)) else { return Ok(None) };
        let before = pin.entry(&server, &tool);
        if shown.is_some() && before.quarantined.as_deref() != shown {
            return Err(ApproveError::Changed(name.chars().take(200).collect()));
        }
        if let Some(definition) = pin.quarantined.take() {
            pin.approved = Some(definition);
            self.write(&mut state)?;
        }
        Ok(Some(before))
    }

    /// Takes over changes that another process made to the file. Returns whether there were any.
    pub(crate) fn reload(&self) -> bool {
        self.read_again(&mut self.state.lock())
    }

    /// Records what an upstream lists now. Returns the tools that may be served. `served_name` is the
    /// name of a tool behind the gateway.
    pub(crate) fn record(
        &self,
        server: &str,
        listed: &Definitions,
        served_name: impl Fn(&str) -> String,
    ) -> Vec<ToolDefinition> {
        let mut state = self.state.lock();
        self.read_again(&mut state);
        let kept = state.kept.servers.entry(server.to_owned()).or_default();
        let before = kept.clone();
        let is_first = !kept.was_listed && kept.tools.is_empty();
        kept.was_listed = true;
        kept.listed.clear();
        kept.served.clear();
        let (mut served, mut seen) = (Vec::new(), HashSet::new());
        for tool in &listed.tools {
            if !seen.insert(&tool.name) {
                continue;
            }
            kept.listed.push(tool.name.clone());
            let served_name = served_name(&tool.name);
            if own_part(server, &served_name) != Some(tool.name.as_str()) {
                kept.served.insert(served_name.clone(), tool.name.clone());
            }
            let definition = wire(tool);
            let pin = kept.tools.entry(tool.name.clone()).or_default();
            if pin.allows(&definition) || is_first {
                *pin = Pin { approved: Some(definition), quarantined: None };
                served.push(tool.clone());
            } else if pin.quarantined.as_ref() != Some(&definition) {
                let name = mcp_flow_client::sanitize::shorten(&tool.name, 128);
                tracing::warn!(
                    server,
                    "the definition of the tool {name:?} is new or has changed; it is quarantined \
                     until `mcp-flow pins approve {served_name}`"
                );
                pin.quarantined = Some(definition);
            }
        }
        // A tool that was never approved and is gone is forgotten, or random names would pile up.
        let KeptServer { tools, listed: names, .. } = &mut *kept;
        let names: HashSet<_> = names.iter().collect();
        tools.retain(|name, pin| pin.approved.is_some() || names.contains(name));
        kept.unpinned.clear();
        kept.set_others(listed);
        if *kept != before {
            self.write_or_log(&mut state, server);
        }
        served
    }

    /// Keeps what an upstream without pins lists now.
    pub(crate) fn remember(&self, server: &str, listed: &Definitions) {
        let mut state = self.state.lock();
        self.read_again(&mut state);
        let kept = state.kept.servers.entry(server.to_owned()).or_default();
        let before = kept.clone();
        kept.unpinned = listed.tools.iter().map(wire).collect();
        kept.set_others(listed);
        if *kept != before {
            self.write_or_log(&mut state, server);
        }
    }

    /// The definitions that an upstream listed last and that may be served, with or without pins; `None`
    /// if it was never listed.
    pub(crate) fn last_known(&self, server: &str, is_pinned: bool) -> Option<Definitions> {
        let state = self.state.lock();
        let kept = state.kept.servers.get(server)?;
        let pinned = kept.listed.iter().filter_map(|name| kept.tools.get(name));
        let pinned = pinned.filter(|pin| pin.quarantined.is_none());
        let tools: Vec<_> = match is_pinned {
            true => pinned.filter_map(|pin| parse(pin.approved.as_ref()?)).collect(),
            false if kept.unpinned.is_empty() => return None,
            false => kept.unpinned.iter().filter_map(parse).collect(),
        };
        Some(Definitions {
            tools,
            prompts: kept.prompts.iter().filter_map(parse).collect(),
            resources: kept.resources.iter().filter_map(parse).collect(),
            templates: kept.templates.iter().filter_map(parse).collect(),
        })
    }

    /// Listed tools whose present definitions are not approved.
    pub(crate) fn refused(&self, server: &str, listed: &[ToolDefinition]) -> HashSet<String> {
        let state = self.state.lock();
        let kept = state.kept.servers.get(server);
        let is_allowed = |tool: &ToolDefinition| {
            let pin = kept.and_then(|kept| kept.tools.get(&tool.name));
            pin.is_some_and(|pin| pin.allows(&wire(tool)))
        };
        let refused = listed.iter().filter(|tool| !is_allowed(tool));
        refused.map(|tool| tool.name.clone()).collect()
    }

    /// Tools of an upstream that are quarantined.
    pub(crate) fn quarantined(&self, server: &str) -> Vec<PinEntry> {
        let state = self.state.lock();
        let tools = state.kept.servers.get(server).into_iter().flat_map(|kept| &kept.tools);
        let tools = tools.filter(|(_, pin)| pin.quarantined.is_some());
        tools.map(|(tool, pin)| pin.entry(server, tool)).collect()
    }

    fn read_again(&self, state: &mut State) -> bool {
        let Some(path) = &self.path else { return false };
        if modified(path) == state.modified {
            return false;
        }
        match read(path) {
            Ok((kept, modified)) => {
                *state = State { kept, modified };
                true
            }
            Err(problem) => {
                tracing::error!("cannot read the file of pins: {problem}");
                false
            }
        }
    }

    fn write_or_log(&self, state: &mut State, server: &str) {
        if let Err(problem) = self.write(state) {
            tracing::error!(server, "cannot write the file of pins: {problem}");
        }
    }

    /// Writes the file as a whole, so that a crash leaves the old one or the new one.
    fn write(&self, state: &mut State) -> io::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder)?;
        }
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        let temporary = path.with_extension(format!("{:016x}.tmp", u64::from_le_bytes(random)));
        let text = serde_json::to_vec_pretty(&state.kept).map_err(io::Error::other)?;
        let written = write_private(&temporary, &text).and_then(|()| {
            std::fs::rename(&temporary, path)?;
            Ok(())
        });
        if written.is_err() {
            let _ = std::fs::remove_file(&temporary);
        }
        state.modified = modified(path);
        written
    }
}

impl Pin {
    /// Returns whether a definition is the approved one.
    fn allows(&self, definition: &Value) -> bool {
        self.approved.as_ref().is_some_and(|approved| {
            approved == definition || digest(approved) == digest(definition)
        })
    }

    fn entry(&self, server: &str, tool: &str) -> PinEntry {
        let is_quarantined = self.quarantined.is_some();
        PinEntry {
            server: server.to_owned(),
            tool: tool.to_owned(),
            state: self.state(),
            digest: self.approved.as_ref().map(digest),
            quarantined: self.quarantined.as_ref().map(digest),
            difference: is_quarantined.then(|| self.difference()),
        }
    }
}

impl KeptServer {
    /// Sets the definitions that have no pins.
    fn set_others(&mut self, listed: &Definitions) {
        self.prompts = listed.prompts.iter().map(wire_prompt).collect();
        self.resources = listed.resources.iter().map(wire_resource).collect();
        self.templates = listed.templates.iter().map(wire_template).collect();
    }
}

/// Finds the upstream and the tool that `NAME.tool` names; both may contain dots. The names of the
/// configuration and of the upstream come first, then those behind the gateway.
fn locate(kept: &KeptFile, name: &str) -> Option<(String, String)> {
    let parts = || name.match_indices('.').map(|(dot, _)| (&name[..dot], &name[dot + 1..]));
    let exact = parts().find_map(|(server, tool)| {
        let (server, kept) = kept.servers.get_key_value(server)?;
        let (tool, _) = kept.tools.get_key_value(tool)?;
        Some((server.clone(), tool.clone()))
    });
    exact.or_else(|| {
        parts().find_map(|(given, tool)| {
            let prefix = naming::prefix(given);
            let mut servers = kept.servers.iter();
            let (server, kept) = servers.find(|(name, _)| naming::prefix(name) == prefix)?;
            let part = naming::part(tool);
            let served = kept.served.get(&naming::join(&prefix, &part));
            let own = || kept.tools.keys().find(|known| naming::part(known) == part);
            Some((server.clone(), served.or_else(own)?.clone()))
        })
    })
}

/// The part of a name that is behind the name of its upstream.
fn own_part<'a>(server: &str, name: &'a str) -> Option<&'a str> {
    name.strip_prefix(server)?.strip_prefix('.')
}

fn read(path: &Path) -> io::Result<(KeptFile, Option<SystemTime>)> {
    let modified = modified(path);
    match std::fs::read(path) {
        Ok(text) => {
            let kept = serde_json::from_slice(&text).map_err(|problem| {
                io::Error::new(
                    io::ErrorKind::InvalidData,
                    format!("{} is damaged: {problem}", path.display()),
                )
            })?;
            Ok((kept, modified))
        }
        Err(missing) if missing.kind() == io::ErrorKind::NotFound => {
            Ok((KeptFile::default(), None))
        }
        Err(problem) => Err(problem),
    }
}

fn modified(path: &Path) -> Option<SystemTime> {
    std::fs::metadata(path).and_then(|found| found.modified()).ok()
}

/// Writes a file that only its owner can read: definitions may name internal systems. On Windows the
/// directory decides who can read it.
fn write_private(path: &Path, text: &[u8]) -> io::Result<()> {
    use std::io::Write;
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(text)?;
    file.sync_all()
}

/// SHA-256 of the pinned part of a definition, in hexadecimal.
fn digest(definition: &Value) -> String {
    let text = pinned_part(definition).to_string();
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The members of a definition that a pin covers, in canonical order.
fn pinned_part(definition: &Value) -> Value {
    let members = ["name", "title", "description", "inputSchema", "outputSchema", "annotations"];
    let mut part = Map::new();
    for member in members {
        if let Some(value) = definition.get(member) {
            part.insert(member.to_owned(), sorted(value));
        }
    }
    if let Some(ui) = definition.get("_meta").and_then(|meta| meta.get("ui")) {
        part.insert("_meta.ui".to_owned(), sorted(ui));
    }
    Value::Object(part)
}

/// Copies a value with the members of all objects in order of their names.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let ordered: BTreeMap<_, _> = members.iter().collect();
            let ordered = ordered.into_iter();
            Value::Object(ordered.map(|(name, value)| (name.clone(), sorted(value))).collect())
        }
        Value::Array(elements) => Value::Array(elements.iter().map(sorted).collect()),
        other => other.clone(),
    }
}

fn wire(tool: &ToolDefinition) -> Value {
    let wire = tool.wire(tool.name.as_str().into(), NEWEST);
    serde_json::to_value(wire).unwrap_or_default()
}

fn wire_prompt(prompt: &PromptDefinition) -> Value {
    serde_json::to_value(prompt.wire(NEWEST)).unwrap_or_default()
}

fn wire_resource(resource: &ResourceDefinition) -> Value {
    serde_json::to_value(resource.wire(NEWEST)).unwrap_or_default()
}

fn wire_template(template: &TemplateDefinition) -> Value {
    serde_json::to_value(template.wire(NEWEST)).unwrap_or_default()
}

fn parse<T: serde::de::DeserializeOwned>(value: &Value) -> Option<T> {
    serde_json::from_value(value.clone()).ok()
}

/// Revision in which definitions are kept: it has all members.
const NEWEST: Revision = Revision::V2026_07_28;
