//! The configuration file: one TOML file with a section for each topic.
//!
//! `serve` and `stdio` read only the file that `--config` names, so that no forgotten file affects a
//! server. Commands that connect to servers look up names in `servers`, which the JSON files of other
//! MCP hosts may have as well. No section holds a secret: tokens are hashes, files or names of
//! environment variables. `docs/configuration-keys.md` lists every key.

mod audit;
mod gateway_file;
mod identity;
mod json_comments;
mod limits;
mod oauth;
mod offer;
mod permissions;
mod problems;
mod serve;
mod servers;
mod sessions;
mod signing;
mod telemetry;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::arguments::{LogFormat, LogLevel};
use crate::client::approval::{ApprovalPolicies, ModelEntry};
use crate::exit::{Exit, Failure};

pub(crate) use audit::AuditSection;
pub(crate) use gateway_file::GatewayFile;
pub(crate) use identity::{Algorithm, DpopSection, IdentitySection, IssuerEntry, TokenEntry};
pub(crate) use limits::LimitsSection;
pub(crate) use mcp_flow::decode_error::json_problem;
pub(crate) use oauth::{DpopStyle, OAuthSection};
pub(crate) use offer::OfferSection;
pub(crate) use permissions::PermissionRule;
pub(crate) use problems::{Problems, nearest};
pub(crate) use serve::{ServeSection, origin, socket_address};
pub(crate) use servers::{
    AuthStyle, ClientConfiguration, EntryProblem, IsolationStyle, ServerEntry,
};
pub(crate) use sessions::SessionsSection;
pub(crate) use signing::SigningSection;
pub(crate) use telemetry::TelemetrySection;

/// Contents of a configuration file. Every key has a default; command-line options take precedence.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(title = "mcp-flow configuration")]
pub(crate) struct File {
    /// Addresses, TLS, hosts and origins of `mcp-flow serve`.
    pub(crate) serve: ServeSection,
    /// Content that `serve` and `stdio` offer.
    pub(crate) offer: OfferSection,
    /// Timeouts and number of sessions.
    pub(crate) sessions: SessionsSection,
    /// Log on standard error.
    pub(crate) log: LogSection,
    /// Metrics at `/metrics`.
    pub(crate) metrics: MetricsSection,
    /// OpenTelemetry.
    pub(crate) telemetry: TelemetrySection,
    /// Audit log.
    pub(crate) audit: AuditSection,
    /// Resource limits for clients.
    pub(crate) limits: LimitsSection,
    /// Authentication of clients.
    pub(crate) identity: IdentitySection,
    /// Message signing with a key shared with mcp-flow clients.
    pub(crate) signing: SigningSection,
    /// Authorization rules. Without any, every authenticated client may use everything.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) permissions: Vec<PermissionRule>,
    /// Servers behind this one.
    pub(crate) gateway: GatewaySection,
    /// Servers that client commands such as `call` can use by name.
    #[serde(alias = "mcpServers", alias = "mcp_servers")]
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) servers: BTreeMap<String, servers::ServerEntry>,
    /// Approval policies for all of these servers.
    pub(crate) policies: ApprovalPolicies,
    /// Models that servers may use for sampling.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) models: BTreeMap<String, ModelEntry>,
}

/// Servers behind this one, all together.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct GatewaySection {
    /// Number of tools above which lists have `search_tools` and `call_tool` in their place; 0 for
    /// never.
    pub(crate) search_above: usize,
}

/// Metrics at `/metrics`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct MetricsSection {
    /// Count calls by method and outcome, with their duration.
    pub(crate) calls: bool,
    /// Count calls by tool as well: one time series per tool.
    pub(crate) tools: bool,
}

impl Default for MetricsSection {
    fn default() -> Self {
        Self { calls: true, tools: false }
    }
}

/// Log on standard error.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct LogSection {
    /// Least severe level that is logged.
    pub(crate) level: LogLevel,
    /// Log format.
    pub(crate) format: LogFormat,
}

impl File {
    /// Reads a file. Relative paths in it start at its own directory.
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        Self::read_and_check(path, |_, _| {})
    }

    /// Reads a file with additional checks. The error lists all problems, one per line.
    pub(crate) fn read_and_check(
        path: &Path,
        further: impl FnOnce(&Self, &mut Problems<'_>),
    ) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path);
        let text = text.with_context(|| format!("cannot read {}", path.display()))?;
        let (mut file, mut problems) = Problems::read(&text);
        file.check(&mut problems);
        let folder = path.parent().unwrap_or(Path::new(""));
        file.serve.resolve(folder);
        file.offer.resolve(folder);
        file.identity.resolve(folder);
        file.audit.resolve(folder);
        file.signing.resolve(folder);
        file.servers.values_mut().for_each(|entry| entry.resolve(folder));
        further(&file, &mut problems);
        let messages = problems.into_messages();
        if !messages.is_empty() {
            let messages = messages.iter().map(|message| format!("{}: {message}", path.display()));
            let messages: Vec<_> = messages.collect();
            return Err(Failure::new(Exit::Usage, messages.join("\n")).into());
        }
        Ok(file)
    }

    /// Reads a file; the defaults without one.
    pub(crate) fn read_or_default(path: Option<&Path>) -> anyhow::Result<Self> {
        path.map_or_else(|| Ok(Self::default()), Self::read)
    }

    /// Parses a text. The error lists all problems, one per line.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (file, mut problems) = Problems::read(text);
        file.check(&mut problems);
        let messages = problems.into_messages();
        if messages.is_empty() { Ok(file) } else { Err(messages.join("\n")) }
    }

    /// Checks what types cannot express.
    fn check(&self, problems: &mut Problems<'_>) {
        self.serve.check(problems);
        self.offer.check(problems);
        self.sessions.check(problems);
        self.identity.check(problems);
        self.audit.check(problems);
        self.telemetry.check(problems);
        self.signing.check(problems);
        self.limits.check(problems);
        for (index, rule) in self.permissions.iter().enumerate() {
            rule.check(index, problems);
        }
        for (name, entry) in self.servers.iter().filter(|(_, entry)| entry.gateway) {
            let found = entry.target(|variable| std::env::var(variable).ok()).err();
            for EntryProblem { path, text } in found.into_iter().flatten() {
                let path = path.iter().map(String::as_str);
                let keys: Vec<_> = ["servers", name].into_iter().chain(path).collect();
                problems.add(&keys, text);
            }
        }
    }

    /// Lists the sections in use that only client commands read.
    pub(crate) fn client_sections(&self) -> Vec<&'static str> {
        let sections = [
            ("[servers]", self.servers.values().any(|entry| !entry.gateway)),
            ("[policies]", self.policies != ApprovalPolicies::default()),
            ("[models]", !self.models.is_empty()),
        ];
        sections.into_iter().filter(|(_, is_used)| *is_used).map(|(name, _)| name).collect()
    }

    /// Hides values that may be secret.
    pub(crate) fn without_secrets(mut self) -> Self {
        self.servers.values_mut().for_each(servers::ServerEntry::hide_secrets);
        self
    }

    /// Lists the keys that differ and need a restart of the server.
    pub(crate) fn changes_that_need_a_restart(&self, other: &Self) -> Vec<String> {
        let keys = |file: &Self| -> BTreeMap<String, serde_json::Value> {
            let sections = [
                ("serve", json(&file.serve)),
                ("offer", json(&file.offer)),
                ("sessions", json(&file.sessions)),
                ("audit", json(&file.audit)),
                ("metrics", json(&file.metrics)),
                ("telemetry", json(&file.telemetry)),
            ];
            let all = sections.into_iter().flat_map(|(section, keys)| {
                keys.into_iter().map(move |(key, value)| (format!("{section}.{key}"), value))
            });
            // It is applied with the limits.
            let all = all.filter(|(key, _)| key != "serve.drain_seconds");
            let window = ("signing.window_seconds".to_owned(), file.signing.window_seconds.into());
            all.chain(file.limits.fixed()).chain([window]).collect()
        };
        let (own, others) = (keys(self), keys(other));
        let names: std::collections::BTreeSet<_> = own.keys().chain(others.keys()).collect();
        names.into_iter().filter(|key| own.get(*key) != others.get(*key)).cloned().collect()
    }

    /// Returns the JSON Schema of the file.
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

/// Makes a relative path start at a folder.
fn resolve_path(path: &mut PathBuf, folder: &Path) {
    if path.is_relative() {
        *path = folder.join(&*path);
    }
}

#[cfg(test)]
mod tests;
