//! Schemas of peers and files: their cost is bounded before they are used.

use std::sync::OnceLock;

use jsonschema::Validator;
use mcp_flow_proto::text::truncate;
use serde_json::Value;

use crate::cost::{is_affordable, is_affordable_for};
use crate::plain::Plain;
use crate::{Violation, complete};

/// A compiled JSON Schema from an untrusted source, of the dialect that its `$schema` declares:
/// 2020-12 (the default), 2019-09, or draft 7, 6 or 4.
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
    /// Accepts most valid values if the schema uses common keywords only.
    plain: Option<Plain>,
    /// Compiled when first needed if there is a plain check: compiling the first one takes longer
    /// than all else a server does when it starts.
    validator: OnceLock<Validator>,
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
        let plain = Plain::compile(schema, false).ok();
        let compiled = Self { source: schema.clone(), plain, validator: OnceLock::new() };
        if compiled.plain.is_none() {
            let validator = complete::validator_as_declared(schema)?;
            compiled.validator.get_or_init(|| validator);
        }
        Ok(compiled)
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
        if self.plain.as_ref().is_some_and(|plain| plain.is_valid(&self.source, value)) {
            return Ok(Vec::new());
        }
        let validator = match self.validator.get() {
            Some(validator) => validator,
            None => match complete::validator_as_declared(&self.source) {
                Ok(validator) => self.validator.get_or_init(|| validator),
                Err(problem) => {
                    let sentence = format!("{whole} cannot be checked: {problem}");
                    return Ok(vec![Violation { pointer: String::new(), sentence }]);
                }
            },
        };
        let violations = validator.iter_errors(value).take(most).map(|error| {
            let pointer = error.instance_path().as_str().to_owned();
            let sentence = match pointer.as_str() {
                "" => error.masked_with(whole).to_string(),
                location => format!("{}: {}", truncate(location, MAX_LENGTH), error.masked()),
            };
            Violation { pointer, sentence: truncate(&sentence, MAX_LENGTH).into_owned() }
        });
        Ok(violations.collect())
    }
}

/// Limit on the characters of a sentence: schemas and values may be of any length.
const MAX_LENGTH: usize = 300;

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::UntrustedSchema;

    fn accepts(schema: &Value, value: &Value) -> Result<bool, String> {
        let schema = UntrustedSchema::compile(schema)?;
        Ok(schema.violations(value, "it", 1).is_ok_and(|violations| violations.is_empty()))
    }

    #[test]
    fn schemas_are_checked_by_their_declared_dialect() {
        // `items` with a list is a tuple up to draft 7, and invalid in 2020-12.
        let tuple = |dialect: &str| json!({"$schema": dialect, "items": [{"type": "string"}]});
        for draft in
            ["http://json-schema.org/draft-07/schema#", "http://json-schema.org/draft-04/schema"]
        {
            assert_eq!(accepts(&tuple(draft), &json!(["a", 1])), Ok(true), "{draft}");
            assert_eq!(accepts(&tuple(draft), &json!([1])), Ok(false), "{draft}");
        }
        for unusable in ["https://json-schema.org/draft/2020-12/schema", "https://a.example/mine"] {
            assert!(accepts(&tuple(unusable), &json!(["a"])).is_err(), "{unusable}");
        }
        assert_eq!(accepts(&json!({"prefixItems": [{"type": "string"}]}), &json!([1])), Ok(false));
    }
}
