//! Collecting a tool's arguments before the call, from its input schema (INT-099, PAT-027).

use mcp_flow_session::prompt::{ChoiceOption, Prompt, PromptType};
use serde_json::{Map, Value};

use super::prompt::{PendingPrompt, PromptAnswer};
use super::session::SessionResult;
use crate::calls::arguments;
use crate::client::Client;
use crate::error::Error;

impl Client {
    /// Asks the host for all missing arguments of a tool, and calls it.
    pub(super) async fn call_upfront(
        &self,
        tool: &str,
        given: Map<String, Value>,
    ) -> Result<SessionResult, Error> {
        let arguments = self.gather(tool, given, true).await?;
        let outcome = self.call_tool(tool, Value::Object(arguments)).await?;
        SessionResult::of_call(outcome)
    }

    /// Asks the host for a tool's missing arguments, the required ones or all. The result is valid
    /// according to the tool's input schema.
    pub async fn gather(
        &self,
        tool: &str,
        mut given: Map<String, Value>,
        all: bool,
    ) -> Result<Map<String, Value>, Error> {
        let Some(definition) = self.tool(tool).await? else {
            return Err(Error::Usage(format!("the server has no tool {tool:?}")));
        };
        let schema = &definition.input_schema;
        for question in questions(schema) {
            let key = question.key.clone().unwrap_or_default();
            let required = question.prompt.validation.required == Some(true);
            if given.contains_key(&key) || !(all || required) {
                continue;
            }
            if let Some(value) = self.one(question).await? {
                given.insert(key, value);
            }
        }
        arguments::check(schema, &given)?;
        Ok(given)
    }

    /// Asks until the answer is valid; `None` for an empty answer to an optional parameter.
    async fn one(&self, mut question: PendingPrompt) -> Result<Option<Value>, Error> {
        for _ in 0..MAX_WRONG {
            let value = match self.ask_host(&question).await? {
                PromptAnswer::Value(value) => value,
                PromptAnswer::Cancel(reason) => {
                    return Err(Error::Denied(reason.unwrap_or_else(|| "cancelled".to_owned())));
                }
                PromptAnswer::Leave => return Err(Error::Denied("left".to_owned())),
            };
            match question.prompt.check(&value) {
                Ok(Value::Null) => return Ok(None),
                Ok(checked) => return Ok(Some(checked)),
                Err(violation) => question.rejection = Some(violation),
            }
        }
        Err(Error::Denied("too many invalid answers".to_owned()))
    }
}

/// Converts the properties of a schema to prompts, in order.
pub(crate) fn questions(schema: &Map<String, Value>) -> Vec<PendingPrompt> {
    let required = schema.get("required").and_then(Value::as_array);
    let is_required =
        |name: &str| required.is_some_and(|list| list.iter().any(|entry| entry == name));
    let properties = schema.get("properties").and_then(Value::as_object);
    let properties = properties.into_iter().flatten();
    properties.map(|(name, property)| question(name, property, is_required(name))).collect()
}

fn question(name: &str, property: &Value, required: bool) -> PendingPrompt {
    let text = |member: &str| property.get(member).and_then(Value::as_str);
    let message = match (text("title"), text("description")) {
        (_, Some(description)) => format!("{name}: {description}"),
        (Some(title), None) => title.to_owned(),
        (None, None) => name.to_owned(),
    };
    let choices = property.get("enum").and_then(Value::as_array);
    let kind = match (choices, kind_of(property), text("format")) {
        (Some(_), ..) => PromptType::Choice,
        (_, Some("boolean"), _) => PromptType::Confirm,
        (_, Some("integer" | "number"), _) => PromptType::Number,
        (_, Some("string"), Some("date")) => PromptType::Date,
        (_, Some("string"), _) => PromptType::Text,
        _ => PromptType::Custom,
    };
    let mut prompt = Prompt::new(kind, &message);
    prompt.default_value = property.get("default").cloned();
    let rules = &mut prompt.validation;
    rules.required = Some(required);
    let bound = |member: &str| {
        let number = property.get(member)?.as_number()?.clone();
        Some(mcp_flow_session::prompt::RangeBound::Number(number))
    };
    match kind {
        PromptType::Choice => {
            prompt.choices = choices.into_iter().flatten().map(choice).collect();
        }
        PromptType::Number => {
            rules.integer = kind_of(property) == Some("integer");
            (rules.min, rules.max) = (bound("minimum"), bound("maximum"));
        }
        PromptType::Text => {
            (rules.min, rules.max) = (bound("minLength"), bound("maxLength"));
            rules.pattern = text("pattern").map(str::to_owned);
        }
        PromptType::Custom => rules.schema = Some(property.clone()),
        PromptType::Confirm | PromptType::Date | PromptType::File => {}
    }
    PendingPrompt::of(name, prompt)
}

/// The single type of a property, ignoring null.
fn kind_of(property: &Value) -> Option<&str> {
    match property.get("type")? {
        Value::String(kind) => Some(kind),
        Value::Array(kinds) => {
            let mut kinds = kinds.iter().filter_map(Value::as_str).filter(|kind| *kind != "null");
            let first = kinds.next()?;
            kinds.next().is_none().then_some(first)
        }
        _ => None,
    }
}

fn choice(value: &Value) -> ChoiceOption {
    let label = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    ChoiceOption { value: value.clone(), label }
}

/// Maximum number of invalid answers for one parameter.
const MAX_WRONG: usize = 20;

#[cfg(test)]
mod tests {
    use super::{PromptType, questions};
    use serde_json::json;

    /// INT-099, MCP-036: each property becomes a prompt of its type, required or optional.
    #[test]
    fn a_schema_becomes_prompts() {
        let schema = json!({
            "properties": {
                "name": {"type": "string", "minLength": 2, "description": "Yours"},
                "count": {"type": "integer", "minimum": 1},
                "ratio": {"type": ["number", "null"]},
                "sure": {"type": "boolean", "default": false},
                "colour": {"enum": ["red", 7]},
                "day": {"type": "string", "format": "date"},
                "list": {"type": "array", "items": {"type": "string"}},
                "free": true,
            },
            "required": ["name", "count"],
        });
        let asked = questions(schema.as_object().unwrap());
        let kinds: Vec<_> = asked.iter().map(|question| question.prompt.kind).collect();
        assert_eq!(
            kinds,
            [
                PromptType::Text,
                PromptType::Number,
                PromptType::Number,
                PromptType::Confirm,
                PromptType::Choice,
                PromptType::Date,
                PromptType::Custom,
                PromptType::Custom,
            ]
        );
        let required: Vec<_> =
            asked.iter().map(|question| question.prompt.validation.required).collect();
        assert_eq!(&required[..3], [Some(true), Some(true), Some(false)]);
        assert_eq!(asked[0].prompt.message, "name: Yours");
        assert!(asked[0].prompt.check(&json!("x")).is_err());
        assert!(asked[1].prompt.check(&json!(1.5)).is_err());
        assert!(asked[6].prompt.check(&json!([7])).is_err());
        assert_eq!(asked[4].prompt.choices[1].label, "7");
    }
}
