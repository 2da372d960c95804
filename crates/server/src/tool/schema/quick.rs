//! A check that runs on encoded arguments without building them in memory first.
//!
//! It understands the schemas most tools have, objects of plain values, and nothing else. It may
//! say no to good arguments, such as a member given twice; it never says yes to bad ones.

mod compile;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::HashSet;

use mcp_flow_proto::{DecodeError, Kind, Raw};
use regex::Regex;
use serde_json::Value;

/// A compiled schema of the plain kind.
#[derive(Debug)]
pub(crate) struct Quick(Check);

impl Quick {
    /// Compiles a schema; `None` if it says anything this check does not understand.
    pub(crate) fn compile(schema: &Value) -> Option<Self> {
        Check::compile(schema).map(Self)
    }

    /// Whether the arguments are known to be good.
    pub(crate) fn accepts(&self, arguments: Raw<'_>) -> bool {
        self.0.accept(arguments).is_ok()
    }
}

#[derive(Debug)]
enum Check {
    Anything,
    Boolean,
    Number {
        whole: bool,
        range: Range,
    },
    Text {
        length: Range,
        options: Option<Vec<String>>,
        pattern: Option<Regex>,
    },
    List {
        items: Box<Check>,
        length: Range,
    },
    /// Texts of which no two are the same.
    Distinct {
        items: Box<Check>,
        length: Range,
    },
    Object(Members),
    Nullable(Box<Check>),
}

/// From and to, both included.
#[derive(Clone, Copy, Debug)]
struct Range {
    from: f64,
    to: f64,
}

#[derive(Debug)]
struct Members {
    names: Vec<String>,
    /// One for each name.
    checks: Vec<Check>,
    /// One bit for each name that must be there.
    required: u64,
    others_allowed: bool,
}

impl Check {
    fn accept(&self, value: Raw<'_>) -> Result<(), NotKnown> {
        match self {
            Self::Anything => Ok(()),
            Self::Boolean => known(value.kind() == Kind::Boolean),
            Self::Number { whole: false, range } if range.is_unbounded() => {
                known(value.kind() == Kind::Number)
            }
            Self::Number { whole, range } => {
                let number = value.as_number().ok_or(NotKnown)?;
                // Where floats are not exact, the complete check decides.
                let exact = number.abs() < 9.0e15;
                known(exact && range.holds(number) && (!whole || number.fract() == 0.0))
            }
            Self::Text { .. } => self.accept_text(value).map(drop),
            Self::Distinct { items, length } => {
                let mut seen = Seen::default();
                value.each_element(|element| known(seen.is_new(items.accept_text(element)?)))?;
                known(length.holds_length(|| seen.count()))
            }
            Self::List { items, length } => {
                let mut count = 0;
                value.each_element(|element| {
                    count += 1;
                    items.accept(element)
                })?;
                known(length.holds_length(|| count))
            }
            Self::Object(members) => members.accept(value),
            Self::Nullable(_) if value.kind() == Kind::Null => Ok(()),
            Self::Nullable(check) => check.accept(value),
        }
    }

    /// A text that is known to be good.
    fn accept_text<'a>(&self, value: Raw<'a>) -> Result<Cow<'a, str>, NotKnown> {
        let Self::Text { length, options, pattern } = self else { return Err(NotKnown) };
        let text = value.as_text().ok_or(NotKnown)?;
        let is_option = options.as_ref().is_none_or(|all| all.iter().any(|one| *one == text));
        let has_form = pattern.as_ref().is_none_or(|pattern| pattern.is_match(&text));
        known(is_option && has_form && length.holds_length(|| text.chars().count()))?;
        Ok(text)
    }
}

impl Range {
    fn holds(self, number: f64) -> bool {
        (self.from..=self.to).contains(&number)
    }

    #[expect(clippy::cast_precision_loss, reason = "no length in memory comes near 2^53")]
    fn holds_length(self, length: impl FnOnce() -> usize) -> bool {
        // Counting characters takes time; do not when any count will do.
        self.is_unbounded() || self.holds(length() as f64)
    }

    fn is_unbounded(self) -> bool {
        self.from.is_infinite() && self.to.is_infinite()
    }
}

/// The texts of a list so far. A few are compared one by one, which is quicker than to hash them.
#[derive(Default)]
struct Seen<'a> {
    few: Vec<Cow<'a, str>>,
    many: HashSet<Cow<'a, str>>,
}

impl<'a> Seen<'a> {
    fn is_new(&mut self, text: Cow<'a, str>) -> bool {
        if self.few.contains(&text) {
            return false;
        }
        if self.few.len() < FEW {
            self.few.push(text);
            return true;
        }
        self.many.insert(text)
    }

    fn count(&self) -> usize {
        self.few.len() + self.many.len()
    }
}

const FEW: usize = 16;

impl Members {
    fn accept(&self, value: Raw<'_>) -> Result<(), NotKnown> {
        let mut seen = 0u64;
        value.each_member(&self.names, |position, member| {
            let Some(position) = position else { return known(self.others_allowed) };
            known(seen & 1 << position == 0)?;
            seen |= 1 << position;
            self.checks[position].accept(member)
        })?;
        known(seen & self.required == self.required)
    }
}

/// The value is bad, or not of the kind this check can tell.
#[derive(Debug)]
struct NotKnown;

impl From<DecodeError> for NotKnown {
    fn from(_: DecodeError) -> Self {
        Self
    }
}

fn known(good: bool) -> Result<(), NotKnown> {
    if good { Ok(()) } else { Err(NotKnown) }
}
