//! Arguments against their schema, with every violation in a sentence one can act on.

mod explain;
mod quick;

use std::sync::OnceLock;

use jsonschema::{Draft, PatternOptions, Validator};
use mcp_flow_proto::Raw;
use serde_json::Value;

use super::arguments::{ArgumentFault, build};
use explain::explain;
use quick::Quick;

pub(super) use explain::dotted;

/// A JSON Schema 2020-12, compiled once.
///
/// Most schemas are plain enough for a [`Quick`] check on the encoded arguments. Whatever it does
/// not accept, or a schema it does not know, goes to the complete validator, whose word counts.
///
/// Patterns run in linear time and references never leave the schema, so neither a tool's author
/// nor a caller can make a check expensive.
#[derive(Debug)]
pub(crate) struct Schema {
    source: Value,
    quick: Option<Quick>,
    complete: OnceLock<Validator>,
}

impl Schema {
    pub(crate) fn compile(schema: &Value) -> Result<Self, String> {
        let quick = Quick::compile(schema);
        let complete = OnceLock::new();
        if quick.is_none() {
            // What the quick check understands is known to be good; anything else is tried now.
            let _ = complete.set(validator(schema, false)?);
        }
        Ok(Self { source: schema.clone(), quick, complete })
    }

    /// The same for a schema whose formats are more than a hint.
    pub(crate) fn compile_with_formats(schema: &Value) -> Result<Self, String> {
        let complete = OnceLock::from(validator(schema, true)?);
        Ok(Self { source: schema.clone(), quick: None, complete })
    }

    /// Checks arguments that are still encoded.
    pub(crate) fn check(&self, arguments: Raw<'_>) -> Result<(), ArgumentFault> {
        if self.quick.as_ref().is_some_and(|quick| quick.accepts(arguments)) {
            return Ok(());
        }
        let arguments = build(arguments)?;
        let complete = self.complete();
        if complete.is_valid(&arguments) {
            return Ok(());
        }
        let violations = complete
            .iter_errors(&arguments)
            .flat_map(|error| explain(&self.source, &arguments, &error));
        Err(ArgumentFault::Violations(violations.take(MOST_VIOLATIONS).collect()))
    }
}

impl Schema {
    /// Whether a value keeps to the schema.
    pub(super) fn accepts(&self, value: &Value) -> bool {
        self.complete().is_valid(value)
    }

    fn complete(&self) -> &Validator {
        self.complete.get_or_init(|| {
            validator(&self.source, false).expect("the quick check only understands good schemas")
        })
    }
}

/// How many violations are told at once; who breaks more rules will hear of them next time.
const MOST_VIOLATIONS: usize = 20;

fn validator(schema: &Value, formats: bool) -> Result<Validator, String> {
    jsonschema::options()
        .with_draft(Draft::Draft202012)
        .should_validate_formats(formats)
        .with_pattern_options(PatternOptions::regex())
        .build(schema)
        .map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::Schema;
    use crate::tool::arguments::ArgumentFault;
    use mcp_flow_proto::Raw;
    use serde_json::json;

    #[test]
    fn long_values_are_not_repeated_in_full() {
        let schema = Schema::compile(&json!({"properties": {"a": {"type": "number"}}})).unwrap();
        let arguments = json!({"a": "é".repeat(10_000)}).to_string();
        let Err(ArgumentFault::Violations(violations)) = schema.check(Raw::Json(&arguments)) else {
            panic!("a text is no number")
        };
        assert!(violations[0].sentence.len() < 200);
    }

    #[test]
    fn many_violations_are_not_all_told() {
        let schema = Schema::compile(&json!({"additionalProperties": false})).unwrap();
        let members: Vec<_> = (0..10_000).map(|number| format!("\"a{number}\":1")).collect();
        let members = format!("{{{}}}", members.join(","));
        let Err(ArgumentFault::Violations(violations)) = schema.check(Raw::Json(&members)) else {
            panic!("none of the members is allowed")
        };
        assert!(violations.len() <= 20, "{}", violations.len());
        let many = format!("{{\"a\":[{}0]}}", "0,".repeat(300_000));
        assert!(matches!(schema.check(Raw::Json(&many)), Err(ArgumentFault::Unreadable(_))));
    }
}
