//! Parses arguments on the command line into the types of a tool's schema.

use serde_json::{Map, Value};

use crate::configuration::json_problem;
use crate::exit::{Exit, Failure};
use crate::terminal::ask::question::{Question, Widget};
use crate::terminal::ask::schema;
use crate::terminal::ask::violation_text;
use crate::terminal::output::sanitize;

/// Arguments of a tool or a prompt, besides KEY=VALUE.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct ArgumentOptions {
    /// Arguments as a JSON object, or @FILE to read one; KEY=VALUE adds to it
    #[arg(long = "json", value_name = "OBJECT")]
    object: Option<String>,
}

impl ArgumentOptions {
    /// Parses the arguments by the schema.
    pub(crate) fn parse(
        &self,
        words: &[String],
        schema: &Value,
    ) -> anyhow::Result<Map<String, Value>> {
        let mut arguments = match &self.object {
            Some(object) => self::object(object)?,
            None => Map::new(),
        };
        let properties = schema::questions(schema);
        let mut typed: Vec<&str> = Vec::new();
        for word in words {
            let (name, text) = split(word)?;
            let property = properties.iter().find(|property| property.key == name);
            if property.is_none() && schema["additionalProperties"] == Value::Bool(false) {
                return Err(unknown(name, &properties).into());
            }
            let value = value(property, &schema["properties"][name], text);
            let value = value.map_err(|problem| usage(format!("{name}: {problem}")))?;
            match (arguments.get_mut(name), typed.contains(&name)) {
                // Naming a list again adds to it.
                (Some(Value::Array(list)), true) => match value {
                    Value::Array(more) => list.extend(more),
                    one => list.push(one),
                },
                (Some(_), true) => {
                    return Err(usage(format!("argument {name} is given twice")).into());
                }
                _ => {
                    arguments.insert(name.to_owned(), value);
                }
            }
            typed.push(name);
        }
        Ok(arguments)
    }
}

fn object(text: &str) -> anyhow::Result<Map<String, Value>> {
    let read = match text.strip_prefix('@') {
        Some(file) => std::fs::read_to_string(file)
            .map_err(|error| usage(format!("--json: cannot read {file}: {error}")))?,
        None => text.to_owned(),
    };
    serde_json::from_str(&read).map_err(|error| {
        usage(format!("--json: {}; pass an object such as {{\"a\": 2}}", json_problem(&error)))
            .into()
    })
}

fn split(word: &str) -> anyhow::Result<(&str, &str)> {
    let problem = || usage(format!("invalid argument {word:?}; use KEY=VALUE, for example a=2"));
    let (name, text) = word.split_once('=').ok_or_else(problem)?;
    if name.is_empty() { Err(problem().into()) } else { Ok((name, text)) }
}

/// Parses the value of one property of a schema.
pub(crate) fn typed_value(schema: &Value, name: &str, text: &str) -> Result<Value, String> {
    let properties = schema::questions(schema);
    let property = properties.iter().find(|property| property.key == name);
    value(property, &schema["properties"][name], text)
}

/// Parses a value by the schema of its property.
fn value(property: Option<&Question>, schema: &Value, text: &str) -> Result<Value, String> {
    let json = || serde_json::from_str::<Value>(text);
    let Some(property) = property else { return Ok(json().unwrap_or_else(|_| text.into())) };
    match &property.widget {
        // The elements of a list may be typed one by one.
        Widget::Json if schema["type"] == "array" => match json() {
            Ok(list @ Value::Array(_)) => Ok(list),
            _ => {
                let element = schema::widget(&schema["items"]);
                let element = match element {
                    Widget::Json => json().unwrap_or_else(|_| text.into()),
                    element => element.parse(text).map_err(|problem| violation_text(&problem))?,
                };
                Ok(vec![element].into())
            }
        },
        Widget::Json if schema["type"] != "object" => Ok(json().unwrap_or_else(|_| text.into())),
        widget => widget.parse(text).map_err(|problem| violation_text(&problem)),
    }
}

fn unknown(name: &str, properties: &[Question]) -> Failure {
    let names: Vec<_> = properties.iter().map(|property| sanitize(&property.key)).collect();
    match names.is_empty() {
        true => usage(format!("unknown argument {name}; this takes none")),
        false => usage(format!("unknown argument {name}; this takes {}", names.join(", "))),
    }
}

fn usage(message: String) -> Failure {
    Failure::new(Exit::Usage, message)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::ArgumentOptions;

    fn parse(object: Option<&str>, words: &[&str]) -> Result<Value, String> {
        let schema = json!({"type": "object", "additionalProperties": false, "required": ["a"],
        "properties": {
            "a": {"type": "number"},
            "text": {"type": "string"},
            "on": {"type": "boolean"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "any": {},
            "deep": {"type": "object"},
        }});
        let words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
        let options = ArgumentOptions { object: object.map(str::to_owned) };
        let arguments = options.parse(&words, &schema).map_err(|error| error.to_string())?;
        Ok(Value::Object(arguments))
    }

    /// MCP-036, PAT-027: values have the types of the schema, and values that violate it are not sent.
    #[test]
    fn arguments_are_typed_by_the_schema() {
        for (object, words, expected) in [
            (None, &["a=2"][..], Ok(json!({"a": 2}))),
            (
                None,
                &["a=-2.5e3", "text=7", "on=yes"],
                Ok(json!({"a": -2.5e3, "text": "7", "on": true})),
            ),
            (None, &["a=1", "text=x=y"], Ok(json!({"a": 1, "text": "x=y"}))),
            (None, &["a=1", "tags=x", "tags=y"], Ok(json!({"a": 1, "tags": ["x", "y"]}))),
            (None, &["a=1", r#"tags=["x","y"]"#], Ok(json!({"a": 1, "tags": ["x", "y"]}))),
            (
                None,
                &["a=1", "any=x", r#"deep={"b":1}"#],
                Ok(json!({"a": 1, "any": "x", "deep": {"b": 1}})),
            ),
            (Some(r#"{"a": 1, "on": true}"#), &["a=3"], Ok(json!({"a": 3, "on": true}))),
            (None, &["a=two"], Err("a: enter a number")),
            (None, &["a=1", "a=2"], Err("a is given twice")),
            (None, &["b=1"], Err("unknown argument b; this takes a, text")),
            (None, &["hello"], Err("KEY=VALUE")),
            (None, &["=1"], Err("KEY=VALUE")),
            (Some("[]"), &[], Err("pass an object")),
            (Some("{\"a\": }"), &[], Err("line 1, column 7")),
            (Some("@/nowhere/at/all"), &[], Err("/nowhere/at/all")),
        ] {
            match (parse(object, words), expected) {
                (Ok(arguments), Ok(expected)) => assert_eq!(arguments, expected),
                (Err(error), Err(part)) => assert!(error.contains(part), "{error}"),
                (arguments, expected) => panic!("{words:?}: {arguments:?}, not {expected:?}"),
            }
        }
    }
}
