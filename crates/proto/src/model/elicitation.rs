//! Elicitation: asking the person behind the client.
//!
//! A form asks for a flat object of simple values (`form` says what it may hold, `wire` how it is
//! written by revision, `read` makes one out of a JSON Schema). A URL sends the person elsewhere,
//! for what must not pass through the client.

mod form;
mod read;
mod wire;

use serde::Deserialize;
use serde_json::{Map, Value};

pub use form::{Choice, Field, FieldKind, FormSchema, TextFormat};
pub use read::BadForm;
pub use wire::Unsayable;

/// Asks the person to fill in a form.
#[derive(Clone, Debug, PartialEq)]
pub struct ElicitForm {
    /// Why it is asked, for the person.
    pub message: String,
    /// What is asked.
    pub schema: FormSchema,
}

/// Asks the person to go somewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElicitUrl {
    /// Why, for the person.
    pub message: String,
    /// Where to.
    pub url: String,
    /// Names it where a client is told later that it is done; 2025-11-25 only.
    pub id: String,
}

/// What a client answers to `elicitation/create`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct ElicitResult {
    /// What the person did.
    pub action: ElicitAction,
    /// What was filled in, if it was.
    #[serde(default)]
    pub content: Option<Map<String, Value>>,
}

/// What a person did when asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ElicitAction {
    /// Agreed, and filled in what was asked.
    Accept,
    /// Said no.
    Decline,
    /// Went away without saying either.
    Cancel,
}
