//! `[[permissions]]`: authorization rules.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Problems;

/// Authorization rule. What several rules grant is added up.
///
/// In every list `*` matches any characters, and a name that begins with `!` is excluded.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct PermissionRule {
    /// Principals the rule applies to, for example `ada`, `corp:*`, `local` or `*` for all.
    pub(crate) principals: Vec<String>,
    /// Or scopes: the rule applies to everyone whose token has one of them.
    pub(crate) scopes: Vec<String>,
    /// Tools that may be listed and called, by the name they are registered under, with dots; also
    /// methods of the same name.
    pub(crate) tools: Vec<String>,
    /// Resources, templates (by their text) and files that may be listed, read and subscribed to,
    /// by URI.
    pub(crate) resources: Vec<String>,
    /// Names of prompts that may be listed and used.
    pub(crate) prompts: Vec<String>,
    /// Names of flows that may be listed and started, and whose sessions may be used.
    pub(crate) flows: Vec<String>,
    /// Grants the admin tools: all sessions, traffic and statistics.
    pub(crate) admin: bool,
    /// Grants `/metrics`, which admins always have.
    pub(crate) metrics: bool,
}

impl PermissionRule {
    pub(super) fn check(&self, index: usize, problems: &mut Problems<'_>) {
        if self.principals.is_empty() && self.scopes.is_empty() {
            let problem = "set `principals` or `scopes`";
            let problem = format!("permissions, rule {}: {problem}", index + 1);
            problems.add(&["permissions", &index.to_string()], problem);
        }
    }
}
