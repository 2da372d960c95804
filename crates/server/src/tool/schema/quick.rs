//! A check that runs on encoded arguments without building them in memory first.
//!
//! It understands the schemas most tools have, objects of plain values, and nothing else. It may
//! say no to good arguments, such as a member given twice; it never says yes to bad ones.

use std::borrow::Cow;
use std::collections::HashSet;

use mcp_flow_proto::{DecodeError, Kind, Raw};
use regex::Regex;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// A compiled schema of the plain kind.
#[derive(Debug)]
pub(crate) struct Quick(Check);

impl Quick {
    /// Compiles a schema; `None` if it says anything this check does not understand.
    pub(crate) fn compile(schema: &Value) -> Option<Self> {
        Check::compile(schema).map(Self)
    }

    /// Whether the arguments are known to be good.
    pub(crate) fn accepts(&self, arguments: Raw<'_>) -> bool {
        self.0.accept(arguments).is_ok()
    }
}

#[derive(Debug)]
enum Check {
    Anything,
    Boolean,
    Number {
        whole: bool,
        range: Range,
    },
    Text {
        length: Range,
        options: Option<Vec<String>>,
        pattern: Option<Regex>,
    },
    List {
        items: Box<Check>,
        length: Range,
    },
    /// Texts of which no two are the same.
    Distinct {
        items: Box<Check>,
        length: Range,
    },
    Object(Members),
    Nullable(Box<Check>),
}

/// From and to, both included.
#[derive(Clone, Copy, Debug)]
struct Range {
    from: f64,
    to: f64,
}

#[derive(Debug)]
struct Members {
    names: Vec<String>,
    /// One for each name.
    checks: Vec<Check>,
    /// One bit for each name that must be there.
    required: u64,
    others_allowed: bool,
}

impl Check {
    fn compile(schema: &Value) -> Option<Self> {
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

    fn holds(self, number: f64) -> bool {
        (self.from..=self.to).contains(&number)
    }

    #[expect(clippy::cast_precision_loss, reason = "no length in memory comes near 2^53")]
    fn holds_length(self, length: impl FnOnce() -> usize) -> bool {
        // Counting characters takes time; do not when any count will do.
        self.is_unbounded() || self.holds(length() as f64)
    }

    fn is_unbounded(self) -> bool {
        self.from.is_infinite() && self.to.is_infinite()
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

impl Check {
    fn accept(&self, value: Raw<'_>) -> Result<(), NotKnown> {
        match self {
            Self::Anything => Ok(()),
            Self::Boolean => known(value.kind() == Kind::Boolean),
            Self::Number { whole: false, range } if range.is_unbounded() => {
                known(value.kind() == Kind::Number)
            }
            Self::Number { whole, range } => {
                let number = value.as_number().ok_or(NotKnown)?;
                // Where floats are not exact, the complete check decides.
                let exact = number.abs() < 9.0e15;
                known(exact && range.holds(number) && (!whole || number.fract() == 0.0))
            }
            Self::Text { .. } => self.accept_text(value).map(drop),
            Self::Distinct { items, length } => {
                let mut seen = Seen::default();
                value.each_element(|element| known(seen.is_new(items.accept_text(element)?)))?;
                known(length.holds_length(|| seen.count()))
            }
            Self::List { items, length } => {
                let mut count = 0;
                value.each_element(|element| {
                    count += 1;
                    items.accept(element)
                })?;
                known(length.holds_length(|| count))
            }
            Self::Object(members) => members.accept(value),
            Self::Nullable(_) if value.kind() == Kind::Null => Ok(()),
            Self::Nullable(check) => check.accept(value),
        }
    }

    /// A text that is known to be good.
    fn accept_text<'a>(&self, value: Raw<'a>) -> Result<Cow<'a, str>, NotKnown> {
        let Self::Text { length, options, pattern } = self else { return Err(NotKnown) };
        let text = value.as_text().ok_or(NotKnown)?;
        let is_option = options.as_ref().is_none_or(|all| all.iter().any(|one| *one == text));
        let has_form = pattern.as_ref().is_none_or(|pattern| pattern.is_match(&text));
        known(is_option && has_form && length.holds_length(|| text.chars().count()))?;
        Ok(text)
    }
}

/// The texts of a list so far. A few are compared one by one, which is quicker than to hash them.
#[derive(Default)]
struct Seen<'a> {
    few: Vec<Cow<'a, str>>,
    many: HashSet<Cow<'a, str>>,
}

impl<'a> Seen<'a> {
    fn is_new(&mut self, text: Cow<'a, str>) -> bool {
        if self.few.contains(&text) {
            return false;
        }
        if self.few.len() < FEW {
            self.few.push(text);
            return true;
        }
        self.many.insert(text)
    }

    fn count(&self) -> usize {
        self.few.len() + self.many.len()
    }
}

const FEW: usize = 16;

impl Members {
    fn accept(&self, value: Raw<'_>) -> Result<(), NotKnown> {
        let mut seen = 0u64;
        value.each_member(&self.names, |position, member| {
            let Some(position) = position else { return known(self.others_allowed) };
            known(seen & 1 << position == 0)?;
            seen |= 1 << position;
            self.checks[position].accept(member)
        })?;
        known(seen & self.required == self.required)
    }
}

/// The value is bad, or not of the kind this check can tell.
#[derive(Debug)]
struct NotKnown;

impl From<DecodeError> for NotKnown {
    fn from(_: DecodeError) -> Self {
        Self
    }
}

fn known(good: bool) -> Result<(), NotKnown> {
    if good { Ok(()) } else { Err(NotKnown) }
}

#[cfg(test)]
mod tests {
    use super::Quick;
    use mcp_flow_proto::{Encoding, Raw};
    use serde_json::{Value, json};

    /// PAT-030: what the quick check accepts, the complete one accepts too, for every pair of a
    /// schema and a value here, in both encodings.
    #[test]
    fn the_quick_check_never_accepts_what_the_complete_one_refuses() {
        let mut accepted = 0;
        for schema in plain_schemas() {
            let quick = Quick::compile(&schema).unwrap_or_else(|| panic!("{schema} is plain"));
            let complete = jsonschema::draft202012::new(&schema).unwrap();
            for text in VALUES {
                let value: Value = serde_json::from_str(text).unwrap();
                let cbor = Encoding::Cbor.encode(&value).unwrap();
                for raw in [Raw::Json(text), Raw::Cbor(&cbor)] {
                    if quick.accepts(raw) {
                        accepted += 1;
                        assert!(complete.is_valid(&value), "{schema} does not allow {text}");
                    }
                }
            }
        }
        assert!(accepted > 100, "the check accepts plain values: {accepted}");
    }

    #[test]
    fn what_it_does_not_understand_is_left_to_the_complete_check() {
        for schema in [
            json!({"type": "object", "minProperties": 1}),
            json!({"type": ["string", "number"]}),
            json!({"type": ["string", "null"], "enum": ["a"]}),
            json!({"oneOf": [{"const": "a"}, {"const": "a"}]}),
            json!({"oneOf": [{"const": "a"}, {"const": 1}]}),
            json!({"anyOf": [{"type": "string"}, {"type": "number"}]}),
            json!({"type": "string", "pattern": "\\d"}),
            json!({"type": "string", "pattern": "[^a]"}),
            json!({"type": "string", "pattern": "a|b"}),
            json!({"type": "string", "pattern": "["}),
            json!({"type": "array", "items": {"type": "number"}, "uniqueItems": true}),
            json!({"type": "array", "uniqueItems": true}),
            json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/x"}}}),
            json!({"type": "object", "required": ["unlisted"]}),
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
            json!({"type": "string", "enum": [1]}),
            json!({"type": "object", "title": 7}),
            json!({"type": "object", "properties": {"a": true}, "required": ["a", "a"]}),
            json!({"anyOf": []}),
            json!(false),
        ] {
            assert!(Quick::compile(&schema).is_none(), "{schema}");
        }
    }

    fn plain_schemas() -> Vec<Value> {
        vec![
            json!(true),
            json!({"description": "anything"}),
            json!({"type": "boolean"}),
            json!({"type": "number"}),
            json!({"type": "number", "minimum": 0, "maximum": 10.5}),
            json!({"type": "integer"}),
            json!({"type": "integer", "minimum": -5}),
            json!({"type": "string"}),
            json!({"type": "string", "minLength": 1, "maxLength": 2}),
            json!({"type": "string", "enum": ["a", "é"]}),
            json!({"type": "string", "pattern": "^[a-z0-9-]+$", "minLength": 1}),
            json!({"type": "string", "pattern": "b"}),
            json!({"type": "array", "items": {"type": "string"}, "uniqueItems": true, "maxItems": 3}),
            json!({"type": "array", "items": {"type": "string", "pattern": "^[a-z]+$"}, "uniqueItems": true}),
            json!({"type": ["integer", "null"], "minimum": 0, "format": "int32"}),
            json!({"type": ["null", "string"], "x-more": {"a": 1}}),
            json!({"type": ["string", "null"], "enum": ["a", null]}),
            json!({"oneOf": [
                {"const": "a", "description": "A", "type": "string"}, {"const": "é"}
            ]}),
            json!({"anyOf": [
                {"type": "object", "properties": {"a": {"type": "number"}}}, {"type": "null"}
            ]}),
            json!({"type": "array"}),
            json!({"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2}),
            json!({"type": "object"}),
            json!({"type": "object", "additionalProperties": false}),
            json!({"type": "object", "properties": {"a": {"type": "number"}}, "required": ["a"]}),
            json!({
                "type": "object",
                "properties": {"a": {"type": "object", "properties": {"b": {"type": "boolean"}}}},
                "additionalProperties": false
            }),
        ]
    }

    const VALUES: [&str; 36] = [
        "null",
        "true",
        "false",
        "0",
        "-0",
        "1",
        "1.0",
        "1e0",
        "10.5",
        "10.6",
        "-6",
        "0.5",
        "9007199254740993",
        "12345678901234567890",
        "1e300",
        "\"\"",
        "\"a\"",
        "\"\\u0061\"",
        "\"é\"",
        "\"abc\"",
        "\"\\n\"",
        "[]",
        "[1]",
        "[1,2,3]",
        "[1.5]",
        "[[]]",
        "{}",
        "{\"a\":1}",
        "{\"\\u0061\":\"x\"}",
        "{\"a\":{\"b\":true}}",
        "{\"a\":{\"b\":1}}",
        "{\"b\":1}",
        "\"a-1\\n\"",
        "[\"a\",\"b\"]",
        "[\"a\",\"\\u0061\"]",
        "[\"a\",\"b\",\"c\",\"d\"]",
    ];
}
