//! Rules that the output of a step must keep to.
//!
//! `contains`, `regex`, `length`, `schema`, and `and`, `or`, `not` of rules. Each may have a
//! `message`, and a `condition` without which it does not count.

mod verdict;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::condition::Condition;
use crate::pattern::Pattern;

pub use verdict::Verdict;

/// All rules of a step.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Criteria {
    /// A list: all of them must be kept.
    All(Vec<Rule>),
    /// A single one.
    One(Rule),
}

impl Criteria {
    /// The rules, all of which must be kept.
    pub fn rules(&self) -> &[Rule] {
        match self {
            Self::All(rules) => rules,
            Self::One(rule) => std::slice::from_ref(rule),
        }
    }
}

impl Criteria {
    /// The conditions of all rules, also of those within others.
    pub(crate) fn conditions(&self) -> Vec<&Condition> {
        let mut conditions = Vec::new();
        let mut waiting: Vec<&Rule> = self.rules().iter().collect();
        while let Some(rule) = waiting.pop() {
            conditions.extend(&rule.condition);
            match &rule.demand {
                Demand::And(rules) | Demand::Or(rules) => waiting.extend(rules),
                Demand::Not(rule) => waiting.push(rule),
                _ => {}
            }
        }
        conditions
    }
}

/// One rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// What must be so.
    pub demand: Demand,
    /// What is said if it is not.
    pub message: Option<Box<str>>,
    /// When it counts.
    pub condition: Option<Condition>,
}

/// What a rule demands of an output.
#[derive(Clone, Debug, PartialEq)]
pub enum Demand {
    /// This text is in it, in these very letters.
    Contains(Box<str>),
    /// This pattern is found in it.
    Regex(Pattern),
    /// It has so many characters.
    Length {
        /// At least.
        min: Option<u64>,
        /// At most.
        max: Option<u64>,
    },
    /// It is JSON, and keeps to this JSON Schema.
    Schema(Box<Value>),
    /// It keeps to all of these.
    And(Vec<Rule>),
    /// It keeps to one of these.
    Or(Vec<Rule>),
    /// It does not keep to this.
    Not(Box<Rule>),
}

impl Serialize for Rule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match &self.demand {
            Demand::Contains(value) => {
                map.serialize_entry("type", "contains")?;
                map.serialize_entry("value", value)?;
            }
            Demand::Regex(pattern) => {
                map.serialize_entry("type", "regex")?;
                map.serialize_entry("pattern", pattern.source())?;
                if !pattern.flags().is_empty() {
                    map.serialize_entry("flags", pattern.flags())?;
                }
            }
            Demand::Length { min, max } => {
                map.serialize_entry("type", "length")?;
                if let Some(min) = min {
                    map.serialize_entry("min", min)?;
                }
                if let Some(max) = max {
                    map.serialize_entry("max", max)?;
                }
            }
            Demand::Schema(schema) => {
                map.serialize_entry("type", "schema")?;
                map.serialize_entry("schema", schema)?;
            }
            Demand::And(rules) => map.serialize_entry("and", rules)?,
            Demand::Or(rules) => map.serialize_entry("or", rules)?,
            Demand::Not(rule) => map.serialize_entry("not", rule)?,
        }
        if let Some(message) = &self.message {
            map.serialize_entry("message", message)?;
        }
        if let Some(condition) = &self.condition {
            map.serialize_entry("condition", condition)?;
        }
        map.end()
    }
}
