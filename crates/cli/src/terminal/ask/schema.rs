//! Questions from a JSON Schema: the arguments of a tool, the fields of a form.

use std::collections::HashSet;

use mcp_flow::session::is_affordable;
use mcp_flow::session::prompt::{ChoiceOption, Prompt, PromptType};
use serde_json::{Map, Value, json};

use super::question::{Question, Widget, value_text};

/// Creates a question for each property of an object schema, in its order.
pub(crate) fn questions(schema: &Value) -> Vec<Question> {
    let required: HashSet<_> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let shared = shared_definitions(schema);
    let properties = schema["properties"].as_object().into_iter().flatten();
    let questions = properties.map(|(name, property)| {
        let property = resolve(schema, property, &shared);
        question(name, &property, required.contains(name.as_str()))
    });
    questions.collect()
}

/// Returns the definitions that properties may refer to, which are copied into every question.
///
/// Large ones are left out, since there may be many questions: the arguments as a whole are
/// validated as well, here and by the server.
fn shared_definitions(schema: &Value) -> Map<String, Value> {
    let mut shared = Map::new();
    for name in ["$defs", "definitions"] {
        if let Some(found) = schema.get(name).filter(|found| found.to_string().len() <= MAX_BYTES) {
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
    // An empty answer leaves an optional property out, whatever its schema is.
    let mut rules = Prompt::new(PromptType::Custom, &message);
    rules.validation.required = is_required.then_some(true);
    // A schema that is too expensive to use would reject every answer.
    rules.validation.schema = is_affordable(schema).then(|| schema.clone());
    rules.default_value = schema.get("default").cloned();
    let default = rules.default_value.clone();
    Question { key: name.to_owned(), message, help, widget: widget(schema), default, rules }
}

/// Chooses the widget for values of a schema.
pub(crate) fn widget(schema: &Value) -> Widget {
    if let Some(choices) = choices(schema) {
        return Widget::Choice(choices);
    }
    let format = schema["format"].as_str().unwrap_or_default();
    match single_type(schema) {
        Some("string") if format == "date" => Widget::Date { earliest: None, latest: None },
        Some("string") if format.contains("path") => Widget::Path,
        Some("string") => Widget::Text { placeholder: placeholder(schema) },
        Some("boolean") => Widget::Confirm,
        Some("integer" | "number") => Widget::Number,
        Some("array") => choices(&schema["items"]).map_or(Widget::Json, Widget::Choices),
        _ => Widget::Json,
    }
}

/// Returns the choices that a schema lists: `enum`, or `oneOf` or `anyOf` of constants.
fn choices(schema: &Value) -> Option<Vec<ChoiceOption>> {
    if let Some(values) = schema["enum"].as_array() {
        let names = |index: usize| schema["enumNames"][index].as_str().map(str::to_owned);
        let choice = |(index, value): (usize, &Value)| ChoiceOption {
            value: value.clone(),
            label: names(index).unwrap_or_else(|| value_text(value)),
        };
        return Some(values.iter().enumerate().map(choice).collect());
    }
    let listed = ["oneOf", "anyOf"].into_iter().find_map(|name| schema[name].as_array())?;
    let choice = |option: &Value| {
        let value = option.get("const")?.clone();
        let label = option["title"].as_str().or(option["description"].as_str());
        Some(ChoiceOption { label: label.map_or_else(|| value_text(&value), str::to_owned), value })
    };
    listed.iter().map(choice).collect()
}

/// Returns the only type of a schema besides null.
fn single_type(schema: &Value) -> Option<&str> {
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
    schema["examples"].get(0).map(value_text).or_else(|| match schema["format"].as_str()? {
        "email" => Some("you@example.com".to_owned()),
        "uri" => Some("https://example.com/".to_owned()),
        "date-time" => Some("2027-01-31T12:00:00Z".to_owned()),
        _ => None,
    })
}

/// Makes the schema of a property self-contained: follows references, drops null alternatives and
/// adds the shared definitions.
fn resolve(root: &Value, property: &Value, shared: &Map<String, Value>) -> Value {
    let mut schema = property.clone();
    for _ in 0..MAX_STEPS {
        let next = match schema["$ref"].as_str().and_then(|name| name.strip_prefix('#')) {
            Some(pointer) => root.pointer(pointer).cloned(),
            None => without_null(&schema),
        };
        let Some(mut next) = next else { break };
        // Annotations beside a reference override those of its target.
        if let (Some(next), Some(beside)) = (next.as_object_mut(), schema.as_object()) {
            let more = beside.iter().filter(|(name, _)| ANNOTATIONS.contains(&name.as_str()));
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

/// Returns the other alternative of `anyOf: [..., {"type": "null"}]`, the form of optional values.
fn without_null(schema: &Value) -> Option<Value> {
    let sides = schema["anyOf"].as_array().or(schema["oneOf"].as_array())?;
    let mut real = sides.iter().filter(|side| **side != json!({"type": "null"}));
    match (real.next(), real.next(), sides.len()) {
        (Some(side), None, 2) => Some(side.clone()),
        _ => None,
    }
}

/// Lists the required properties that have no argument.
pub(crate) fn missing(schema: &Value, arguments: &Map<String, Value>) -> Vec<String> {
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    required.filter(|name| !arguments.contains_key(*name)).map(str::to_owned).collect()
}

/// Annotations, which do not constrain a value.
const ANNOTATIONS: [&str; 4] = ["title", "description", "default", "examples"];

/// Limit on the definitions that are copied into each question, in bytes.
const MAX_BYTES: usize = 16 * 1024;

/// Number of references that are followed, so that cycles end.
const MAX_STEPS: usize = 8;

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

    /// MCP-036, PAT-027: every type of property has its widget.
    #[test]
    fn every_type_of_property_has_its_widget() {
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

    /// PAT-027: an answer is validated against the schema of its property.
    #[test]
    fn answers_are_validated_against_the_schema() {
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
            assert_eq!(question.parse(typed).ok(), value, "{typed}");
        }
    }
}
