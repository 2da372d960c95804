//! Form answers of a client, checked and decoded like arguments.

use mcp_flow_proto::Raw;
use mcp_flow_proto::model::FormSchema;
use mcp_flow_schema::{CheckError, Schema};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::arguments::decode;
use super::derived::{argument_schema, without_null};
use super::unreadable;

/// The schema of a form, derived from the type of its answer.
pub(crate) fn form_schema<T: JsonSchema>() -> Value {
    without_null(argument_schema::<T>())
}

/// Checks and decodes a form's content; the error lists all violations.
///
/// Unknown members are dropped, and `null` means not filled in.
pub(crate) fn read_form<T: DeserializeOwned>(
    form: &FormSchema,
    mut content: Map<String, Value>,
) -> Result<T, String> {
    let asked = |name: &str| form.fields.iter().any(|field| field.name == name);
    content.retain(|name, value| asked(name) && !value.is_null());
    let content = Value::Object(content).to_string();
    let content = Raw::Json(&content);
    let schema = Schema::compile_with_formats(&form.to_schema())?;
    schema.check(content).and_then(|()| decode(content)).map_err(|fault| match fault {
        CheckError::Unreadable(error) => unreadable(&error),
        CheckError::Violations(violations) => {
            let sentences: Vec<_> = violations.into_iter().map(|one| one.sentence).collect();
            sentences.join("; ")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::{form_schema, read_form};
    use mcp_flow_proto::model::FormSchema;
    use serde_json::{Value, json};

    #[derive(Debug, PartialEq, serde::Deserialize, schemars::JsonSchema)]
    struct Contact {
        /// Your name
        #[schemars(length(min = 1, max = 20))]
        name: String,
        age: Option<u8>,
        #[serde(default)]
        #[schemars(email)]
        mail: Option<String>,
        color: Option<Color>,
        #[serde(default)]
        sizes: Vec<Size>,
    }

    #[derive(Debug, PartialEq, serde::Deserialize, schemars::JsonSchema)]
    #[serde(rename_all = "lowercase")]
    enum Color {
        Red,
        Green,
    }

    #[derive(Debug, PartialEq, serde::Deserialize, schemars::JsonSchema)]
    enum Size {
        /// Up to 10
        Small,
        /// More
        Large,
    }

    /// C-06: a form is derived from a type.
    #[test]
    fn a_type_becomes_a_form() {
        let form = FormSchema::from_schema(&form_schema::<Contact>()).unwrap();
        let schema = form.to_schema();
        assert_eq!(schema["required"], json!(["name"]));
        let properties = &schema["properties"];
        assert_eq!(properties["name"]["description"], "Your name");
        let age = json!({"type": "integer", "minimum": 0, "maximum": 255});
        assert_eq!(properties["age"], age);
        assert_eq!(properties["mail"]["format"], "email");
        assert_eq!(properties["color"]["enum"], json!(["red", "green"]));
        let small = json!({"const": "Small", "title": "Up to 10"});
        assert_eq!(properties["sizes"]["items"]["anyOf"][0], small);
    }

    /// C-06: answers of a client are validated.
    #[test]
    fn form_answers_are_validated() {
        check(json!({"name": "Al", "age": 5.0, "color": "red", "sizes": ["Large"], "x": {}}), "");
        check(json!({"name": "Al", "age": null, "mail": "a@b.example"}), "");
        check(json!({}), "name is required");
        check(json!({"name": ""}), "name");
        check(json!({"name": 7}), "name must be");
        check(json!({"name": "Al", "age": 256}), "age");
        check(json!({"name": "Al", "age": "5"}), "age must be");
        check(json!({"name": "Al", "mail": "nobody"}), "mail");
        check(json!({"name": "Al", "color": "blue"}), "color");
        check(json!({"name": "Al", "sizes": ["Huge"]}), "sizes");
        check(json!({"name": "Al", "sizes": "Large"}), "sizes");
    }

    fn check(content: Value, expected: &str) {
        let form = FormSchema::from_schema(&form_schema::<Contact>()).unwrap();
        let Value::Object(members) = content.clone() else { panic!("not an object") };
        match read_form::<Contact>(&form, members) {
            Ok(contact) => assert_eq!((contact.name.as_str(), expected), ("Al", ""), "{content}"),
            Err(error) => {
                assert!(!expected.is_empty() && error.contains(expected), "{content}: {error}");
            }
        }
    }
}
