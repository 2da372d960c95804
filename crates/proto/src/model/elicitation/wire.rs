//! Encoding of elicitation requests by revision.

use serde_json::{Map, Value, json};

use super::form::{Field, FieldKind, FormChoice, FormSchema};
use super::{ElicitForm, ElicitUrl};
use crate::revision::Revision;

/// A form contains a field that clients of the revision do not support.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} is a multiple choice, which clients of {revision} do not support")]
pub struct UnsupportedField {
    /// Name of the field.
    pub field: String,
    /// Revision of the client.
    pub revision: Revision,
}

impl ElicitForm {
    /// Returns the params for a client of this revision.
    pub fn wire(&self, revision: Revision) -> Result<Value, UnsupportedField> {
        let schema = self.schema.wire(revision)?;
        let mut params = json!({"message": self.message, "requestedSchema": schema});
        if revision.features().elicitation_modes {
            params["mode"] = "form".into();
        }
        Ok(params)
    }
}

impl ElicitUrl {
    /// Returns the params for a client of this revision.
    pub fn wire(&self, revision: Revision) -> Value {
        let mut params = json!({"mode": "url", "message": self.message, "url": self.url});
        if !revision.is_stateless() {
            params["elicitationId"] = self.id.as_str().into();
        }
        params
    }
}

impl FormSchema {
    /// Returns the form as JSON Schema.
    pub fn to_schema(&self) -> Value {
        self.schema_with(|field| field.schema(true))
    }

    /// Returns the form for a client of this revision. Before 2025-11-25, options have no titles
    /// other than `enumNames`, and only booleans have defaults.
    fn wire(&self, revision: Revision) -> Result<Value, UnsupportedField> {
        let rich = revision.features().elicitation_modes;
        let several = |field: &&Field| matches!(field.kind, FieldKind::Choices { .. });
        match self.fields.iter().find(several).filter(|_| !rich) {
            Some(field) => Err(UnsupportedField { field: field.name.clone(), revision }),
            None => Ok(self.schema_with(|field| field.schema(rich))),
        }
    }

    fn schema_with(&self, schema: impl Fn(&Field) -> Value) -> Value {
        let properties: Map<_, _> =
            self.fields.iter().map(|field| (field.name.clone(), schema(field))).collect();
        let required = self.fields.iter().filter(|field| field.required);
        let required: Vec<_> = required.map(|field| field.name.as_str()).collect();
        let mut schema = json!({"type": "object", "properties": properties});
        if !required.is_empty() {
            schema["required"] = required.into();
        }
        schema
    }
}

impl Field {
    fn schema(&self, rich: bool) -> Value {
        let mut schema = Members(Map::new());
        schema.set("type", Some(self.kind.type_name()));
        schema.set("title", self.title.as_deref());
        schema.set("description", self.description.as_deref());
        match &self.kind {
            FieldKind::Text { min_length, max_length, format, default } => {
                schema.set("minLength", *min_length);
                schema.set("maxLength", *max_length);
                schema.set("format", format.map(super::TextFormat::name));
                schema.set("default", default.as_deref().filter(|_| rich));
            }
            FieldKind::Number { minimum, maximum, default, .. } => {
                schema.set("minimum", minimum.clone());
                schema.set("maximum", maximum.clone());
                schema.set("default", default.clone().filter(|_| rich));
            }
            FieldKind::Boolean { default } => schema.set("default", *default),
            FieldKind::Choice { choices, default } => {
                let titled = are_titled(choices);
                if titled && rich {
                    schema.set("oneOf", Some(titles(choices)));
                } else {
                    schema.set("enum", Some(values(choices)));
                    schema.set("enumNames", titled.then(|| names(choices)));
                }
                schema.set("default", default.as_deref().filter(|_| rich));
            }
            FieldKind::Choices { choices, min_items, max_items, default } => {
                schema.set("minItems", *min_items);
                schema.set("maxItems", *max_items);
                schema.set("items", Some(items(choices)));
                schema.set("default", default.clone());
            }
        }
        Value::Object(schema.0)
    }
}

impl FieldKind {
    fn type_name(&self) -> &'static str {
        match self {
            Self::Text { .. } | Self::Choice { .. } => "string",
            Self::Number { whole: true, .. } => "integer",
            Self::Number { whole: false, .. } => "number",
            Self::Boolean { .. } => "boolean",
            Self::Choices { .. } => "array",
        }
    }
}

struct Members(Map<String, Value>);

impl Members {
    fn set(&mut self, name: &str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.0.insert(name.to_owned(), value.into());
        }
    }
}

fn are_titled(choices: &[FormChoice]) -> bool {
    choices.iter().any(|choice| choice.title.is_some())
}

fn items(choices: &[FormChoice]) -> Value {
    if are_titled(choices) {
        json!({"anyOf": titles(choices)})
    } else {
        json!({"type": "string", "enum": values(choices)})
    }
}

fn titles(choices: &[FormChoice]) -> Vec<Value> {
    let titled = |choice: &FormChoice| json!({"const": choice.value, "title": name(choice)});
    choices.iter().map(titled).collect()
}

fn values(choices: &[FormChoice]) -> Vec<Value> {
    choices.iter().map(|choice| choice.value.as_str().into()).collect()
}

fn names(choices: &[FormChoice]) -> Vec<Value> {
    choices.iter().map(|choice| name(choice).into()).collect()
}

fn name(choice: &FormChoice) -> &str {
    choice.title.as_deref().unwrap_or(&choice.value)
}

#[cfg(test)]
mod tests {
    use crate::model::{ElicitForm, ElicitUrl, Field, FormSchema, TextFormat};
    use crate::revision::Revision;
    use serde_json::json;

    /// C-06: one form, encoded for each revision.
    #[test]
    fn a_form_follows_the_revision() {
        let schema = FormSchema::new([
            Field::text("mail").required().format(TextFormat::Email).default_value("a@b.example"),
            Field::integer("age").range(18, 120).default_value(30),
            Field::boolean("sure").default_value(true),
            Field::choice("color", [("r", "Red"), ("g", "Green")]).default_value("r"),
        ]);
        let form = ElicitForm { message: "Who?".to_owned(), schema };
        let old = json!({"message": "Who?", "requestedSchema": {
            "type": "object",
            "properties": {
                "mail": {"type": "string", "format": "email"},
                "age": {"type": "integer", "minimum": 18, "maximum": 120},
                "sure": {"type": "boolean", "default": true},
                "color": {"type": "string", "enum": ["r", "g"], "enumNames": ["Red", "Green"]},
            },
            "required": ["mail"],
        }});
        assert_eq!(form.wire(Revision::V2025_06_18).unwrap(), old);
        let new = form.wire(Revision::V2026_07_28).unwrap();
        assert_eq!(new["mode"], "form");
        let properties = &new["requestedSchema"]["properties"];
        assert_eq!(properties["mail"]["default"], "a@b.example");
        assert_eq!(properties["color"]["oneOf"][1], json!({"const": "g", "title": "Green"}));
    }

    #[test]
    fn multiple_choice_needs_a_recent_client() {
        let field = Field::choices("colors", ["r", "g"]).length(1, 2);
        let form = ElicitForm { message: String::new(), schema: FormSchema::new([field]) };
        let refused = form.wire(Revision::V2025_06_18).unwrap_err();
        assert!(refused.to_string().contains("colors"), "{refused}");
        let field = &form.wire(Revision::V2025_11_25).unwrap()["requestedSchema"]["properties"];
        assert_eq!(field["colors"]["items"], json!({"type": "string", "enum": ["r", "g"]}));
    }

    #[test]
    fn a_url_has_an_id_under_handshake_revisions() {
        let url =
            ElicitUrl { message: "Go".into(), url: "https://a.example".into(), id: "x".into() };
        let id = |revision| url.wire(revision).get("elicitationId").is_some();
        assert_eq!((id(Revision::V2025_11_25), id(Revision::V2026_07_28)), (true, false));
    }
}
