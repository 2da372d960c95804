//! `[[permissions]]`: who may use what.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Problems;

/// One rule: whom it is for, and what it gives them. What several rules give adds up.
///
/// In every list `*` stands for any characters, and what begins with `!` is taken out again.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct PermissionRule {
    /// For principals of these names, such as `ada`, `corp:*` or `*` for all.
    pub(crate) principals: Vec<String>,
    /// For everyone whose token has one of these scopes.
    pub(crate) scopes: Vec<String>,
    /// Tools that may be seen and called, by name.
    pub(crate) tools: Vec<String>,
    /// Resources and templates that may be seen, read and subscribed to, by URI.
    pub(crate) resources: Vec<String>,
    /// Prompts that may be seen and used, by name.
    pub(crate) prompts: Vec<String>,
    /// Flows that may be seen and started, and whose sessions may be used, by name.
    pub(crate) flows: Vec<String>,
    /// Whether sessions of others, traffic and figures may be seen.
    pub(crate) admin: bool,
    /// Whether `/metrics` may be read, which admins always may.
    pub(crate) metrics: bool,
}

impl PermissionRule {
    pub(super) fn check(&self, index: usize, problems: &mut Problems<'_>) {
        if self.principals.is_empty() && self.scopes.is_empty() {
            let problem = "say whom it is for, in `principals` or `scopes`";
            let problem = format!("permissions, rule {}: {problem}", index + 1);
            problems.add(&["permissions", &index.to_string()], problem);
        }
    }
}
