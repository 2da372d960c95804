//! Constant values: `enum` and `const`.

use mcp_flow_proto::{Raw, ValueKind};
use serde_json::Value;

use crate::number::equal;
use crate::sentence::Rule;

/// The values a schema allows.
#[derive(Debug)]
pub(super) enum Options {
    /// The list of an `enum`.
    Several(Value),
    /// The value of a `const`.
    One(Value),
}

impl Options {
    pub(super) fn hold(&self, value: &Value) -> bool {
        self.values().iter().any(|option| equal(option, value))
    }

    pub(super) fn hold_text(&self, text: &str) -> bool {
        self.values().iter().any(|option| option.as_str() == Some(text))
    }

    /// Returns whether an encoded value is known to be one of them; arrays and objects never are.
    pub(super) fn accept(&self, value: Raw<'_>) -> bool {
        match value.kind() {
            ValueKind::String => value.as_text().is_some_and(|text| self.hold_text(&text)),
            ValueKind::Null | ValueKind::Boolean | ValueKind::Number => {
                value.decode().is_ok_and(|value| self.hold(&value))
            }
            ValueKind::Array | ValueKind::Object | ValueKind::Other => false,
        }
    }

    pub(super) fn rule(&self) -> Rule<'_> {
        match self {
            Self::Several(options) => Rule::Options(options),
            Self::One(constant) => Rule::Constant(constant),
        }
    }

    fn values(&self) -> &[Value] {
        match self {
            Self::Several(Value::Array(options)) => options,
            Self::Several(other) | Self::One(other) => std::slice::from_ref(other),
        }
    }
}
