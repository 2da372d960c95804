//! `[offer]`: what is served.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Problems, resolved};
use crate::offer::{Form, Spelling, handshake_revision};
use crate::store::StoreUrl;

/// What is served, by `serve` and by `stdio`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct OfferSection {
    /// Directories whose files are resources, and read by the tool `read_file`.
    pub(crate) roots: Vec<PathBuf>,
    /// Directories of workflows, besides the usual ones; later ones win.
    pub(crate) workflows: Vec<PathBuf>,
    /// Where conversations are kept: `redb:PATH`, or `memory:` to lose them at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub(crate) store: Option<StoreUrl>,
    /// Whether clients carry their conversations in signed tokens, and nothing is kept here.
    pub(crate) stateless: bool,
    /// With `stateless`: whether one number is kept in `store` for each conversation, to refuse old
    /// tokens.
    pub(crate) replay_guard: bool,
    /// Whether the built-in example tools, prompts and flows are served.
    pub(crate) examples: bool,
    /// Whether flows hold conversations; otherwise they are tools that need every value upfront.
    pub(crate) interaction: bool,
    /// How many answers a second one conversation takes, and twice as many at once; 0 for any number.
    /// If nothing is said, 10 where others can reach the server and any number elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) answers_per_second: Option<u32>,
    /// The oldest protocol revision that is spoken; clients that need an older one are refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) minimum_version: Option<String>,
    /// How many seconds the end of a conversation is remembered, for who asks for its result again.
    pub(crate) remembered_seconds: u64,
    /// Under which names tools are listed.
    pub(crate) tool_names: Spelling,
    /// Whose way of writing images, links and embedded resources to follow.
    pub(crate) content: Form,
}

impl Default for OfferSection {
    fn default() -> Self {
        Self {
            roots: Vec::new(),
            workflows: Vec::new(),
            store: None,
            stateless: false,
            replay_guard: false,
            examples: true,
            interaction: true,
            answers_per_second: None,
            minimum_version: None,
            remembered_seconds: 5 * 60,
            tool_names: Spelling::default(),
            content: Form::default(),
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
        let store = match &mut self.store {
            Some(StoreUrl::Redb(path)) => Some(path),
            _ => None,
        };
        let paths = self.roots.iter_mut().chain(&mut self.workflows).chain(store);
        paths.for_each(|path| resolved(path, folder));
    }
}
