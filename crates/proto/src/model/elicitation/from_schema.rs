//! Derives forms from JSON Schema, such as the schema of a Rust type.

use serde_json::{Map, Value};

use super::form::{Field, FieldKind, FormChoice, FormSchema, TextFormat};

/// The reason a schema cannot be used as a form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadForm {
    /// The schema is not an object with properties.
    #[error("a form is an object with properties; use a struct with named fields")]
    NotAnObject,
    /// A form cannot contain this field.
    #[error(
        "the field {field} cannot be asked for in a form ({reason}); a form takes text, numbers, \
         booleans, and one or several of given choices"
    )]
    Field {
        /// Name of the field.
        field: String,
        /// The reason.
        reason: String,
    },
}

impl FormSchema {
    /// Derives a form from a JSON Schema. Fields a form cannot contain are an error.
    pub fn from_schema(schema: &Value) -> Result<Self, BadForm> {
        let properties = schema.get("properties").and_then(Value::as_object);
        let properties =
            properties.filter(|_| schema.get("type").is_some_and(|kind| kind == "object"));
        let required = schema.get("required").and_then(Value::as_array);
        let fields = properties.ok_or(BadForm::NotAnObject)?.iter().map(|(name, property)| {
            let bad = |reason: String| BadForm::Field { field: name.clone(), reason };
            let members = property.as_object().ok_or_else(|| bad("any value".to_owned()))?;
            Ok(Field {
                name: name.clone(),
                title: text(members, "title"),
                description: text(members, "description"),
                required: required.is_some_and(|names| names.iter().any(|other| other == name)),
                kind: kind(members).map_err(bad)?,
            })
        });
        fields.collect::<Result<_, _>>().map(|fields| Self { fields })
    }
}

fn kind(members: &Map<String, Value>) -> Result<FieldKind, String> {
    let kind = members.get("type").and_then(Value::as_str);
    let choices = choices(members, "oneOf")?;
    let own: &[&str] = match (kind, &choices) {
        (_, Some(_)) => &["enum", "enumNames", "oneOf", "const"],
        (Some("string"), None) => &["minLength", "maxLength", "format"],
        // The `format` of a number describes its representation, which does not constrain the
        // value.
        (Some("number" | "integer"), None) => &["minimum", "maximum", "format"],
        (Some("array"), None) => &["minItems", "maxItems", "items"],
        _ => &[],
    };
    let known = |word: &str| COMMON.contains(&word) || own.contains(&word);
    if let Some(word) = members.keys().find(|word| !known(word)) {
        return Err(format!("its schema has {word}"));
    }
    let length = |word: &str| members.get(word).and_then(Value::as_u64);
    let number = |word: &str| members.get(word).and_then(Value::as_number).cloned();
    Ok(match (kind, choices) {
        (Some("string") | None, Some(choices)) => {
            FieldKind::Choice { choices, default: text(members, "default") }
        }
        (Some("string"), None) => FieldKind::Text {
            min_length: length("minLength"),
            max_length: length("maxLength"),
            format: text(members, "format").map(|name| format(&name)).transpose()?,
            default: text(members, "default"),
        },
        (Some(kind @ ("number" | "integer")), None) => FieldKind::Number {
            whole: kind == "integer",
            minimum: number("minimum"),
            maximum: number("maximum"),
            default: number("default"),
        },
        (Some("boolean"), None) => {
            FieldKind::Boolean { default: members.get("default").and_then(Value::as_bool) }
        }
        (Some("array"), None) => {
            let items = members.get("items").and_then(Value::as_object);
            let choices = match items {
                Some(items) => self::choices(items, "anyOf")?.or(self::choices(items, "oneOf")?),
                None => None,
            };
            FieldKind::Choices {
                choices: choices.ok_or("a list of anything but choices")?,
                min_items: length("minItems"),
                max_items: length("maxItems"),
                default: members
                    .get("default")
                    .and_then(|list| serde_json::from_value(list.clone()).ok()),
            }
        }
        (Some(other), _) => return Err(format!("its type is {other}")),
        (None, None) => return Err("its schema has no single type".to_owned()),
    })
}

/// Reads the options of a schema, if it has any: plain, or titled under one of two keywords.
fn choices(members: &Map<String, Value>, titled: &str) -> Result<Option<Vec<FormChoice>>, String> {
    let only_text = || "its choices are not text".to_owned();
    if let Some(values) = members.get("enum").and_then(Value::as_array) {
        let names = members.get("enumNames").and_then(Value::as_array);
        let choice = |(index, value): (usize, &Value)| {
            let title = names.and_then(|names| names.get(index)?.as_str());
            Some(FormChoice { value: value.as_str()?.to_owned(), title: title.map(str::to_owned) })
        };
        let choices: Option<Vec<_>> = values.iter().enumerate().map(choice).collect();
        return choices.map(Some).ok_or_else(only_text);
    }
    let Some(options) = members.get(titled).and_then(Value::as_array) else { return Ok(None) };
    let mut choices = Vec::new();
    for option in options {
        let members = option.as_object().ok_or_else(only_text)?;
        // A derived schema merges variants without a description, and has no titles.
        let title = text(members, "title").or_else(|| text(members, "description"));
        match (text(members, "const"), members.get("enum").and_then(Value::as_array)) {
            (Some(value), _) => choices.push(FormChoice { value, title }),
            (None, Some(values)) => {
                for value in values {
                    choices.push(FormChoice::from(value.as_str().ok_or_else(only_text)?));
                }
            }
            (None, None) => return Err(only_text()),
        }
    }
    Ok(Some(choices))
}

fn format(name: &str) -> Result<TextFormat, String> {
    let known = TextFormat::ALL.into_iter().find(|format| format.name() == name);
    known.ok_or_else(|| format!("its format is {name}"))
}

fn text(members: &Map<String, Value>, name: &str) -> Option<String> {
    members.get(name).and_then(Value::as_str).map(str::to_owned)
}

/// Keywords any field may have. The last ones are irrelevant to a form.
const COMMON: [&str; 8] = [
    "type",
    "title",
    "description",
    "default",
    "uniqueItems",
    "examples",
    "deprecated",
    "$comment",
];

#[cfg(test)]
mod tests {
    use crate::model::{Field, FormSchema, TextFormat};
    use serde_json::{Value, json};

    #[test]
    fn a_form_survives_a_round_trip_through_its_schema() {
        let form = FormSchema::new([
            Field::text("a").required().title("A").length(1, 9).format(TextFormat::Date),
            Field::number("b").description("B").range(0, 5).default_value(1.5),
            Field::integer("c").required(),
            Field::boolean("d").default_value(false),
            Field::choice("e", ["x", "y"]).default_value("x"),
            Field::choice("f", [("x", "X"), ("y", "Y")]),
            Field::choices("g", ["x", "y"]).length(1, 2).default_value(json!(["x"])),
            Field::choices("h", [("x", "X"), ("y", "Y")]),
        ]);
        assert_eq!(FormSchema::from_schema(&form.to_schema()).unwrap(), form);
    }

    /// C-06: the representation format of a number is left out of the form.
    #[test]
    fn formats_of_numbers_are_left_out() {
        let property = json!({"type": "number", "format": "double", "minimum": 0});
        let schema = json!({"type": "object", "properties": {"x": property}});
        let form = FormSchema::from_schema(&schema).unwrap().to_schema();
        assert_eq!(form["properties"]["x"], json!({"type": "number", "minimum": 0}));
    }

    #[test]
    fn unsupported_fields_are_rejected() {
        for (property, reason) in [
            (json!({"type": "object", "properties": {}}), "properties"),
            (json!({"type": "object"}), "type is object"),
            (json!({"type": "array", "items": {"type": "string"}}), "list of anything but choices"),
            (json!({"type": "array"}), "list of anything but choices"),
            (json!({"type": "string", "pattern": "a"}), "pattern"),
            (json!({"type": "string", "format": "uuid"}), "uuid"),
            (json!({"type": "integer", "multipleOf": 2}), "multipleOf"),
            (json!({"type": ["string", "null"]}), "no single type"),
            (json!({"enum": [1, 2]}), "not text"),
            (json!({"oneOf": [{"type": "string"}]}), "not text"),
            (json!({}), "no single type"),
            (json!(true), "any value"),
        ] {
            let schema = json!({"type": "object", "properties": {"x": property}});
            let error = FormSchema::from_schema(&schema).unwrap_err().to_string();
            assert!(error.contains("field x") && error.contains(reason), "{error}");
        }
        for schema in [json!({"type": "object"}), json!({"properties": {}}), Value::Null] {
            assert!(FormSchema::from_schema(&schema).is_err(), "{schema}");
        }
    }
}
