//! The configuration file: one TOML file with a section for each concern.
//!
//! `serve` and `stdio` read the file they are told of and no other, so that nothing on the network
//! depends on a file somebody forgot; commands that speak to servers find names in `servers`, which
//! other hosts' JSON files may hold as well. No section has room for a secret: tokens are hashes,
//! files or names of environment variables. `docs/configuration.md` describes every key.

mod audit;
mod explain;
mod identity;
mod limits;
mod offer;
mod permissions;
mod serve;
mod servers;
mod sessions;
mod signing;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::approval::{Approvals, ModelEntry};
use crate::arguments::{LogFormat, LogLevel};
use crate::exit::{Exit, Failure};

pub(crate) use audit::AuditSection;
pub(crate) use explain::{Problems, nearest};
pub(crate) use identity::{Algorithm, IdentitySection, IssuerEntry, TokenEntry};
pub(crate) use limits::LimitsSection;
pub(crate) use offer::OfferSection;
pub(crate) use permissions::PermissionRule;
pub(crate) use serve::{ServeSection, origin};
pub(crate) use servers::Configuration;
pub(crate) use sessions::SessionsSection;
pub(crate) use signing::SigningSection;

/// What can be set in a file. Everything has a default, and options of the command line win.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(title = "mcp-flow configuration")]
pub(crate) struct File {
    /// Where `mcp-flow serve` listens, and how it presents itself.
    pub(crate) serve: ServeSection,
    /// What is served, by `serve` and by `stdio`.
    pub(crate) offer: OfferSection,
    /// How long conversations wait for an answer, and how long they may take altogether.
    pub(crate) sessions: SessionsSection,
    /// What is said on standard error.
    pub(crate) log: LogSection,
    /// What is counted at `/metrics`.
    pub(crate) metrics: MetricsSection,
    /// Who called what, written down.
    pub(crate) audit: AuditSection,
    /// Bounds on what clients can make the server hold or do.
    pub(crate) limits: LimitsSection,
    /// Who is let in, and by which credentials.
    pub(crate) identity: IdentitySection,
    /// Messages that are signed with a key shared with clients of our own.
    pub(crate) signing: SigningSection,
    /// Who may use what. Without a single rule, everyone who is let in may use everything.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) permissions: Vec<PermissionRule>,
    /// Servers that commands such as `call` know by name.
    #[serde(alias = "mcpServers", alias = "mcp_servers")]
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) servers: BTreeMap<String, servers::Entry>,
    /// What all of these servers may do here.
    pub(crate) policies: Approvals,
    /// The models that servers may ask for.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) models: BTreeMap<String, ModelEntry>,
}

/// What is counted at `/metrics`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct MetricsSection {
    /// Whether calls are counted by method and outcome, with how long they took.
    pub(crate) calls: bool,
    /// Whether calls are counted by tool as well: one series for each tool that is called.
    pub(crate) tools: bool,
}

impl Default for MetricsSection {
    fn default() -> Self {
        Self { calls: true, tools: false }
    }
}

/// What is said on standard error.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct LogSection {
    /// The least severe messages that are said.
    pub(crate) level: LogLevel,
    /// How they are written.
    pub(crate) format: LogFormat,
}

impl File {
    /// Reads a file; paths in it are meant from its own folder.
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        Self::read_and_check(path, |_, _| {})
    }

    /// Reads a file and has it checked further. All problems are told, those of `further` as well.
    pub(crate) fn read_and_check(
        path: &Path,
        further: impl FnOnce(&Self, &mut Problems<'_>),
    ) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path);
        let text = text.with_context(|| format!("{} cannot be read", path.display()))?;
        let (mut file, mut problems) = Problems::read(&text);
        file.check(&mut problems);
        let folder = path.parent().unwrap_or(Path::new(""));
        file.serve.resolve(folder);
        file.offer.resolve(folder);
        file.identity.resolve(folder);
        file.audit.resolve(folder);
        file.signing.resolve(folder);
        further(&file, &mut problems);
        let told = problems.told();
        if !told.is_empty() {
            let told = told.iter().map(|problem| format!("{}: {problem}", path.display()));
            let told: Vec<_> = told.collect();
            return Err(Failure::new(Exit::Usage, told.join("\n")).into());
        }
        Ok(file)
    }

    /// Reads one if it is named.
    pub(crate) fn read_or_default(path: Option<&Path>) -> anyhow::Result<Self> {
        path.map_or_else(|| Ok(Self::default()), Self::read)
    }

    /// What a text means, or all that is wrong with it, a line each.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (file, mut problems) = Problems::read(text);
        file.check(&mut problems);
        let told = problems.told();
        if told.is_empty() { Ok(file) } else { Err(told.join("\n")) }
    }

    /// What no type can say.
    fn check(&self, problems: &mut Problems<'_>) {
        self.serve.check(problems);
        self.offer.check(problems);
        self.sessions.check(problems);
        self.identity.check(problems);
        self.audit.check(problems);
        self.signing.check(problems);
        self.limits.check(problems);
        for (index, rule) in self.permissions.iter().enumerate() {
            rule.check(index, problems);
        }
    }

    /// The sections that only commands which speak to servers read, as far as there are any.
    pub(crate) fn client_sections(&self) -> Vec<&'static str> {
        let sections = [
            ("[servers]", !self.servers.is_empty()),
            ("[policies]", self.policies != Approvals::default()),
            ("[models]", !self.models.is_empty()),
        ];
        sections.into_iter().filter(|(_, is_there)| *is_there).map(|(name, _)| name).collect()
    }

    /// The same without what might be secret in it.
    pub(crate) fn without_secrets(mut self) -> Self {
        self.servers.values_mut().for_each(servers::Entry::hide_secrets);
        self
    }

    /// The keys that differ and cannot be taken up while a server runs.
    pub(crate) fn fixed_differences(&self, other: &Self) -> Vec<String> {
        let keys = |file: &Self| -> BTreeMap<String, serde_json::Value> {
            let sections = [
                ("serve", json(&file.serve)),
                ("offer", json(&file.offer)),
                ("sessions", json(&file.sessions)),
                ("audit", json(&file.audit)),
                ("metrics", json(&file.metrics)),
            ];
            let all = sections.into_iter().flat_map(|(section, keys)| {
                keys.into_iter().map(move |(key, value)| (format!("{section}.{key}"), value))
            });
            // It is one of the limits.
            let all = all.filter(|(key, _)| key != "serve.drain_seconds");
            let window = ("signing.window_seconds".to_owned(), file.signing.window_seconds.into());
            all.chain(file.limits.fixed()).chain([window]).collect()
        };
        let (own, others) = (keys(self), keys(other));
        let names: std::collections::BTreeSet<_> = own.keys().chain(others.keys()).collect();
        names.into_iter().filter(|key| own.get(*key) != others.get(*key)).cloned().collect()
    }

    /// What a file may hold, as JSON Schema.
    pub(crate) fn schema() -> serde_json::Value {
        schemars::schema_for!(Self).to_value()
    }
}

fn json(section: &impl Serialize) -> serde_json::Map<String, serde_json::Value> {
    match serde_json::to_value(section) {
        Ok(serde_json::Value::Object(members)) => members,
        _ => serde_json::Map::new(),
    }
}

/// A path that is meant from a folder.
fn resolved(path: &mut PathBuf, folder: &Path) {
    if path.is_relative() {
        *path = folder.join(&*path);
    }
}

#[cfg(test)]
mod tests;
