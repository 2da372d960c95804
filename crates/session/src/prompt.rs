//! One question as a client sees it.

use jiff::civil::Date;
use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};

/// One question as a client sees it: what is asked, and the rules its answer must keep to.
///
/// Its JSON form is the one the interaction protocol sends (INT-118 to INT-127, C-14). Builders in
/// [`question`](crate::question) make prompts that are typed as well; [`Prompt::check`] is the one
/// place where answers are judged.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Prompt {
    /// What kind of answer is wanted.
    #[serde(rename = "type")]
    pub kind: PromptType,
    /// The question, for people.
    pub message: String,
    /// Shown where the answer will be typed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placeholder: Option<String>,
    /// Stands in for an empty answer (INT-121).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_value: Option<Value>,
    /// What can be chosen, for a choice.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<Choice>,
    /// Rules a client may check early and the server always does (C-49).
    #[serde(default, skip_serializing_if = "Rules::is_empty")]
    pub validation: Box<Rules>,
    /// Hints on how to show a custom question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ui: Option<Value>,
}

impl Prompt {
    /// A prompt of this kind that must be answered and has no further rules.
    pub fn new(kind: PromptType, message: &str) -> Self {
        Self {
            kind,
            message: message.to_owned(),
            placeholder: None,
            default_value: None,
            choices: Vec::new(),
            validation: Box::new(Rules { required: Some(true), ..Rules::default() }),
            ui: None,
        }
    }
}

/// What kind of answer a prompt wants (INT-013).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PromptType {
    /// A text.
    Text,
    /// One of the listed values.
    Choice,
    /// True or false.
    Confirm,
    /// A number.
    Number,
    /// A day, written YYYY-MM-DD.
    Date,
    /// A file, carried or named.
    File,
    /// Whatever a JSON Schema allows.
    Custom,
}

/// One thing that can be chosen (INT-032).
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Choice {
    /// What the answer holds when this is chosen.
    pub value: Value,
    /// What people read.
    pub label: String,
}

/// The rules of a prompt. Which of them a prompt can have depends on its type.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rules {
    /// Whether an empty answer is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub required: Option<bool>,
    /// A regular expression a text must match somewhere, unless it is anchored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// The least number, the earliest day, or the fewest characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<Bound>,
    /// The greatest number, the latest day, or the most characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<Bound>,
    /// Whether a number must be whole.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub integer: bool,
    /// The most bytes a file may have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_size: Option<u64>,
    /// The kinds of file that are taken; `image/*` stands for all of a family.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mime_types: Vec<String>,
    /// The schemes of addresses that are taken in place of a file; `https` and `http` if none is
    /// listed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uri_schemes: Vec<String>,
    /// The JSON Schema 2020-12 of a custom answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
}

impl Rules {
    /// Whether there is no rule at all.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// One end of what is allowed: a number, or a day.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(untagged)]
pub enum Bound {
    /// A number, or a count of characters.
    Number(Number),
    /// A day.
    Date(Date),
}

impl From<Date> for Bound {
    fn from(day: Date) -> Self {
        Self::Date(day)
    }
}

impl From<u64> for Bound {
    fn from(number: u64) -> Self {
        Self::Number(number.into())
    }
}

impl From<i64> for Bound {
    fn from(number: i64) -> Self {
        Self::Number(number.into())
    }
}

/// How far a conversation has come, as shown beside a question (INT-031).
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Progress {
    /// How much is done.
    pub current: f64,
    /// How much there is.
    pub total: f64,
    /// What is being done, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::Prompt;
    use serde_json::{Value, json};

    /// INT-118: the samples of the protocol round-trip unchanged.
    #[test]
    fn samples_survive_reading_and_writing() {
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

    /// INT-013: there are seven types and no other.
    #[test]
    fn other_types_are_refused() {
        for kind in [json!("colour"), json!("Text"), Value::Null, json!(1)] {
            let prompt = json!({"type": kind, "message": "?"});
            assert!(serde_json::from_value::<Prompt>(prompt).is_err());
        }
    }
}
