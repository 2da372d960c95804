//! Resource budget of one file.
//!
//! Bounds what many conditions, rules, patterns and schemas cost together, both to read and to
//! evaluate.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;

use super::fields::{Problems, ValuePath};
use crate::pattern::{self, Pattern};

/// Budgeted kind of content.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Steps,
    /// Conditions, including nested ones.
    Conditions,
    /// Rules, including nested ones.
    Rules,
    /// Patterns, by their compiled size.
    Patterns,
    /// Schemas, by their number of checks.
    Schemas,
}

/// Amounts used so far.
#[derive(Debug, Default)]
pub(super) struct Budget {
    /// True for bundled files, whose patterns a test has compiled: compiling them takes most of the
    /// time in which a server starts.
    is_trusted: bool,
    spent: [Cell<u64>; 5],
    /// Patterns seen; each counts once.
    patterns: RefCell<HashSet<String>>,
}

impl Budget {
    pub(super) fn trusted() -> Self {
        Self { is_trusted: true, ..Self::default() }
    }
}

impl Kind {
    fn most(self) -> u64 {
        match self {
            Self::Steps => 1000,
            Self::Conditions | Self::Rules => 2000,
            Self::Patterns => 16 * 1024 * 1024,
            Self::Schemas => 200_000,
        }
    }

    fn message(self) -> String {
        let most = self.most();
        match self {
            Self::Steps => format!("a workflow has at most {most} steps; split it"),
            Self::Conditions => {
                format!("a file has at most {most} conditions, also within others; use fewer")
            }
            Self::Rules => {
                format!("a file has at most {most} rules, also within others; use fewer")
            }
            Self::Patterns => {
                "the patterns up to here are too many or too large together; use fewer or simpler \
                 ones"
                    .to_owned()
            }
            Self::Schemas => {
                format!(
                    "the schemas up to here ask for more than {most} checks, references followed; \
                     use simpler ones"
                )
            }
        }
    }
}

impl Problems {
    /// Takes an amount from the budget. Reports once that it is exceeded.
    pub(super) fn allow(&self, kind: Kind, amount: u64, location: ValuePath<'_>) -> bool {
        let spent = &self.budget().spent[kind as usize];
        let before = spent.get();
        spent.set(before.saturating_add(amount));
        if before <= kind.most() && spent.get() > kind.most() {
            self.error(location, kind.message());
        }
        spent.get() <= kind.most()
    }

    /// Returns whether the budget of a kind is used up.
    fn is_spent(&self, kind: Kind) -> bool {
        self.budget().spent[kind as usize].get() > kind.most()
    }

    /// Reads a pattern.
    pub(super) fn pattern(
        &self,
        source: &str,
        flags: &str,
        location: ValuePath<'_>,
    ) -> Option<Pattern> {
        let read = self.pattern_with_cost(source, flags, location)?;
        read.map_err(|message| self.error(location, message)).ok()
    }

    /// Reads a possible pattern; `None` if the budget is used up.
    pub(super) fn pattern_with_cost(
        &self,
        source: &str,
        flags: &str,
        location: ValuePath<'_>,
    ) -> Option<Result<Pattern, String>> {
        if self.budget().is_trusted {
            return Some(Ok(Pattern::trusted(source, flags)));
        }
        if self.is_spent(Kind::Patterns) {
            return None;
        }
        let is_new = self.budget().patterns.borrow_mut().insert(format!("{flags}/{source}"));
        let pattern_with_cost = Pattern::weigh(source, flags);
        // Rejecting a pattern may cost as much as compiling it.
        let weight = pattern_with_cost.as_ref().map_or(pattern::MAX_BYTES, |(_, weight)| *weight);
        let is_charged = is_new || pattern_with_cost.is_err();
        let is_allowed = !is_charged || self.allow(Kind::Patterns, weight as u64, location);
        is_allowed.then(|| pattern_with_cost.map(|(pattern, _)| pattern))
    }
}
