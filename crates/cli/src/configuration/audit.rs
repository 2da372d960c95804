//! `[audit]`: the audit log.

use std::path::{Path, PathBuf};

use mcp_flow::observability::audit::{Audit, AuditError, OverflowPolicy};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Problems, resolve_path};

/// Tamper-evident log of all calls with their principal and outcome.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct AuditSection {
    /// Audit log file, readable by its owner only; also `--audit-log`. Default: no audit log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) file: Option<PathBuf>,
    /// File with a key, created if it does not exist: hashes are HMAC-SHA-256 and cannot be forged
    /// without it. Keep it away from anyone who could change the log. Default: SHA-256.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) key_file: Option<PathBuf>,
    /// Behaviour if requests arrive faster than they can be logged, or the log cannot be written.
    pub(crate) when_full: WhenFull,
}

/// Behaviour if calls arrive faster than they can be logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum WhenFull {
    /// Requests are rejected with a retry delay, so that every one is logged.
    #[default]
    Wait,
    /// Requests continue, and a line counts the missing entries.
    Drop,
}

impl AuditSection {
    pub(super) fn check(&self, problems: &mut Problems<'_>) {
        if self.file.is_none() && self.key_file.is_some() {
            let problem = "audit.key_file requires audit.file";
            problems.add(&["audit", "key_file"], problem);
        }
    }

    pub(super) fn resolve(&mut self, folder: &Path) {
        let paths = [&mut self.file, &mut self.key_file];
        paths.into_iter().flatten().for_each(|path| resolve_path(path, folder));
    }

    /// Opens the audit log; none if it is not configured.
    pub(crate) fn open(&self) -> Result<Option<Audit>, AuditError> {
        let full = match self.when_full {
            WhenFull::Wait => OverflowPolicy::Reject,
            WhenFull::Drop => OverflowPolicy::Drop,
        };
        let open = |file: &PathBuf| Audit::open(file, self.key_file.as_deref(), full);
        self.file.as_ref().map(open).transpose()
    }
}
