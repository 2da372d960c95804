//! JSON Schema validation for the whole workspace.
//!
//! Nearly all schemas of tools are derived from Rust types and use few keywords. The built-in check
//! handles those: it accepts most arguments without decoding them, and explains violations. The
//! feature `complete` adds the jsonschema crate for every other schema; without it, such a schema
//! is rejected when it is compiled. It also adds `UntrustedSchema`, for schemas of peers and of
//! files.

mod cache;
// Tests compare the built-in check with it, whatever the features.
#[cfg(any(feature = "complete", test))]
mod complete;
mod cost;
mod forms;
mod number;
mod plain;
mod sentence;
#[cfg(feature = "complete")]
mod untrusted;

use mcp_flow_proto::{DecodeError, Raw};
use serde_json::Value;

use plain::Plain;

pub use cache::Cache;
pub use cost::{is_affordable, is_affordable_for, schema_cost};
pub use sentence::{WHOLE, dotted, member};
#[cfg(feature = "complete")]
pub use untrusted::{TooCostly, UntrustedSchema};

/// A compiled JSON Schema 2020-12.
///
/// Patterns run in linear time, references never leave the schema, and the steps of a check are
/// bounded, so neither the author of a schema nor a caller can make a check expensive.
///
/// ```
/// use mcp_flow_proto::Raw;
/// use mcp_flow_schema::{CheckError, Schema};
///
/// let schema = serde_json::json!({"type": "object", "required": ["a"]});
/// let schema = Schema::compile(&schema).unwrap();
/// assert!(schema.check(Raw::Json(r#"{"a":1}"#)).is_ok());
///
/// let Err(CheckError::Violations(violations)) = schema.check(Raw::Json("{}")) else { panic!() };
/// assert_eq!(violations[0].sentence, "a is required");
/// ```
#[derive(Debug)]
pub struct Schema {
    source: Value,
    check: Check,
}

#[derive(Debug)]
enum Check {
    Plain(Plain),
    #[cfg(feature = "complete")]
    Complete {
        validator: Box<jsonschema::Validator>,
        /// Set if the cost of a check depends on the value.
        is_recursive: bool,
    },
}

/// The reason arguments are rejected.
#[derive(Debug)]
pub enum CheckError {
    /// They cannot be decoded, for example because they nest too deep.
    Unreadable(DecodeError),
    /// They violate the schema.
    Violations(Vec<Violation>),
}

/// One violation of a schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// JSON Pointer to the offending value; empty for the whole.
    pub pointer: String,
    /// Sentence that says what is wrong and what would be right.
    pub sentence: String,
}

impl Violation {
    /// Describes a violation by the argument of this name, or by all of them if it is empty.
    pub fn named(name: &str, sentence: impl Into<String>) -> Self {
        let pointer = if name.is_empty() { String::new() } else { member("", name) };
        Self { pointer, sentence: sentence.into() }
    }
}

impl Schema {
    /// Compiles a schema whose formats are annotations, as those of tools are.
    pub fn compile(schema: &Value) -> Result<Self, String> {
        let check = match Plain::compile(schema, false) {
            Ok(plain) => Check::Plain(plain),
            Err(reason) => compile_rest(schema, false, reason)?,
        };
        Ok(Self { source: schema.clone(), check })
    }

    /// Compiles a schema whose formats are enforced, as those of forms are.
    pub fn compile_with_formats(schema: &Value) -> Result<Self, String> {
        // The built-in check supports the formats of forms, and is a little stricter on email
        // addresses; if both are available, the complete one decides.
        let check = if cfg!(feature = "complete") {
            compile_rest(schema, true, String::new())?
        } else {
            Check::Plain(Plain::compile(schema, true)?)
        };
        Ok(Self { source: schema.clone(), check })
    }

    /// Checks arguments that are still encoded.
    pub fn check(&self, arguments: Raw<'_>) -> Result<(), CheckError> {
        if let Check::Plain(plain) = &self.check
            && plain.accepts(arguments)
        {
            return Ok(());
        }
        let arguments = build(arguments).map_err(CheckError::Unreadable)?;
        let violations = match &self.check {
            Check::Plain(plain) => plain.violations(&self.source, &arguments),
            #[cfg(feature = "complete")]
            Check::Complete { validator, .. } if self.allows(&arguments) => {
                complete::violations(validator, &self.source, &arguments)
            }
            #[cfg(feature = "complete")]
            Check::Complete { .. } => vec![sentence::too_many_steps()],
        };
        if violations.is_empty() { Ok(()) } else { Err(CheckError::Violations(violations)) }
    }

    /// Returns whether a value conforms to the schema.
    pub fn accepts(&self, value: &Value) -> bool {
        match &self.check {
            Check::Plain(plain) => plain.is_valid(&self.source, value),
            #[cfg(feature = "complete")]
            Check::Complete { validator, .. } => self.allows(value) && validator.is_valid(value),
        }
    }

    /// Returns whether a value can be checked in reasonable time.
    #[cfg(feature = "complete")]
    fn allows(&self, value: &Value) -> bool {
        match &self.check {
            Check::Complete { is_recursive: true, .. } => is_affordable_for(&self.source, value),
            _ => true,
        }
    }
}

/// Decodes arguments, unless they hold too many values.
pub fn build(arguments: Raw<'_>) -> Result<Value, DecodeError> {
    if arguments.count() > MAX_VALUES {
        return Err(DecodeError::Shape(format!("they hold more than {MAX_VALUES} values")));
    }
    arguments.decode()
}

/// Compiles a schema that the built-in check does not support, for this reason.
#[cfg(feature = "complete")]
fn compile_rest(schema: &Value, formats: bool, _: String) -> Result<Check, String> {
    let is_recursive = cost::affordable_recursion(schema).ok_or(
        "it asks for too many checks, or refers to what is not in it; give references as `#/$defs/name`",
    )?;
    let validator = Box::new(complete::validator(schema, formats)?);
    Ok(Check::Complete { validator, is_recursive })
}

#[cfg(not(feature = "complete"))]
fn compile_rest(_: &Value, _: bool, reason: String) -> Result<Check, String> {
    Err(reason)
}

/// Limit on the values of decoded arguments.
const MAX_VALUES: usize = 256 * 1024;

/// Limit on violations reported at once; the rest are reported on the next attempt.
const MAX_VIOLATIONS: usize = 20;

#[cfg(test)]
mod tests;
