//! How much one file may ask for.
//!
//! Each thing a file can have many of is cheap by itself. What they cost together, when the file is
//! read and when a step is looked for, is bounded by what is counted here.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;

use super::fields::{Notes, Place};
use crate::pattern::{self, Pattern};

/// What is counted.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Steps,
    /// Conditions, also those within others.
    Conditions,
    /// Rules, also those within others.
    Rules,
    /// Patterns, by what they take compiled.
    Patterns,
    /// Schemas, by the checks they ask for.
    Schemas,
}

/// What was asked for so far.
#[derive(Debug, Default)]
pub(super) struct Allowance {
    spent: [Cell<u64>; 5],
    /// Patterns are counted once.
    patterns: RefCell<HashSet<String>>,
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

    fn told(self) -> String {
        let most = self.most();
        match self {
            Self::Steps => format!("a workflow has at most {most} steps; split it"),
            Self::Conditions => {
                format!("a workflow has at most {most} conditions, also within others; use fewer")
            }
            Self::Rules => {
                format!("a workflow has at most {most} rules, also within others; use fewer")
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

impl Notes {
    /// Whether a file may have this, too. That it has too much is noted once.
    pub(super) fn allow(&self, kind: Kind, amount: u64, place: Place<'_>) -> bool {
        let spent = &self.allowance().spent[kind as usize];
        let before = spent.get();
        spent.set(before.saturating_add(amount));
        if before <= kind.most() && spent.get() > kind.most() {
            self.error(place, kind.told());
        }
        spent.get() <= kind.most()
    }

    /// Whether nothing more of a kind is allowed.
    fn is_spent(&self, kind: Kind) -> bool {
        self.allowance().spent[kind as usize].get() > kind.most()
    }

    /// Reads a pattern.
    pub(super) fn pattern(&self, source: &str, flags: &str, place: Place<'_>) -> Option<Pattern> {
        let read = self.weighed(source, flags, place)?;
        read.map_err(|told| self.error(place, told)).ok()
    }

    /// Reads what may be a pattern, and nothing if the file has too many of them.
    pub(super) fn weighed(
        &self,
        source: &str,
        flags: &str,
        place: Place<'_>,
    ) -> Option<Result<Pattern, String>> {
        if self.is_spent(Kind::Patterns) {
            return None;
        }
        let is_new = self.allowance().patterns.borrow_mut().insert(format!("{flags}/{source}"));
        let weighed = Pattern::weigh(source, flags);
        // What cannot be used may have taken as long.
        let weight = weighed.as_ref().map_or(pattern::LARGEST, |(_, weight)| *weight);
        let is_charged = is_new || weighed.is_err();
        let is_allowed = !is_charged || self.allow(Kind::Patterns, weight as u64, place);
        is_allowed.then(|| weighed.map(|(pattern, _)| pattern))
    }
}
