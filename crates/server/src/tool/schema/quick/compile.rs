//! Schemas into checks, as far as they are of the plain kind.

use std::collections::HashSet;

use regex::Regex;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Check, Members, Range};

impl Check {
    pub(super) fn compile(schema: &Value) -> Option<Self> {
        let schema = match schema {
            Value::Bool(true) => return Some(Self::Anything),
            Value::Object(schema) => schema,
            _ => return None,
        };
        match schema.get("type") {
            None => Self::compile_untyped(schema),
            Some(Value::String(kind)) => Self::compile_type(kind, schema),
            Some(Value::Array(kinds)) => {
                let null = kinds.iter().position(|kind| kind == "null")?;
                let [_, _] = kinds.as_slice() else { return None };
                let other = kinds[1 - null].as_str()?;
                let mut schema = schema.clone();
                if let Some(options) = schema.get_mut("enum") {
                    let options = options.as_array_mut()?;
                    let null = options.iter().position(Value::is_null)?;
                    options.remove(null);
                }
                Some(Self::Nullable(Box::new(Self::compile_type(other, &schema)?)))
            }
            Some(_) => None,
        }
    }

    /// A choice between fixed texts, as an enum with documented variants is derived, or something
    /// that may be null; otherwise nothing that restricts.
    fn compile_untyped(schema: &Map<String, Value>) -> Option<Self> {
        if let Some(forms) = schema.get("oneOf") {
            let options: Option<Vec<String>> = forms.as_array()?.iter().map(fixed_text).collect();
            let unbounded = Range { from: f64::NEG_INFINITY, to: f64::INFINITY };
            let options = options?;
            // One that is there twice would fit two forms, which is one too many.
            let distinct: HashSet<_> = options.iter().collect();
            if distinct.len() < options.len() {
                return None;
            }
            let check = Self::Text { length: unbounded, options: Some(options), pattern: None };
            return only(schema, &["oneOf"]).then_some(check);
        }
        if let Some(forms) = schema.get("anyOf") {
            let [form, null] = forms.as_array()?.as_slice() else { return None };
            if *null != json!({"type": "null"}) || !only(schema, &["anyOf"]) {
                return None;
            }
            return Some(Self::Nullable(Box::new(Self::compile(form)?)));
        }
        only(schema, &[]).then_some(Self::Anything)
    }

    fn compile_type(kind: &str, schema: &Map<String, Value>) -> Option<Self> {
        match kind {
            "boolean" => only(schema, &["type"]).then_some(Self::Boolean),
            name @ ("number" | "integer") => {
                let understood = only(schema, &["type", "minimum", "maximum"]);
                let range = Range::compile(schema, "minimum", "maximum")?;
                understood.then_some(Self::Number { whole: name == "integer", range })
            }
            "string" => {
                let understood =
                    only(schema, &["type", "minLength", "maxLength", "enum", "pattern"]);
                let length = Range::compile_length(schema, "minLength", "maxLength")?;
                let options = match schema.get("enum") {
                    Some(options) => Some(Vec::deserialize(options).ok()?),
                    None => None,
                };
                let pattern = match schema.get("pattern") {
                    Some(pattern) => Some(plain_pattern(pattern.as_str()?)?),
                    None => None,
                };
                understood.then_some(Self::Text { length, options, pattern })
            }
            "array" => {
                let words = ["type", "items", "minItems", "maxItems", "uniqueItems"];
                let length = Range::compile_length(schema, "minItems", "maxItems")?;
                let items = schema.get("items").map_or(Some(Self::Anything), Self::compile)?;
                let items = Box::new(items);
                let check = match schema.get("uniqueItems") {
                    None | Some(Value::Bool(false)) => Self::List { items, length },
                    // What makes two other values the same is left to the complete check.
                    Some(Value::Bool(true)) if matches!(*items, Self::Text { .. }) => {
                        Self::Distinct { items, length }
                    }
                    Some(_) => return None,
                };
                only(schema, &words).then_some(check)
            }
            "object" => {
                let words = ["type", "properties", "required", "additionalProperties"];
                let members = Members::compile(schema)?;
                only(schema, &words).then_some(Self::Object(members))
            }
            _ => None,
        }
    }
}

impl Range {
    fn compile(schema: &Map<String, Value>, from: &str, to: &str) -> Option<Self> {
        let bound = |name: &str, default: f64| match schema.get(name) {
            Some(value) => value.as_f64(),
            None => Some(default),
        };
        Some(Self { from: bound(from, f64::NEG_INFINITY)?, to: bound(to, f64::INFINITY)? })
    }

    fn compile_length(schema: &Map<String, Value>, from: &str, to: &str) -> Option<Self> {
        let whole = |name: &str| schema.get(name).is_none_or(Value::is_u64);
        (whole(from) && whole(to)).then(|| Self::compile(schema, from, to))?
    }
}

impl Members {
    fn compile(schema: &Map<String, Value>) -> Option<Self> {
        let mut names = Vec::new();
        let mut checks = Vec::new();
        if let Some(properties) = schema.get("properties") {
            for (name, schema) in properties.as_object()? {
                names.push(name.clone());
                checks.push(Check::compile(schema)?);
            }
        }
        let others_allowed = match schema.get("additionalProperties") {
            None | Some(Value::Bool(true)) => true,
            Some(Value::Bool(false)) => false,
            Some(_) => return None,
        };
        let mut required = 0;
        if names.len() > 64 {
            return None;
        }
        if let Some(wanted) = schema.get("required") {
            for wanted in wanted.as_array()? {
                let position = names.iter().position(|name| Some(&**name) == wanted.as_str())?;
                if required & 1 << position != 0 {
                    return None;
                }
                required |= 1 << position;
            }
        }
        Some(Self { names, checks, required, others_allowed })
    }
}

/// Whether a schema says nothing but these words and ones that never make a value bad.
fn only(schema: &Map<String, Value>, words: &[&str]) -> bool {
    schema.iter().all(|(word, value)| words.contains(&word.as_str()) || is_harmless(word, value))
}

/// Whether a word only describes, and is used as it should be.
fn is_harmless(word: &str, value: &Value) -> bool {
    match word {
        "default" => true,
        // A format says what a text is meant to be; the dialect does not check it.
        "title" | "description" | "$comment" | "format" => value.is_string(),
        "examples" => value.is_array(),
        "deprecated" | "readOnly" | "writeOnly" => value.is_boolean(),
        _ => word.starts_with("x-"),
    }
}

/// A pattern that means the same in every dialect: letters, digits, sets of them, repeated or not.
/// `None` for one that might not.
fn plain_pattern(text: &str) -> Option<Regex> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"^$[]-_+*?{},:/@ ".contains(&byte);
    let (first, rest) = text.split_at_checked(1)?;
    let anchored = first != "^" || !rest.contains('^');
    // A set that begins with its opposite or another set, and what is lazy, are left alone.
    let odd = ["[^", "[[", "[]", "--", "&&", "~~", "??", "*?", "+?", "}?", "[:"];
    if !text.bytes().all(is_plain) || !anchored || odd.iter().any(|odd| text.contains(odd)) {
        return None;
    }
    Regex::new(text).ok()
}

/// The one text a schema allows, if it is of that kind.
fn fixed_text(schema: &Value) -> Option<String> {
    let schema = schema.as_object()?;
    let good =
        only(schema, &["const", "type"]) && schema.get("type").is_none_or(|kind| kind == "string");
    schema.get("const").and_then(Value::as_str).filter(|_| good).map(str::to_owned)
}
