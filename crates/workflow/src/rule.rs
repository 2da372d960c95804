//! Validation rules for the output of a step.
//!
//! `contains`, `regex`, `length`, `schema`, and `and`, `or`, `not` of rules. A rule may have a
//! `message`, and a `condition` under which it applies.

mod validation;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::condition::Condition;
use crate::pattern::Pattern;

pub use validation::Validation;

/// Validation rules of a step.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Criteria {
    /// A list, all of which must pass.
    All(Vec<ValidationRule>),
    /// A single rule.
    One(ValidationRule),
}

impl Criteria {
    /// Returns the rules, all of which must pass.
    pub fn rules(&self) -> &[ValidationRule] {
        match self {
            Self::All(rules) => rules,
            Self::One(rule) => std::slice::from_ref(rule),
        }
    }
}

impl Criteria {
    /// Returns the conditions of all rules, including nested ones.
    pub(crate) fn conditions(&self) -> Vec<&Condition> {
        let mut conditions = Vec::new();
        let mut waiting: Vec<&ValidationRule> = self.rules().iter().collect();
        while let Some(rule) = waiting.pop() {
            conditions.extend(&rule.condition);
            match &rule.requirement {
                Requirement::And(rules) | Requirement::Or(rules) => waiting.extend(rules),
                Requirement::Not(rule) => waiting.push(rule),
                _ => {}
            }
        }
        conditions
    }
}

/// One validation rule.
#[derive(Clone, Debug, PartialEq)]
pub struct ValidationRule {
    /// Requirement on the output.
    pub requirement: Requirement,
    /// Message if the output fails it.
    pub message: Option<Box<str>>,
    /// Condition under which the rule applies.
    pub condition: Option<Condition>,
}

/// Requirement of a rule on an output.
#[derive(Clone, Debug, PartialEq)]
pub enum Requirement {
    /// The output contains this text, case-sensitively.
    Contains(Box<str>),
    /// The output matches this pattern.
    Regex(Pattern),
    /// The output's number of characters is within bounds.
    Length {
        /// Lower bound, inclusive.
        min: Option<u64>,
        /// Upper bound, inclusive.
        max: Option<u64>,
    },
    /// The output is JSON that is valid against this JSON Schema.
    Schema(Box<Value>),
    /// All of these rules pass.
    And(Vec<ValidationRule>),
    /// One of these rules passes.
    Or(Vec<ValidationRule>),
    /// This rule does not pass.
    Not(Box<ValidationRule>),
}

impl Serialize for ValidationRule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match &self.requirement {
            Requirement::Contains(value) => {
                map.serialize_entry("type", "contains")?;
                map.serialize_entry("value", value)?;
            }
            Requirement::Regex(pattern) => {
                map.serialize_entry("type", "regex")?;
                map.serialize_entry("pattern", pattern.source())?;
                if !pattern.flags().is_empty() {
                    map.serialize_entry("flags", pattern.flags())?;
                }
            }
            Requirement::Length { min, max } => {
                map.serialize_entry("type", "length")?;
                if let Some(min) = min {
                    map.serialize_entry("min", min)?;
                }
                if let Some(max) = max {
                    map.serialize_entry("max", max)?;
                }
            }
            Requirement::Schema(schema) => {
                map.serialize_entry("type", "schema")?;
                map.serialize_entry("schema", schema)?;
            }
            Requirement::And(rules) => map.serialize_entry("and", rules)?,
            Requirement::Or(rules) => map.serialize_entry("or", rules)?,
            Requirement::Not(rule) => map.serialize_entry("not", rule)?,
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
