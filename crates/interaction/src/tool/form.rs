//! Elicitation forms for questions, and the conversion of their results to answers (C-06).

use mcp_flow_engine::OpenQuestion;
use mcp_flow_proto::model::{
    ElicitForm, ElicitResult, Field, FieldKind, FormChoice, FormSchema, TextFormat,
};
use mcp_flow_proto::{Revision, RpcError};
use mcp_flow_session::prompt::{AnswerRules, ChoiceOption, Prompt, PromptType, RangeBound};
use serde_json::{Map, Number, Value};

use super::message_with_violation;

/// Elicitation form of a question: one field, or several for files and custom answers.
#[derive(Debug)]
pub(crate) struct Form {
    form: ElicitForm,
    reading: Reading,
}

/// Location of the answer in the content of a form.
#[derive(Debug)]
enum Reading {
    /// The value of this field.
    Field(String),
    /// The option this field names.
    Choice(String, Vec<ChoiceOption>),
    /// The whole content.
    Whole,
}

impl Form {
    /// Creates the form of a question; an error if no form can ask it.
    pub(crate) fn of(open: &OpenQuestion) -> Result<Self, RpcError> {
        let OpenQuestion { key, prompt, violation, .. } = open;
        let message = message_with_violation(&prompt.message, violation.as_ref());
        let (fields, reading) = match prompt.kind {
            PromptType::File => (file_fields(prompt), Reading::Whole),
            PromptType::Custom => (custom_fields(key, prompt)?, Reading::Whole),
            PromptType::Choice => {
                (vec![field(key, prompt)], Reading::Choice(key.clone(), prompt.choices.clone()))
            }
            _ => (vec![field(key, prompt)], Reading::Field(key.clone())),
        };
        Ok(Self { form: ElicitForm { message, schema: FormSchema::new(fields) }, reading })
    }

    /// Returns the params of `elicitation/create`.
    pub(crate) fn params(&self, revision: Revision) -> Result<Value, RpcError> {
        self.form.wire(revision).map_err(|error| RpcError::invalid_params(error.to_string()))
    }

    /// Returns the answer in the content of a form, not yet validated.
    pub(crate) fn value(&self, mut content: Map<String, Value>) -> Value {
        match &self.reading {
            Reading::Field(key) => content.remove(key).unwrap_or_default(),
            Reading::Whole if content.values().all(Value::is_null) => Value::Null,
            Reading::Whole => {
                drop_empty(&mut content);
                Value::Object(content)
            }
            Reading::Choice(key, choices) => {
                let chosen = content.remove(key).unwrap_or_default();
                let found = choices
                    .iter()
                    .find(|choice| chosen == choice.value || chosen == option_text(&choice.value));
                found.map_or(chosen, |choice| choice.value.clone())
            }
        }
    }

    /// Returns the possible answers in the content of a form whose question was erased.
    pub(crate) fn readings(key: &str, result: ElicitResult) -> Vec<Value> {
        let mut content = result.content.unwrap_or_default();
        let field = content.get(key).cloned();
        // The value of an option need not be a string.
        let chosen = field.as_ref().and_then(Value::as_str);
        let chosen = chosen.and_then(|text| serde_json::from_str(text).ok());
        drop_empty(&mut content);
        let whole = (!content.is_empty()).then_some(Value::Object(content));
        let readings = [field, chosen, whole].into_iter().flatten().collect::<Vec<_>>();
        if readings.is_empty() { vec![Value::Null] } else { readings }
    }
}

/// Removes fields that were left empty.
fn drop_empty(content: &mut Map<String, Value>) {
    content.retain(|_, value| !value.is_null() && *value != "");
}

fn field(key: &str, prompt: &Prompt) -> Field {
    let Prompt { validation: rules, default_value, placeholder, .. } = prompt;
    let mut field = Field::text(key);
    field.kind = kind(prompt);
    field.required = rules.required == Some(true) && default_value.is_none();
    field.description = description(rules, placeholder.as_deref());
    match (default_value, prompt.kind) {
        (Some(value), PromptType::Choice) => field.default_value(option_text(value)),
        (Some(value), _) => field.default_value(value.clone()),
        (None, _) => field,
    }
}

fn kind(prompt: &Prompt) -> FieldKind {
    let rules = &prompt.validation;
    match prompt.kind {
        PromptType::Confirm => FieldKind::Boolean { default: None },
        PromptType::Number => FieldKind::Number {
            whole: rules.integer,
            minimum: number(rules.min.as_ref()),
            maximum: number(rules.max.as_ref()),
            default: None,
        },
        PromptType::Choice => FieldKind::Choice {
            choices: prompt.choices.iter().map(form_choice).collect(),
            default: None,
        },
        PromptType::Date => FieldKind::Text {
            min_length: None,
            max_length: None,
            format: Some(TextFormat::Date),
            default: None,
        },
        PromptType::Text | PromptType::File | PromptType::Custom => FieldKind::Text {
            min_length: number(rules.min.as_ref()).and_then(|number| number.as_u64()),
            max_length: number(rules.max.as_ref()).and_then(|number| number.as_u64()),
            format: None,
            default: None,
        },
    }
}

/// Describes rules that forms cannot express.
fn description(rules: &AnswerRules, placeholder: Option<&str>) -> Option<String> {
    let mut sentences = Vec::new();
    if let Some(placeholder) = placeholder {
        sentences.push(format!("For example: {placeholder}"));
    }
    match (&rules.pattern_description, &rules.pattern) {
        (Some(description), _) => sentences.push(format!("Expected: {description}")),
        (None, Some(pattern)) => sentences.push(format!("Must match {pattern}")),
        (None, None) => {}
    }
    if let Some(RangeBound::Date(day)) = &rules.min {
        sentences.push(format!("Not before {day}"));
    }
    if let Some(RangeBound::Date(day)) = &rules.max {
        sentences.push(format!("Not after {day}"));
    }
    (!sentences.is_empty()).then(|| sentences.join(". "))
}

fn file_fields(prompt: &Prompt) -> Vec<Field> {
    let kinds = prompt.validation.mime_types.join(", ");
    let mime_type = Field::text("mimeType").title("Kind of file");
    let mime_type = if kinds.is_empty() { mime_type } else { mime_type.description(kinds) };
    vec![
        Field::text("name").title("Name of the file"),
        mime_type,
        Field::text("data").title("Content, as base64"),
        Field::text("uri").title("Or where it is").format(TextFormat::Uri),
    ]
}

/// Returns the fields of a custom question. Forms support flat objects only.
fn custom_fields(key: &str, prompt: &Prompt) -> Result<Vec<Field>, RpcError> {
    let schema = prompt.validation.schema.as_ref();
    let fields = schema.and_then(|schema| FormSchema::from_schema(schema).ok());
    fields.map(|form| form.fields).ok_or_else(|| {
        RpcError::invalid_params(format!(
            "the question `{key}` is of type custom, which no form of this client can ask; give \
             its answer as the argument `{key}`"
        ))
        .with("promptType", "custom")
        .with("field", key)
    })
}

fn form_choice(choice: &ChoiceOption) -> FormChoice {
    let value = option_text(&choice.value);
    let title = Some(choice.label.clone()).filter(|label| *label != value);
    FormChoice { value, title }
}

/// A value as the text of an option.
fn option_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn number(bound: Option<&RangeBound>) -> Option<Number> {
    match bound {
        Some(RangeBound::Number(number)) => Some(number.clone()),
        _ => None,
    }
}
