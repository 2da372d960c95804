//! Elicitation: asking the user for input.
//!
//! A form asks for a flat object of simple values (`form` has the field types, `wire` encodes them
//! by revision, `from_schema` derives a form from a JSON Schema). URL mode sends the user to a page, for
//! data that must not pass through the client.

mod form;
mod from_schema;
mod wire;

use serde::Deserialize;
use serde_json::{Map, Value};

pub use form::{Field, FieldKind, FormChoice, FormSchema, TextFormat};
pub use from_schema::BadForm;
pub use wire::UnsupportedField;

/// A form for the user to fill in.
#[derive(Clone, Debug, PartialEq)]
pub struct ElicitForm {
    /// Explanation shown to the user.
    pub message: String,
    /// The fields of the form.
    pub schema: FormSchema,
}

/// A URL for the user to visit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElicitUrl {
    /// Explanation shown to the user.
    pub message: String,
    /// The URL.
    pub url: String,
    /// Identifies the elicitation when its completion is announced later; 2025-11-25 only.
    pub id: String,
}

/// The client's result of `elicitation/create`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct ElicitResult {
    /// The user's action.
    pub action: ElicitAction,
    /// The submitted values, if the user accepted.
    #[serde(default)]
    pub content: Option<Map<String, Value>>,
}

/// The user's reaction to an elicitation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ElicitAction {
    /// Accepted and submitted.
    Accept,
    /// Declined.
    Decline,
    /// Dismissed without a decision.
    Cancel,
}
