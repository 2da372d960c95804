//! `[audit]`: who called what, written down.

use std::path::{Path, PathBuf};

use mcp_flow::observability::audit::{Audit, AuditError, OverflowPolicy};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Problems, resolved};

/// A log of who called what with which outcome, in which nothing can be changed unseen.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct AuditSection {
    /// Where it is written. Without, nothing is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) file: Option<PathBuf>,
    /// A file with a key, without which no line can be written that fits; made if it is not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) key_file: Option<PathBuf>,
    /// What happens to calls when lines cannot be written as fast as they come.
    pub(crate) when_full: WhenFull,
}

/// What happens to calls when lines cannot be written as fast as they come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum WhenFull {
    /// They wait, so that nothing happens that is not written down.
    #[default]
    Wait,
    /// They go on, and a line says how many are missing.
    Drop,
}

impl AuditSection {
    pub(super) fn check(&self, problems: &mut Problems<'_>) {
        if self.file.is_none() && self.key_file.is_some() {
            let problem = "audit.key_file is of no use without audit.file";
            problems.add(&["audit", "key_file"], problem);
        }
    }

    pub(super) fn resolve(&mut self, folder: &Path) {
        let paths = [&mut self.file, &mut self.key_file];
        paths.into_iter().flatten().for_each(|path| resolved(path, folder));
    }

    /// Opens the log, if there is to be one.
    pub(crate) fn open(&self) -> Result<Option<Audit>, AuditError> {
        let full = match self.when_full {
            WhenFull::Wait => OverflowPolicy::Reject,
            WhenFull::Drop => OverflowPolicy::Drop,
        };
        let open = |file: &PathBuf| Audit::open(file, self.key_file.as_deref(), full);
        self.file.as_ref().map(open).transpose()
    }
}
