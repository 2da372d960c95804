//! Schemas of peers and files: their cost is bounded before they are used.

use jsonschema::Validator;
use mcp_flow_proto::text::truncate;
use serde_json::Value;

use crate::cost::{is_affordable, is_affordable_for};
use crate::{Violation, complete};

/// A compiled JSON Schema 2020-12 from an untrusted source.
///
/// ```
/// use mcp_flow_schema::UntrustedSchema;
/// use serde_json::json;
///
/// let schema = UntrustedSchema::compile(&json!({"type": "object", "required": ["a"]})).unwrap();
/// assert!(schema.violations(&json!({"a": 1}), "the output", 5).unwrap().is_empty());
///
/// let violations = schema.violations(&json!(7), "the output", 5).unwrap();
/// assert_eq!(violations[0].sentence, "the output is not of type \"object\"");
/// ```
#[derive(Debug)]
pub struct UntrustedSchema {
    source: Value,
    validator: Validator,
}

/// A value is too large or too deep to be checked against the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooCostly;

impl UntrustedSchema {
    /// Compiles a schema, unless it is too expensive or refers to something outside.
    pub fn compile(schema: &Value) -> Result<Self, String> {
        if !is_affordable(schema) {
            return Err("it asks for too many checks, or refers to what is not in it".to_owned());
        }
        let validator = complete::validator(schema, false)?;
        Ok(Self { source: schema.clone(), validator })
    }

    /// Lists violations of the schema, up to `most`. `whole` names the value in sentences, which do
    /// not repeat it, because it may be secret.
    pub fn violations(
        &self,
        value: &Value,
        whole: &str,
        most: usize,
    ) -> Result<Vec<Violation>, TooCostly> {
        if !is_affordable_for(&self.source, value) {
            return Err(TooCostly);
        }
        let violations = self.validator.iter_errors(value).take(most).map(|error| {
            let pointer = error.instance_path().as_str().to_owned();
            let sentence = match pointer.as_str() {
                "" => error.masked_with(whole).to_string(),
                location => format!("{}: {}", truncate(location, LONGEST), error.masked()),
            };
            Violation { pointer, sentence: truncate(&sentence, LONGEST).into_owned() }
        });
        Ok(violations.collect())
    }
}

/// Limit on the characters of a sentence: schemas and values may be of any length.
const LONGEST: usize = 300;
