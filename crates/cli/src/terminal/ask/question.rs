//! A question to the person, from a session's prompt, a schema or this program.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mcp_flow::session::prompt::{ChoiceOption, Prompt, PromptType, RangeBound};
use mcp_flow::session::{InvalidAnswer, limits};
use serde_json::{Value, json};

use crate::configuration::json_problem;

/// Question with its widget and validation rules.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    /// Key of the answer in a file of answers.
    pub(crate) key: String,
    /// Text of the question.
    pub(crate) message: String,
    /// Help, on a line of its own.
    pub(crate) help: Option<String>,
    pub(crate) widget: Widget,
    /// Value of an empty answer.
    pub(crate) default: Option<Value>,
    /// Validation rules. Checked here to save a round trip; the server checks them as well.
    pub(crate) rules: Prompt,
}

/// Input widget of a question.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Widget {
    /// A line of text, or several.
    Text { placeholder: Option<String> },
    /// An existing text to edit.
    Edit,
    /// Yes, no, or edit it first.
    Decision,
    /// One of a list.
    Choice(Vec<ChoiceOption>),
    /// Any number of a list.
    Choices(Vec<ChoiceOption>),
    /// Yes or no.
    Confirm,
    /// A number.
    Number,
    /// A date, optionally within a range.
    Date { earliest: Option<String>, latest: Option<String> },
    /// The path of a file whose content is the answer.
    File,
    /// The path of a file as the answer.
    Path,
    /// Any JSON.
    Json,
}

impl Question {
    /// Creates the question of a session's prompt.
    pub(crate) fn of_prompt(key: &str, prompt: Prompt) -> Self {
        Self {
            key: key.to_owned(),
            message: prompt.message.clone(),
            help: None,
            widget: Widget::of_prompt(&prompt),
            default: prompt.default_value.clone(),
            rules: prompt,
        }
    }

    /// Creates a question to edit a text; an empty answer keeps it.
    pub(crate) fn edit(name: &str, text: &str) -> Self {
        let mut prompt = Prompt::new(PromptType::Text, name);
        prompt.default_value = Some(text.into());
        Self { widget: Widget::Edit, ..Self::of_prompt(name, prompt) }
    }

    /// Creates a question to approve, edit or deny something. An empty answer denies.
    pub(crate) fn decision(message: &str) -> Self {
        let mut prompt = Prompt::new(PromptType::Choice, message);
        let choice = |name: &str| ChoiceOption { value: name.into(), label: name.to_owned() };
        prompt.choices = [YES, EDIT, NO].map(choice).to_vec();
        prompt.default_value = Some(NO.into());
        Self { widget: Widget::Decision, ..Self::of_prompt("decision", prompt) }
    }

    /// Returns whether an empty answer is rejected.
    pub(crate) fn is_required(&self) -> bool {
        self.rules.validation.required == Some(true) && self.default.is_none()
    }

    /// Returns whether a text may have several lines: no rule limits it to a short one or a format.
    pub(crate) fn may_be_long(&self) -> bool {
        let rules = &self.rules.validation;
        let schema = rules.schema.as_ref();
        let limit = schema.and_then(|schema| schema["maxLength"].as_u64());
        let has_form = |schema: &Value| {
            ["pattern", "format"].iter().any(|member| schema.get(*member).is_some())
        };
        rules.pattern.is_none()
            && rules.max.is_none()
            && limit.is_none_or(|most| most > MAX_LINE_LENGTH)
            && !schema.is_some_and(has_form)
    }

    /// Parses typed text into a valid value.
    pub(crate) fn parse(&self, text: &str) -> Result<Value, InvalidAnswer> {
        let value = if text.is_empty() { Value::Null } else { self.widget.parse(text)? };
        self.check(&value)
    }

    /// Validates an answer; returns its normalized value.
    pub(crate) fn check(&self, value: &Value) -> Result<Value, InvalidAnswer> {
        self.rules.check(value).map_err(|violation| without_pattern(violation, &self.rules))
    }
}

impl Widget {
    fn of_prompt(prompt: &Prompt) -> Self {
        let day = |bound: &Option<RangeBound>| match bound {
            Some(RangeBound::Date(day)) => Some(day.to_string()),
            _ => None,
        };
        match prompt.kind {
            PromptType::Text => Self::Text { placeholder: prompt.placeholder.clone() },
            PromptType::Choice => Self::Choice(prompt.choices.clone()),
            PromptType::Confirm => Self::Confirm,
            PromptType::Number => Self::Number,
            PromptType::Date => Self::Date {
                earliest: day(&prompt.validation.min),
                latest: day(&prompt.validation.max),
            },
            PromptType::File => Self::File,
            PromptType::Custom => Self::Json,
        }
    }

    /// Parses typed text into a value, which is not validated yet.
    pub(crate) fn parse(&self, text: &str) -> Result<Value, InvalidAnswer> {
        let plain = text.trim();
        match self {
            Self::Text { .. } | Self::Edit | Self::Path => Ok(text.into()),
            Self::Decision => match plain.to_lowercase().as_str() {
                "y" | YES => Ok(YES.into()),
                "e" | EDIT => Ok(EDIT.into()),
                "n" | NO => Ok(NO.into()),
                _ => Err(InvalidAnswer::new("answer yes, edit or no")),
            },
            Self::Date { .. } => Ok(plain.into()),
            Self::Choice(choices) => find_choice(choices, plain),
            Self::Choices(choices) => {
                let words = plain.split(',').map(str::trim).filter(|word| !word.is_empty());
                words.map(|word| find_choice(choices, word)).collect()
            }
            Self::Confirm => match plain.to_lowercase().as_str() {
                "y" | "yes" | "true" => Ok(true.into()),
                "n" | "no" | "false" => Ok(false.into()),
                _ => Err(InvalidAnswer::new("answer yes or no")),
            },
            Self::Number => match serde_json::from_str(plain) {
                Ok(number @ Value::Number(_)) => Ok(number),
                _ => {
                    Err(InvalidAnswer::new("enter a number").suggest("Use digits, for example 42"))
                }
            },
            Self::File => file(plain),
            Self::Json => serde_json::from_str(plain).map_err(|error| {
                let hint = r#"Write texts in quotes and objects as {"name": "value"}"#;
                InvalidAnswer::new(format!("enter valid JSON: {}", json_problem(&error)))
                    .suggest(hint)
            }),
        }
    }
}

/// Replaces a suggestion that quotes the regular expression of a prompt by its author's example.
pub(crate) fn without_pattern(mut violation: InvalidAnswer, prompt: &Prompt) -> InvalidAnswer {
    let suggestion = violation.suggestion.as_deref().unwrap_or_default();
    let pattern = prompt.validation.pattern.as_deref();
    if pattern.is_some_and(|pattern| suggestion.contains(pattern)) {
        let example = prompt.placeholder.as_ref();
        violation.suggestion = example.map(|example| format!("Example: {example}"));
    }
    violation
}

/// Finds a choice by its value, its label or its number in the list.
fn find_choice(choices: &[ChoiceOption], text: &str) -> Result<Value, InvalidAnswer> {
    let by_name =
        choices.iter().find(|choice| value_text(&choice.value) == text || choice.label == text);
    let by_number = || choices.get(text.parse::<usize>().ok()?.checked_sub(1)?);
    match by_name.or_else(by_number) {
        Some(choice) => Ok(choice.value.clone()),
        None => {
            let names: Vec<_> = choices.iter().map(|choice| value_text(&choice.value)).collect();
            Err(InvalidAnswer::new("choose one of the listed values")
                .suggest(format!("Enter one of {}", names.join(", "))))
        }
    }
}

/// Creates the answer for a file: its content by path, or its URL.
fn file(text: &str) -> Result<Value, InvalidAnswer> {
    if text.contains("://") {
        return Ok(json!({"uri": text}));
    }
    let path = std::path::Path::new(text);
    let problem =
        |error: std::io::Error| InvalidAnswer::new(format!("cannot read {text}: {error}"));
    let size = std::fs::metadata(path).map_err(problem)?.len();
    if size > MAX_FILE_BYTES {
        return Err(InvalidAnswer::new(format!("{text} is too large to send: {size} bytes"))
            .suggest("Enter a URL to fetch it from instead"));
    }
    let data = std::fs::read(path).map_err(problem)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut answer = json!({"name": name, "data": STANDARD.encode(data)});
    if let Some(kind) = mime_guess::from_path(path).first_raw() {
        answer["mimeType"] = kind.into();
    }
    Ok(answer)
}

/// Formats a value as a person would type it.
pub(crate) fn value_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Answers to a decision.
pub(crate) const YES: &str = "yes";
pub(crate) const EDIT: &str = "edit";
pub(crate) const NO: &str = "no";

/// Number of characters that people type on one line.
const MAX_LINE_LENGTH: u64 = 200;

/// Largest file that is sent, in bytes. A rule of the question may allow more than the default.
const MAX_FILE_BYTES: u64 = 8 * limits::FILE;

#[cfg(test)]
mod tests {
    use mcp_flow::session::prompt::Prompt;
    use serde_json::{Value, json};

    use super::Question;

    fn question(prompt: Value) -> Question {
        let prompt: Prompt = serde_json::from_value(prompt).unwrap();
        Question::of_prompt("key", prompt)
    }

    /// INT-096, INT-118: typed text becomes a value of the question's type, and values that violate
    /// its rules are rejected before they are sent.
    #[test]
    fn typed_text_is_parsed_by_the_type_of_the_question() {
        let choices = json!([{"value": "a", "label": "Option A"}, {"value": 7, "label": "Seven"}]);
        for (prompt, typed, value) in [
            (json!({"type": "text", "message": "?"}), "  two words", Some(json!("  two words"))),
            (json!({"type": "text", "message": "?"}), "7", Some(json!("7"))),
            (json!({"type": "text", "message": "?"}), "", Some(json!(null))),
            (json!({"type": "text", "message": "?", "defaultValue": "x"}), "", Some(json!("x"))),
            (json!({"type": "text", "message": "?", "validation": {"required": true}}), "", None),
            (json!({"type": "choice", "message": "?", "choices": choices}), "a", Some(json!("a"))),
            (
                json!({"type": "choice", "message": "?", "choices": choices}),
                "Seven",
                Some(json!(7)),
            ),
            (json!({"type": "choice", "message": "?", "choices": choices}), "2", Some(json!(7))),
            (json!({"type": "choice", "message": "?", "choices": choices}), "0", None),
            (json!({"type": "confirm", "message": "?"}), "Yes", Some(json!(true))),
            (json!({"type": "confirm", "message": "?"}), "maybe", None),
            (json!({"type": "number", "message": "?"}), " 2.5 ", Some(json!(2.5))),
            (json!({"type": "number", "message": "?"}), "two", None),
            (json!({"type": "number", "message": "?", "validation": {"max": 9}}), "10", None),
            (json!({"type": "date", "message": "?"}), "2027-02-28", Some(json!("2027-02-28"))),
            (json!({"type": "date", "message": "?"}), "2027-02-30", None),
            (
                json!({"type": "file", "message": "?"}),
                "https://a.example/b",
                Some(json!({"uri": "https://a.example/b"})),
            ),
            (json!({"type": "file", "message": "?"}), "/nowhere/to/be/found", None),
            (json!({"type": "custom", "message": "?"}), r#"{"x": 1}"#, Some(json!({"x": 1}))),
            (json!({"type": "custom", "message": "?"}), "{x: 1}", None),
        ] {
            let parsed = question(prompt.clone()).parse(typed);
            assert_eq!(parsed.as_ref().ok(), value.as_ref(), "{typed:?} for {prompt}: {parsed:?}");
        }
    }

    #[test]
    fn a_pattern_is_explained_by_an_example() {
        let rules = json!({"pattern": "^[^@]+@[^@]+$"});
        let mut prompt = json!({"type": "text", "message": "?", "validation": rules});
        let violation = question(prompt.clone()).parse("ada").unwrap_err();
        assert_eq!(violation.suggestion, None);
        prompt["placeholder"] = "ada@example.com".into();
        let violation = question(prompt).parse("ada").unwrap_err();
        assert_eq!(violation.suggestion.as_deref(), Some("Example: ada@example.com"));
    }

    #[test]
    fn a_file_is_sent_with_its_name_and_media_type() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.csv");
        std::fs::write(&path, "x").unwrap();
        let parsed =
            question(json!({"type": "file", "message": "?"})).parse(path.to_str().unwrap());
        assert_eq!(
            parsed.unwrap(),
            json!({"name": "a.csv", "data": "eA==", "mimeType": "text/csv"})
        );
    }
}
