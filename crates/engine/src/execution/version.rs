//! Versions of changes to a flow's code.

use std::ops::RangeInclusive;

use mcp_flow_session::Divergence;
use mcp_flow_session::event::StepOutcome;

use super::Execution;

impl Execution {
    /// Returns the version of a change that the session runs, and records it. None if it is not one
    /// of these: the session is stuck.
    pub(crate) fn version(&self, change: &str, versions: &RangeInclusive<u32>) -> Option<u32> {
        let mut state = self.lock();
        let known = state.versions.get(change).copied();
        let version = known.or_else(|| match state.replay.drawn(&key(change))? {
            StepOutcome::Ok(version) => {
                version.as_u64().and_then(|version| version.try_into().ok())
            }
            StepOutcome::Failed(_) => None,
        });
        let is_new = version.is_none();
        // What follows was recorded before there was the change.
        let first = if state.replay.is_behind() { versions.start() } else { versions.end() };
        let version = version.unwrap_or(*first);
        state.versions.insert(change.to_owned(), version);
        if !versions.contains(&version) {
            let (first, last) = (versions.start(), versions.end());
            let asked = (change.to_owned(), format!("versions {first} to {last}"));
            let divergence = Divergence {
                recorded_key: change.to_owned(),
                recorded: format!("version {version}"),
                ..state.replay.divergence(Some(&asked))
            };
            state.diverged.get_or_insert(divergence);
            return None;
        }
        drop(state);
        if is_new {
            self.record_drawn(&key(change), StepOutcome::Ok(version.into()));
        }
        Some(version)
    }
}

/// Key under which a version is recorded. Like that of any drawn value it has a tilde.
fn key(change: &str) -> String {
    format!("~version/{change}")
}
