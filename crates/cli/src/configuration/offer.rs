//! `[offer]`: tools, resources, workflows and sessions that a server offers.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Problems, resolve_path};
use crate::server::offer::{ContentStyle, ToolNameStyle, handshake_revision};
use crate::server::store::StoreUrl;

/// Content that `serve` and `stdio` offer.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct OfferSection {
    /// Directories whose files are served as resources and with the tool `read_file`.
    pub(crate) roots: Vec<PathBuf>,
    /// Directories of skills, with one subdirectory and `SKILL.md` each.
    pub(crate) skills: Vec<PathBuf>,
    /// Directories of tool files, or single files.
    pub(crate) tools: Vec<PathBuf>,
    /// Directories of workflow files besides the default ones; later ones take precedence.
    pub(crate) workflows: Vec<PathBuf>,
    /// Session store: `sqlite:PATH`, `postgres://USER@HOST/DB` (`docs/cluster.md`), `redb:PATH` of
    /// one process, or `memory:` to lose sessions on exit. Default: `sqlite:.mcp-flow/journal.db`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub(crate) store: Option<StoreUrl>,
    /// Keep no sessions: clients carry them in sealed tokens.
    pub(crate) stateless: bool,
    /// With `stateless`: reject replayed tokens, by one counter per session in `store`, after a
    /// restart as well.
    pub(crate) replay_guard: bool,
    /// Serve the built-in example tools, prompts and flows; `--no-examples` does not.
    pub(crate) examples: bool,
    /// Serve flows with sessions; otherwise they are tools that take all values up front.
    pub(crate) interaction: bool,
    /// Rate limit for answers to one session per second, with bursts of twice as many; 0 disables
    /// it. Default: 10 on a public address, otherwise 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) answers_per_second: Option<u32>,
    /// Oldest MCP protocol revision to accept, for example `2025-06-18`. Default: any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) minimum_version: Option<String>,
    /// Seconds for which the result of an ended session can be fetched again; workflow runs have
    /// their own.
    pub(crate) remembered_seconds: u64,
    /// Style of tool names in lists.
    pub(crate) tool_names: ToolNameStyle,
    /// Wire format of images, links and embedded resources.
    pub(crate) content: ContentStyle,
}

impl Default for OfferSection {
    fn default() -> Self {
        Self {
            roots: Vec::new(),
            skills: Vec::new(),
            tools: Vec::new(),
            workflows: Vec::new(),
            store: None,
            stateless: false,
            replay_guard: false,
            examples: true,
            interaction: true,
            answers_per_second: None,
            minimum_version: None,
            remembered_seconds: 5 * 60,
            tool_names: ToolNameStyle::default(),
            content: ContentStyle::default(),
        }
    }
}

impl OfferSection {
    pub(super) fn check(&self, problems: &mut Problems<'_>) {
        if let Some(Err(problem)) = self.minimum_version.as_deref().map(handshake_revision) {
            let problem = format!("offer.minimum_version: {problem}");
            problems.add(&["offer", "minimum_version"], problem);
        }
    }

    pub(super) fn resolve(&mut self, folder: &Path) {
        let store = self.store.as_mut().and_then(StoreUrl::path_mut);
        let directories = [&mut self.roots, &mut self.skills, &mut self.tools, &mut self.workflows];
        let paths = directories.into_iter().flatten().chain(store);
        paths.for_each(|path| resolve_path(path, folder));
    }
}
