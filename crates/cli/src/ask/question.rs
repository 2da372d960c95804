//! One question to the person at the terminal, whoever asks it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mcp_flow::session::prompt::{ChoiceOption, Prompt, PromptType, RangeBound};
use mcp_flow::session::{InvalidAnswer, limits};
use serde_json::{Value, json};

/// One question: what is read, how it is answered, and the rules its answer must keep to.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    /// What `--answers` knows it by.
    pub(crate) key: String,
    /// What is asked, for people.
    pub(crate) message: String,
    /// More about it, in a line of its own.
    pub(crate) help: Option<String>,
    pub(crate) widget: Widget,
    /// What stands in for an empty answer.
    pub(crate) default: Option<Value>,
    /// The rules. They are checked here to save a round trip; the server checks them too.
    pub(crate) rules: Prompt,
}

/// By what a person answers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Widget {
    /// A line of text, or several.
    Text { placeholder: Option<String> },
    /// A text that is there already, to be changed.
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
    /// A day of the calendar, between two if they are given.
    Date { earliest: Option<String>, latest: Option<String> },
    /// The path of a file, whose content is the answer.
    File,
    /// The path of a file, which is the answer.
    Path,
    /// Any JSON.
    Json,
}

impl Question {
    /// A question of a conversation.
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

    /// A text to be changed; an empty answer leaves it as it is.
    pub(crate) fn edit(name: &str, text: &str) -> Self {
        let mut prompt = Prompt::new(PromptType::Text, name);
        prompt.default_value = Some(text.into());
        Self { widget: Widget::Edit, ..Self::of_prompt(name, prompt) }
    }

    /// Returns whether something goes ahead as it is, not at all, or edited; not at all, if nothing is said.
    pub(crate) fn decision(message: &str) -> Self {
        let mut prompt = Prompt::new(PromptType::Choice, message);
        let choice = |name: &str| ChoiceOption { value: name.into(), label: name.to_owned() };
        prompt.choices = [YES, EDIT, NO].map(choice).to_vec();
        prompt.default_value = Some(NO.into());
        Self { widget: Widget::Decision, ..Self::of_prompt("decision", prompt) }
    }

    /// Whether an empty answer is refused.
    pub(crate) fn is_required(&self) -> bool {
        self.rules.validation.required == Some(true) && self.default.is_none()
    }

    /// Whether a text may well have several lines: nothing says that it is short, or of a form.
    pub(crate) fn may_be_long(&self) -> bool {
        let rules = &self.rules.validation;
        let schema = rules.schema.as_ref();
        let limit = schema.and_then(|schema| schema["maxLength"].as_u64());
        let has_form = |schema: &Value| {
            ["pattern", "format"].iter().any(|member| schema.get(*member).is_some())
        };
        rules.pattern.is_none()
            && rules.max.is_none()
            && limit.is_none_or(|most| most > LONGEST_LINE)
            && !schema.is_some_and(has_form)
    }

    /// What was typed, as the value it stands for, if the rules allow it.
    pub(crate) fn read(&self, text: &str) -> Result<Value, InvalidAnswer> {
        let value = if text.is_empty() { Value::Null } else { self.widget.read(text)? };
        self.check(&value)
    }

    /// Judges an answer; gives back what counts.
    pub(crate) fn check(&self, value: &Value) -> Result<Value, InvalidAnswer> {
        self.rules.check(value)
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

    /// What was typed, as a value. It is not yet judged by any rules.
    pub(crate) fn read(&self, text: &str) -> Result<Value, InvalidAnswer> {
        let plain = text.trim();
        match self {
            Self::Text { .. } | Self::Edit | Self::Path => Ok(text.into()),
            Self::Decision => match plain.to_lowercase().as_str() {
                "y" | YES => Ok(YES.into()),
                "e" | EDIT => Ok(EDIT.into()),
                "n" | NO => Ok(NO.into()),
                _ => Err(InvalidAnswer::new("this is no decision").suggest("Use yes, edit or no")),
            },
            Self::Date { .. } => Ok(plain.into()),
            Self::Choice(choices) => chosen(choices, plain),
            Self::Choices(choices) => {
                let words = plain.split(',').map(str::trim).filter(|word| !word.is_empty());
                words.map(|word| chosen(choices, word)).collect()
            }
            Self::Confirm => match plain.to_lowercase().as_str() {
                "y" | "yes" | "true" => Ok(true.into()),
                "n" | "no" | "false" => Ok(false.into()),
                _ => Err(InvalidAnswer::new("answer yes or no")),
            },
            Self::Number => match serde_json::from_str(plain) {
                Ok(number @ Value::Number(_)) => Ok(number),
                _ => {
                    Err(InvalidAnswer::new("a number is needed").suggest("Use digits, such as 42"))
                }
            },
            Self::File => file(plain),
            Self::Json => serde_json::from_str(plain).map_err(|error| {
                let hint = r#"Write texts in quotes and objects as {"name": "value"}"#;
                InvalidAnswer::new(format!("this is no JSON: {error}")).suggest(hint)
            }),
        }
    }
}

/// A choice by its value, its label or its number in the list.
fn chosen(choices: &[ChoiceOption], text: &str) -> Result<Value, InvalidAnswer> {
    let by_name =
        choices.iter().find(|choice| spelled(&choice.value) == text || choice.label == text);
    let by_number = || choices.get(text.parse::<usize>().ok()?.checked_sub(1)?);
    match by_name.or_else(by_number) {
        Some(choice) => Ok(choice.value.clone()),
        None => {
            let names: Vec<_> = choices.iter().map(|choice| spelled(&choice.value)).collect();
            Err(InvalidAnswer::new("this is not one of the choices")
                .suggest(format!("Use one of {}", names.join(", "))))
        }
    }
}

/// A file by its path, carried in the answer, or by its address.
fn file(text: &str) -> Result<Value, InvalidAnswer> {
    if text.contains("://") {
        return Ok(json!({"uri": text}));
    }
    let path = std::path::Path::new(text);
    let problem =
        |error: std::io::Error| InvalidAnswer::new(format!("{text} cannot be read: {error}"));
    let size = std::fs::metadata(path).map_err(problem)?.len();
    if size > LARGEST_CARRIED {
        return Err(InvalidAnswer::new(format!("{text} is too large to be sent: {size} bytes"))
            .suggest("Give an address where it can be fetched instead"));
    }
    let data = std::fs::read(path).map_err(problem)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut answer = json!({"name": name, "data": STANDARD.encode(data)});
    if let Some(kind) = mime_guess::from_path(path).first_raw() {
        answer["mimeType"] = kind.into();
    }
    Ok(answer)
}

/// A value as a person would type it.
pub(crate) fn spelled(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The decisions there are.
pub(crate) const YES: &str = "yes";
pub(crate) const EDIT: &str = "edit";
pub(crate) const NO: &str = "no";

/// What people still type on one line, in characters.
const LONGEST_LINE: u64 = 200;

/// A rule of the question may allow more than a question usually takes, within reason.
const LARGEST_CARRIED: u64 = 8 * limits::FILE;

#[cfg(test)]
mod tests {
    use mcp_flow::session::prompt::Prompt;
    use serde_json::{Value, json};

    use super::Question;

    fn question(prompt: Value) -> Question {
        let prompt: Prompt = serde_json::from_value(prompt).unwrap();
        Question::of_prompt("key", prompt)
    }

    /// INT-096, INT-118: what is typed becomes the value each kind of question wants, and what
    /// breaks its rules is refused before it is sent.
    #[test]
    fn what_is_typed_becomes_a_value() {
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
            let read = question(prompt.clone()).read(typed);
            assert_eq!(read.as_ref().ok(), value.as_ref(), "{typed:?} for {prompt}: {read:?}");
        }
    }

    #[test]
    fn a_file_is_carried_with_its_name_and_kind() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.csv");
        std::fs::write(&path, "x").unwrap();
        let read = question(json!({"type": "file", "message": "?"})).read(path.to_str().unwrap());
        assert_eq!(read.unwrap(), json!({"name": "a.csv", "data": "eA==", "mimeType": "text/csv"}));
    }
}
