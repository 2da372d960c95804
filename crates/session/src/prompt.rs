//! Prompts: questions as clients see them, with their validation rules.

use jiff::civil::Date;
use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};

/// A question as a client sees it, with the rules for its answer.
///
/// Its JSON form is that of the interaction protocol (INT-118 to INT-127, C-14). Builders in
/// [`question`](crate::question) create prompts with a typed answer; [`Prompt::check`] validates
/// all answers.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Prompt {
    /// Type of the answer.
    #[serde(rename = "type")]
    pub kind: PromptType,
    /// Question shown to the user.
    pub message: String,
    /// Placeholder of the input field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placeholder: Option<String>,
    /// Value of an empty answer (INT-121).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_value: Option<Value>,
    /// Options of a choice.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<ChoiceOption>,
    /// Validation rules. Clients may check them early; the server always does (C-49).
    #[serde(default, skip_serializing_if = "AnswerRules::is_empty")]
    pub validation: Box<AnswerRules>,
    /// Hints for the user interface of a custom question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ui: Option<Value>,
}

impl Prompt {
    /// Creates a required prompt without further rules.
    pub fn new(kind: PromptType, message: &str) -> Self {
        Self {
            kind,
            message: message.to_owned(),
            placeholder: None,
            default_value: None,
            choices: Vec::new(),
            validation: Box::new(AnswerRules { required: Some(true), ..AnswerRules::default() }),
            ui: None,
        }
    }

    /// Returns whether it asks a person to approve something, rather than for a value. Only an answer
    /// approves, never a parameter of the start.
    pub fn is_approval(&self) -> bool {
        self.ui.as_ref().is_some_and(|ui| ui["approval"] == true)
    }
}

/// Type of the answer to a prompt (INT-013).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PromptType {
    /// A text.
    Text,
    /// One of the listed options.
    Choice,
    /// True or false.
    Confirm,
    /// A number.
    Number,
    /// A date, written YYYY-MM-DD.
    Date,
    /// A file, inline or by URI.
    File,
    /// Any JSON that a schema allows.
    Custom,
}

/// One option of a choice (INT-032).
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct ChoiceOption {
    /// Value of the answer when this is chosen.
    pub value: Value,
    /// Label shown to the user.
    pub label: String,
}

/// Validation rules of a prompt. Which of them apply depends on its type.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AnswerRules {
    /// Set if an empty answer is invalid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub required: Option<bool>,
    /// Regular expression that must match somewhere in a text, unless it is anchored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// Description of the texts that match the pattern, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern_description: Option<String>,
    /// Least number, earliest date, or fewest characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<RangeBound>,
    /// Greatest number, latest date, or most characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<RangeBound>,
    /// Set if a number must be an integer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub integer: bool,
    /// Most bytes of a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_size: Option<u64>,
    /// Allowed MIME types; `image/*` allows all of a type. All are allowed if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mime_types: Vec<String>,
    /// Allowed schemes of the URI of a file; `https` and `http` if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uri_schemes: Vec<String>,
    /// JSON Schema 2020-12 of a custom answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
}

impl AnswerRules {
    /// Returns whether there are no rules.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Lower or upper bound of a range.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(untagged)]
pub enum RangeBound {
    /// A number, or a number of characters.
    Number(Number),
    /// A date.
    Date(Date),
}

impl From<Date> for RangeBound {
    fn from(day: Date) -> Self {
        Self::Date(day)
    }
}

impl From<u64> for RangeBound {
    fn from(number: u64) -> Self {
        Self::Number(number.into())
    }
}

impl From<i64> for RangeBound {
    fn from(number: i64) -> Self {
        Self::Number(number.into())
    }
}

/// Progress of a flow, shown with a question (INT-031).
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct FlowProgress {
    /// Amount done.
    pub current: f64,
    /// Total amount.
    pub total: f64,
    /// Description for the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::Prompt;
    use serde_json::{Value, json};

    /// INT-118: the samples of the protocol round-trip unchanged.
    #[test]
    fn samples_round_trip() {
        for sample in [
            json!({"type": "text", "message": "Enter text:", "placeholder": "Type here...",
                "defaultValue": "default",
                "validation": {"required": true, "pattern": "^[a-z]+$", "min": 3, "max": 50}}),
            json!({"type": "choice", "message": "Select option:",
                "choices": [{"value": "a", "label": "Option A"}, {"value": "b", "label": "Option B"}],
                "validation": {"required": true}}),
            json!({"type": "confirm", "message": "Are you sure?", "defaultValue": false}),
            json!({"type": "number", "message": "Enter amount:",
                "validation": {"required": true, "min": 0, "max": 1000}}),
            json!({"type": "date", "message": "Select date:",
                "validation": {"required": true, "min": "2024-02-29"}}),
            json!({"type": "file", "message": "Upload:",
                "validation": {"maxSize": 1024, "mimeTypes": ["image/*"]}}),
            json!({"type": "custom", "message": "Draw:",
                "validation": {"schema": {"type": "object"}}, "ui": {"widget": "canvas"}}),
        ] {
            let prompt: Prompt = serde_json::from_value(sample.clone()).unwrap();
            assert_eq!(serde_json::to_value(&prompt).unwrap(), sample);
        }
    }

    /// INT-013: there are exactly seven types.
    #[test]
    fn unknown_types_are_rejected() {
        for kind in [json!("colour"), json!("Text"), Value::Null, json!(1)] {
            let prompt = json!({"type": kind, "message": "?"});
            assert!(serde_json::from_value::<Prompt>(prompt).is_err());
        }
    }
}
