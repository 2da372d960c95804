//! Questions from JSON Schema: the arguments of a tool, the fields of a form.

use std::collections::HashSet;

use mcp_flow::session::is_affordable;
use mcp_flow::session::prompt::{ChoiceOption, Prompt, PromptType};
use serde_json::{Map, Value, json};

use super::question::{Question, Widget, spelled};

/// The properties of an object schema, each as a question, in the order of the schema.
pub(crate) fn questions(schema: &Value) -> Vec<Question> {
    let required: HashSet<_> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let shared = shared(schema);
    let properties = schema["properties"].as_object().into_iter().flatten();
    let questions = properties.map(|(name, property)| {
        let property = resolved(schema, property, &shared);
        question(name, &property, required.contains(name.as_str()))
    });
    questions.collect()
}

/// The definitions that properties may refer to, which each question takes along: not if they are
/// large, since there may be many questions. An answer that is not held to its schema here is held
/// to it with all others, and by the server.
fn shared(schema: &Value) -> Map<String, Value> {
    let mut shared = Map::new();
    for name in ["$defs", "definitions"] {
        if let Some(found) = schema.get(name).filter(|found| found.to_string().len() <= LARGEST) {
            shared.insert(name.to_owned(), found.clone());
        }
    }
    shared
}

fn question(name: &str, schema: &Value, is_required: bool) -> Question {
    let text = |member: &str| schema[member].as_str().map(str::to_owned);
    let (title, description) = (text("title"), text("description"));
    let (message, help) = match (title, description) {
        (Some(title), description) => (title, description),
        (None, Some(description)) => (format!("{name}: {description}"), None),
        (None, None) => (name.to_owned(), None),
    };
    // An optional member may be left out, so nothing is an answer its schema need not know of.
    let mut rules = Prompt::new(PromptType::Custom, &message);
    rules.validation.required = is_required.then_some(true);
    // One that cannot be used would have every answer refused.
    rules.validation.schema = is_affordable(schema).then(|| schema.clone());
    rules.default_value = schema.get("default").cloned();
    let default = rules.default_value.clone();
    Question { key: name.to_owned(), message, help, widget: widget(schema), default, rules }
}

/// By what a value of this schema is best given.
pub(crate) fn widget(schema: &Value) -> Widget {
    if let Some(choices) = choices(schema) {
        return Widget::Choice(choices);
    }
    let format = schema["format"].as_str().unwrap_or_default();
    match kind(schema) {
        Some("string") if format == "date" => Widget::Date { earliest: None, latest: None },
        Some("string") if format.contains("path") => Widget::Path,
        Some("string") => Widget::Text { placeholder: placeholder(schema) },
        Some("boolean") => Widget::Confirm,
        Some("integer" | "number") => Widget::Number,
        Some("array") => choices(&schema["items"]).map_or(Widget::Json, Widget::Choices),
        _ => Widget::Json,
    }
}

/// What can be chosen, if the schema lists it: by `enum`, or by `oneOf` and `anyOf` of constants.
fn choices(schema: &Value) -> Option<Vec<ChoiceOption>> {
    if let Some(values) = schema["enum"].as_array() {
        let names = |place: usize| schema["enumNames"][place].as_str().map(str::to_owned);
        let choice = |(place, value): (usize, &Value)| ChoiceOption {
            value: value.clone(),
            label: names(place).unwrap_or_else(|| spelled(value)),
        };
        return Some(values.iter().enumerate().map(choice).collect());
    }
    let listed = ["oneOf", "anyOf"].into_iter().find_map(|name| schema[name].as_array())?;
    let choice = |option: &Value| {
        let value = option.get("const")?.clone();
        let label = option["title"].as_str().or(option["description"].as_str());
        Some(ChoiceOption { label: label.map_or_else(|| spelled(&value), str::to_owned), value })
    };
    listed.iter().map(choice).collect()
}

/// The one type a value has, besides null.
fn kind(schema: &Value) -> Option<&str> {
    if let Some(kind) = schema["type"].as_str() {
        return Some(kind);
    }
    let mut named = schema["type"].as_array()?.iter().filter_map(Value::as_str);
    let mut real = named.by_ref().filter(|name| *name != "null");
    match (real.next(), real.next()) {
        (Some(kind), None) => Some(kind),
        _ => None,
    }
}

fn placeholder(schema: &Value) -> Option<String> {
    schema["examples"].get(0).map(spelled).or_else(|| match schema["format"].as_str()? {
        "email" => Some("you@example.com".to_owned()),
        "uri" => Some("https://example.com/".to_owned()),
        "date-time" => Some("2027-01-31T12:00:00Z".to_owned()),
        _ => None,
    })
}

/// A property that stands alone: a reference followed, a choice between something and null made,
/// and the definitions it may refer to taken along.
fn resolved(root: &Value, property: &Value, shared: &Map<String, Value>) -> Value {
    let mut schema = property.clone();
    for _ in 0..MOST_STEPS {
        let next = match schema["$ref"].as_str().and_then(|name| name.strip_prefix('#')) {
            Some(pointer) => root.pointer(pointer).cloned(),
            None => nullable(&schema),
        };
        let Some(mut next) = next else { break };
        // What stands beside a reference says more than what it refers to.
        if let (Some(next), Some(beside)) = (next.as_object_mut(), schema.as_object()) {
            let more = beside.iter().filter(|(name, _)| DESCRIBING.contains(&name.as_str()));
            next.extend(more.map(|(name, value)| (name.clone(), value.clone())));
        }
        schema = next;
    }
    if let Some(members) = schema.as_object_mut() {
        for (name, definitions) in shared {
            if !members.contains_key(name) {
                members.insert(name.clone(), definitions.clone());
            }
        }
    }
    schema
}

/// The other side of `anyOf: [..., {"type": "null"}]`, which is how optional values are written.
fn nullable(schema: &Value) -> Option<Value> {
    let sides = schema["anyOf"].as_array().or(schema["oneOf"].as_array())?;
    let mut real = sides.iter().filter(|side| **side != json!({"type": "null"}));
    match (real.next(), real.next(), sides.len()) {
        (Some(side), None, 2) => Some(side.clone()),
        _ => None,
    }
}

/// What the required properties lack.
pub(crate) fn missing(schema: &Value, arguments: &Map<String, Value>) -> Vec<String> {
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    required.filter(|name| !arguments.contains_key(*name)).map(str::to_owned).collect()
}

/// Members that tell of a value and do not bind it.
const DESCRIBING: [&str; 4] = ["title", "description", "default", "examples"];

/// How long the definitions of a schema may be, in bytes, for each question to have them.
const LARGEST: usize = 16 * 1024;

/// How many references are followed; one that leads to itself ends here.
const MOST_STEPS: usize = 8;

#[cfg(test)]
mod tests {
    use mcp_flow::session::prompt::ChoiceOption;
    use serde_json::{Value, json};

    use super::{Widget, questions};

    fn widget(property: Value) -> Widget {
        let schema = json!({
            "properties": {"it": property},
            "$defs": {"Colour": {"enum": ["red", "blue"]}, "Loop": {"$ref": "#/$defs/Loop"}},
        });
        questions(&schema).remove(0).widget
    }

    /// MCP-036, PAT-027: every kind of property is asked for by what fits it.
    #[test]
    fn a_property_is_asked_for_by_what_fits_it() {
        let text = || Widget::Text { placeholder: None };
        let colours = || {
            let choice = |name: &str| ChoiceOption { value: name.into(), label: name.into() };
            vec![choice("red"), choice("blue")]
        };
        for (property, expected) in [
            (json!({"type": "string"}), text()),
            (json!({"type": ["string", "null"]}), text()),
            (json!({"anyOf": [{"type": "string"}, {"type": "null"}]}), text()),
            (json!({"type": "integer"}), Widget::Number),
            (json!({"type": "boolean"}), Widget::Confirm),
            (
                json!({"type": "string", "format": "date"}),
                Widget::Date { earliest: None, latest: None },
            ),
            (json!({"type": "string", "format": "file-path"}), Widget::Path),
            (json!({"$ref": "#/$defs/Colour"}), Widget::Choice(colours())),
            (json!({"enum": ["red", "blue"]}), Widget::Choice(colours())),
            (json!({"oneOf": [{"const": "red"}, {"const": "blue"}]}), Widget::Choice(colours())),
            (
                json!({"type": "array", "items": {"enum": ["red", "blue"]}}),
                Widget::Choices(colours()),
            ),
            (json!({"type": "array", "items": {"type": "string"}}), Widget::Json),
            (json!({"type": "object"}), Widget::Json),
            (json!({"type": ["string", "integer"]}), Widget::Json),
            (json!({"$ref": "#/$defs/Loop"}), Widget::Json),
            (json!({"$ref": "https://elsewhere.example/"}), Widget::Json),
            (json!(true), Widget::Json),
        ] {
            assert_eq!(widget(property.clone()), expected, "{property}");
        }
    }

    /// PAT-027: an answer is held to the schema of its property.
    #[test]
    fn an_answer_is_held_to_its_schema() {
        let schema = json!({"required": ["size"], "properties": {
            "size": {"type": "integer", "minimum": 3},
            "colour": {"$ref": "#/$defs/Colour", "default": "red"},
        }, "$defs": {"Colour": {"enum": ["red", "blue"]}}});
        let asked = questions(&schema);
        assert!(asked[0].is_required() && !asked[1].is_required());
        for (question, typed, value) in [
            (&asked[0], "3", Some(json!(3))),
            (&asked[0], "2", None),
            (&asked[0], "3.5", None),
            (&asked[0], "", None),
            (&asked[1], "", Some(json!("red"))),
            (&asked[1], "blue", Some(json!("blue"))),
        ] {
            assert_eq!(question.read(typed).ok(), value, "{typed}");
        }
    }
}
