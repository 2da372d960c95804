//! Decoding of a prompt's text arguments.
//!
//! On the wire every argument of a prompt is a text. The schema of the target type says which type
//! it stands for, so the text is read as that type and then decoded like the arguments of a tool.

use mcp_flow_proto::{DecodeError, Raw, ValueKind};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::tool::Violation;

/// Reads the texts of an object by name. Other members are ignored, as the official text defines no
/// error for them.
pub(crate) fn read<T: AsRef<str>>(
    arguments: Raw<'_>,
    names: &[T],
) -> Result<Vec<Option<String>>, Vec<Violation>> {
    let mut texts = vec![None; names.len()];
    let mut violations = Vec::new();
    let walked = arguments.each_member(names, |position, value| {
        let Some(position) = position else { return Ok(()) };
        let name = names[position].as_ref();
        if texts[position].is_some() {
            violations.push(violation(name, format!("{name} is there twice")));
        }
        match value.as_text() {
            Some(text) => texts[position] = Some(text.into_owned()),
            None if value.kind() == ValueKind::Null => {}
            None => {
                let sentence = format!("{name} must be a string; write a number as \"42\"");
                violations.push(violation(name, sentence));
            }
        }
        Ok::<_, DecodeError>(())
    });
    if let Err(error) = walked {
        let sentence = format!("the arguments cannot be decoded: {error}");
        violations.push(Violation { pointer: String::new(), sentence });
    }
    if violations.is_empty() { Ok(texts) } else { Err(violations) }
}

/// A violation by one argument.
pub(super) fn violation(name: &str, sentence: String) -> Violation {
    Violation::named(name, sentence)
}

/// The rule for reading a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reading {
    /// Read as a text, not as JSON.
    as_text: bool,
    /// An empty text means a missing value.
    may_be_empty: bool,
}

impl Reading {
    /// Read as a text and nothing else.
    pub(super) const TEXT: Self = Self { as_text: true, may_be_empty: false };

    /// The rule for a value that must conform to a schema.
    pub(super) fn of(schema: &Value, required: bool) -> Self {
        let as_text = admits(schema, "string");
        let may_be_empty = !required && (!as_text || admits(schema, "null"));
        Self { as_text, may_be_empty }
    }
}

/// Writes texts as a JSON object, each by its rule.
///
/// A text that cannot be read by its rule stays a text, so that the schema check explains it.
pub(super) fn to_json<'a>(
    texts: impl Iterator<Item = (&'a str, Reading, Option<&'a str>)>,
) -> String {
    let mut json = String::from("{");
    for (name, reading, text) in texts {
        // Forms send an empty text for fields not filled in.
        let Some(text) = text.filter(|text| !(reading.may_be_empty && text.is_empty())) else {
            continue;
        };
        if json.len() > 1 {
            json.push(',');
        }
        json.push_str(&quoted(name));
        json.push(':');
        let raw = if reading.as_text { None } else { serde_json::from_str::<&RawValue>(text).ok() };
        match raw {
            Some(raw) => json.push_str(raw.get()),
            None => json.push_str(&quoted(text)),
        }
    }
    json.push('}');
    json
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// The values a schema enumerates, if they are texts.
pub(super) fn listed(schema: &Value) -> Option<Vec<String>> {
    let texts = |values: &mut dyn Iterator<Item = Option<&Value>>| {
        let texts = values.map(|value| value.and_then(Value::as_str).map(str::to_owned));
        texts.collect::<Option<Vec<_>>>().filter(|texts| !texts.is_empty())
    };
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        let values = values.iter().filter(|value| !value.is_null());
        return texts(&mut values.map(Some));
    }
    if let Some(only) = schema.get("const") {
        return texts(&mut std::iter::once(Some(only)));
    }
    let forms = ["oneOf", "anyOf"].iter().find_map(|word| schema.get(*word)?.as_array())?;
    let forms = forms.iter().filter(|form| form.get("type").is_none_or(|kind| kind != "null"));
    let listed: Option<Vec<_>> = forms.map(listed).collect();
    listed.map(|listed| listed.concat()).filter(|texts| !texts.is_empty())
}

/// Returns whether a value of this type may conform to a schema.
fn admits(schema: &Value, kind: &str) -> bool {
    let Some(schema) = schema.as_object() else { return schema.as_bool() != Some(false) };
    let of_kind = |value: &Value| match value {
        Value::Null => kind == "null",
        Value::String(_) => kind == "string",
        _ => false,
    };
    let list = |word: &str| schema.get(word).and_then(Value::as_array);
    let by_type = match schema.get("type") {
        Some(Value::String(only)) => only == kind,
        Some(Value::Array(several)) => several.iter().any(|one| one == kind),
        _ => true,
    };
    by_type
        && list("enum").is_none_or(|values| values.iter().any(of_kind))
        && schema.get("const").is_none_or(of_kind)
        && list("anyOf").is_none_or(|forms| forms.iter().any(|form| admits(form, kind)))
        && list("oneOf").is_none_or(|forms| forms.iter().any(|form| admits(form, kind)))
        && list("allOf").is_none_or(|forms| forms.iter().all(|form| admits(form, kind)))
}

#[cfg(test)]
mod tests {
    use super::{Reading, listed, read, to_json};
    use mcp_flow_proto::{Encoding, Raw};
    use serde_json::{Value, json};

    /// PAT-041: arguments that are not texts are reported, in either encoding.
    #[test]
    fn non_text_arguments_are_reported() {
        let pointers = |arguments: Value| {
            let (text, cbor) = (arguments.to_string(), Encoding::Cbor.encode(&arguments).unwrap());
            [Raw::Json(&text), Raw::Cbor(&cbor)].map(|raw| match read(raw, &["a", "b/c"]) {
                Ok(texts) => format!("{texts:?}"),
                Err(faults) => {
                    faults.iter().map(|fault| fault.pointer.clone()).collect::<Vec<_>>().join(" ")
                }
            })
        };
        for (arguments, expected) in [
            (json!({"a": "x", "z": 7}), "[Some(\"x\"), None]"),
            (json!({"b/c": null}), "[None, None]"),
            (json!({"a": 1, "b/c": ["x"]}), "/a /b~1c"),
        ] {
            assert_eq!(pointers(arguments), [expected, expected]);
        }
        assert!(read(Raw::Json(r#"{"a":"x","a":"y"}"#), &["a"]).is_err());
    }

    /// PAT-041: a text is read as the type of its argument.
    #[test]
    fn texts_are_read_as_the_type_of_the_schema() {
        for (schema, text, expected) in [
            (json!({"type": "string"}), "5", r#"{"a":"5"}"#),
            (json!({"type": "integer"}), "5", r#"{"a":5}"#),
            (json!({"type": "integer"}), " 5 ", r#"{"a":5}"#),
            (json!({"type": "integer"}), "five", r#"{"a":"five"}"#),
            (json!({"type": "integer"}), "", "{}"),
            (json!({"type": ["integer", "null"]}), "", "{}"),
            (json!({"type": ["string", "null"]}), "", "{}"),
            (json!({"type": "string"}), "", r#"{"a":""}"#),
            (json!({"type": "boolean"}), "true", r#"{"a":true}"#),
            (json!({"type": "array"}), "[1, 2]", r#"{"a":[1, 2]}"#),
            (json!({"anyOf": [{"enum": ["x"]}, {"type": "null"}]}), "null", r#"{"a":"null"}"#),
            (json!({"oneOf": [{"const": 1}, {"const": 2}]}), "1", r#"{"a":1}"#),
            (json!({}), "1", r#"{"a":"1"}"#),
            (json!(true), "\"{}\n", r#"{"a":"\"{}\n"}"#),
        ] {
            let reading = Reading::of(&schema, false);
            let json = to_json(std::iter::once(("a", reading, Some(text))));
            assert_eq!(json, expected, "{schema}");
        }
    }

    #[test]
    fn enumerated_values_are_found() {
        for (schema, expected) in [
            (json!({"type": "string", "enum": ["a", "b"]}), Some(vec!["a", "b"])),
            (json!({"enum": ["a", null]}), Some(vec!["a"])),
            (json!({"oneOf": [{"const": "a"}, {"const": "b"}]}), Some(vec!["a", "b"])),
            (json!({"anyOf": [{"enum": ["a"]}, {"type": "null"}]}), Some(vec!["a"])),
            (json!({"anyOf": [{"enum": ["a"]}, {"type": "string"}]}), None),
            (json!({"type": "string"}), None),
            (json!({"enum": [1, 2]}), None),
        ] {
            let found = listed(&schema);
            let found = found.as_ref().map(|found| found.iter().map(String::as_str).collect());
            assert_eq!(found, expected, "{schema}");
        }
    }
}
