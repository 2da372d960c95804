//! The built-in check, for the schemas that Rust types derive to.
//!
//! One compiled form serves two algorithms. [`scan`] checks encoded arguments without decoding
//! them; it may fail to accept valid arguments, such as a duplicate member, but never accepts
//! invalid ones. [`validate`] checks decoded values; its verdict is exact, and it lists every
//! violation.

mod compile;
mod format;
mod options;
mod pattern;
mod scan;
#[cfg(test)]
mod tests;
mod validate;

use mcp_flow_proto::Raw;
use regex::Regex;
use serde_json::{Number, Value};

use crate::Violation;
use format::Format;
use options::Options;
use scan::Scan;
use validate::Validation;

/// A compiled schema of the supported subset.
#[derive(Debug)]
pub(crate) struct Plain {
    /// Targets of references; the root schema comes first.
    definitions: Vec<Check>,
}

impl Plain {
    /// Compiles a schema; the error names the location and keyword that is invalid or unsupported.
    pub(crate) fn compile(schema: &Value, formats: bool) -> Result<Self, String> {
        compile::compile(schema, formats).map(|definitions| Self { definitions })
    }

    /// Returns whether encoded arguments are known to be valid.
    pub(crate) fn accepts(&self, arguments: Raw<'_>) -> bool {
        Scan::new(self, arguments).accepts(&self.definitions[ROOT], arguments)
    }

    /// Returns whether a value conforms to the schema.
    pub(crate) fn is_valid(&self, source: &Value, value: &Value) -> bool {
        Validation::new(self, source).accepts(value)
    }

    /// Lists violations of the schema, which was compiled from this source.
    pub(crate) fn violations(&self, source: &Value, value: &Value) -> Vec<Violation> {
        Validation::new(self, source).violations(value)
    }
}

/// The index of the root schema among the definitions.
const ROOT: usize = 0;

/// The keywords of one schema. Each restricts values of its own type only.
#[derive(Debug, Default)]
struct Check {
    types: Types,
    /// The types of which every value is valid.
    free: Types,
    bounds: Vec<Bound>,
    text: Option<Box<Text>>,
    list: Option<Box<List>>,
    object: Option<Box<Object>>,
    rest: Option<Box<Rest>>,
}

/// The keywords that apply to values of any type.
#[derive(Debug, Default)]
struct Rest {
    /// `enum` and `const`.
    options: Vec<Options>,
    /// `$ref`, as an index among the definitions.
    reference: Option<usize>,
    /// `allOf`.
    all: Vec<Check>,
    /// `anyOf` and `oneOf`.
    forms: Vec<Forms>,
}

/// A set of JSON types, one bit for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Types(u8);

impl Types {
    const NONE: Self = Self(0);
    const ALL: Self = Self(0x7f);
    const NULL: Self = Self(1);
    const BOOLEAN: Self = Self(2);
    const INTEGER: Self = Self(4);
    const NUMBER: Self = Self(8);
    const STRING: Self = Self(16);
    const ARRAY: Self = Self(32);
    const OBJECT: Self = Self(64);

    /// The names of the types, in the order sentences list them.
    const NAMES: [&str; 7] = ["null", "boolean", "integer", "number", "string", "array", "object"];

    fn named(name: &str) -> Option<Self> {
        Self::NAMES.iter().position(|one| *one == name).map(|position| Self(1 << position))
    }

    fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    fn without(self, other: Self, is_left_out: bool) -> Self {
        if is_left_out { Self(self.0 & !other.0) } else { self }
    }

    fn names(self) -> Vec<&'static str> {
        let here = |position: &usize| self.has(Self(1 << position));
        (0..Self::NAMES.len()).filter(here).map(|position| Self::NAMES[position]).collect()
    }
}

impl Default for Types {
    fn default() -> Self {
        Self::ALL
    }
}

/// A bound of a number.
#[derive(Debug)]
struct Bound {
    side: Side,
    limit: Number,
    /// The nearest float to the bound.
    float: f64,
}

#[derive(Clone, Copy, Debug)]
enum Side {
    Minimum,
    Maximum,
    ExclusiveMinimum,
    ExclusiveMaximum,
}

/// The bounds of a length.
#[derive(Clone, Copy, Debug, Default)]
struct Length {
    minimum: Option<u64>,
    maximum: Option<u64>,
}

impl Length {
    /// Returns whether a length is allowed; counts only if needed.
    fn holds(self, count: impl FnOnce() -> usize) -> bool {
        if self.minimum.is_none() && self.maximum.is_none() {
            return true;
        }
        let count = count() as u64;
        self.minimum.is_none_or(|minimum| count >= minimum)
            && self.maximum.is_none_or(|maximum| count <= maximum)
    }
}

#[derive(Debug, Default)]
struct Text {
    length: Length,
    pattern: Option<Pattern>,
    format: Option<Format>,
}

#[derive(Debug)]
struct Pattern {
    source: String,
    regex: Regex,
}

#[derive(Debug, Default)]
struct List {
    prefix: Vec<Check>,
    /// The check of items after the prefix.
    items: Option<Check>,
    length: Length,
    unique: bool,
}

#[derive(Debug, Default)]
struct Object {
    names: Vec<String>,
    /// One for each name.
    checks: Vec<Check>,
    required: Vec<String>,
    /// One bit for each required name; `None` if a name has no bit.
    required_bits: Option<u64>,
    patterns: Vec<(Pattern, Check)>,
    others: Others,
    length: Length,
}

/// The rule for members that neither a name nor a pattern covers.
#[derive(Debug, Default)]
enum Others {
    #[default]
    Allowed,
    Forbidden,
    Checked(Box<Check>),
}

/// Alternatives, of which at least or exactly one must match.
#[derive(Debug)]
struct Forms {
    checks: Vec<Check>,
    exactly_one: bool,
    /// Their location in the schema.
    location: String,
    /// Their constant texts, if they are nothing else and distinct.
    texts: Option<Vec<String>>,
    /// One for each alternative.
    marks: Vec<Mark>,
    /// The members that marks refer to.
    names: Vec<String>,
}

/// Cheap tests that rule out an alternative, so that nested values are not checked against each.
#[derive(Debug)]
struct Mark {
    types: Types,
    /// A member the alternative requires, as an index among the names.
    required: Option<usize>,
    /// A member that must be a constant text, as an index among the names.
    fixed: Option<(usize, String)>,
}
