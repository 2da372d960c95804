//! Arguments as they are typed, turned into what a tool's schema wants.

use serde_json::{Map, Value};

use crate::ask::complaint;
use crate::ask::question::{Question, Widget};
use crate::ask::schema;
use crate::exit::{Exit, Failure};
use crate::show::neutral;

/// What was given for the arguments of a tool or a prompt.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Given {
    /// Arguments as one JSON object, or @FILE that holds one; key=value adds to it
    #[arg(long = "json", value_name = "OBJECT")]
    object: Option<String>,
}

impl Given {
    /// The arguments, typed by the schema.
    pub(crate) fn read(
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
                (Some(_), true) => return Err(usage(format!("{name} is given twice")).into()),
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
            .map_err(|error| usage(format!("--json: {file} cannot be read: {error}")))?,
        None => text.to_owned(),
    };
    serde_json::from_str(&read).map_err(|error| {
        usage(format!("--json wants one JSON object, such as '{{\"a\": 2}}': {error}")).into()
    })
}

fn split(word: &str) -> anyhow::Result<(&str, &str)> {
    let problem = || usage(format!("Invalid argument {word:?}: use key=value, such as a=2"));
    let (name, text) = word.split_once('=').ok_or_else(problem)?;
    if name.is_empty() { Err(problem().into()) } else { Ok((name, text)) }
}

/// What was typed, as the schema of its property wants it.
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
                    element => element.read(text).map_err(|problem| complaint(&problem))?,
                };
                Ok(vec![element].into())
            }
        },
        Widget::Json if schema["type"] != "object" => Ok(json().unwrap_or_else(|_| text.into())),
        widget => widget.read(text).map_err(|problem| complaint(&problem)),
    }
}

fn unknown(name: &str, properties: &[Question]) -> Failure {
    let names: Vec<_> = properties.iter().map(|property| neutral(&property.key)).collect();
    match names.is_empty() {
        true => usage(format!("{name} is not an argument; this takes none")),
        false => usage(format!("{name} is not an argument; this takes {}", names.join(", "))),
    }
}

fn usage(message: String) -> Failure {
    Failure::new(Exit::Usage, message)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::Given;

    fn given(object: Option<&str>, words: &[&str]) -> Result<Value, String> {
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
        let given = Given { object: object.map(str::to_owned) };
        let arguments = given.read(&words, &schema).map_err(|error| error.to_string())?;
        Ok(Value::Object(arguments))
    }

    /// MCP-036, PAT-027: values have the types the schema names, and what breaks it is not sent.
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
            (None, &["a=two"], Err("a: a number is needed")),
            (None, &["a=1", "a=2"], Err("a is given twice")),
            (None, &["b=1"], Err("b is not an argument; this takes a, text")),
            (None, &["hello"], Err("key=value")),
            (None, &["=1"], Err("key=value")),
            (Some("[]"), &[], Err("one JSON object")),
            (Some("@/nowhere/at/all"), &[], Err("/nowhere/at/all")),
        ] {
            match (given(object, words), expected) {
                (Ok(arguments), Ok(expected)) => assert_eq!(arguments, expected),
                (Err(told), Err(part)) => assert!(told.contains(part), "{told}"),
                (arguments, expected) => panic!("{words:?}: {arguments:?}, not {expected:?}"),
            }
        }
    }
}
