//! Explanation of a value that matches no alternative of `anyOf` or `oneOf`: the violations of the
//! intended alternative, or, if that is unclear, the list of alternatives.

use serde_json::Value;

use crate::Violation;
use crate::sentence::{at, list, member, shorten, type_word};

/// Explains a value that matches no alternative. `violations_of` lists the violations of the
/// alternative at a position.
pub(crate) fn explain(
    forms: &[&Value],
    value: &Value,
    location: &str,
    violations_of: impl FnOnce(usize) -> Vec<Violation>,
) -> Vec<Violation> {
    match intended(forms, value) {
        Intended::Form(index) => violations_of(index),
        Intended::Tag { name, tags } => {
            let tags: Vec<_> = tags.iter().map(ToString::to_string).collect();
            let sentence = match value.get(name) {
                Some(given) => format!("must be {}, not {given}", one_of(&tags)),
                None => format!("is required: {}", one_of(&tags)),
            };
            vec![at(&member(location, name), &sentence)]
        }
        Intended::Unknown => {
            let text = value.to_string();
            let given = shorten(&text);
            let forms: Vec<_> = forms.iter().map(|form| describe(form)).collect();
            vec![at(location, &format!("must be {}, not {given}", one_of(&forms)))]
        }
    }
}

/// The alternatives at a location of a schema, with references resolved.
pub(crate) fn listed<'a>(schema: &'a Value, location: &str) -> Vec<&'a Value> {
    let forms = schema.pointer(location).and_then(Value::as_array);
    forms.into_iter().flatten().map(|form| resolve(schema, form)).collect()
}

/// The target of a reference, or the alternative itself.
fn resolve<'a>(schema: &'a Value, form: &'a Value) -> &'a Value {
    let reference = form.get("$ref").and_then(Value::as_str);
    let location = reference.and_then(|reference| reference.strip_prefix('#'));
    location.and_then(|location| schema.pointer(location)).unwrap_or(form)
}

/// The alternative that a value was intended to match.
enum Intended<'a> {
    /// The one at this position.
    Form(usize),
    /// One of those distinguished by a tag member, which is missing or unknown.
    Tag { name: &'a str, tags: Vec<&'a Value> },
    /// None can be determined.
    Unknown,
}

fn intended<'a>(forms: &[&'a Value], value: &Value) -> Intended<'a> {
    if let Some(members) = value.as_object() {
        if let Some((name, tags)) = tag(forms) {
            let found = tags.iter().find(|(_, tag)| members.get(name) == Some(*tag));
            return match found {
                Some((index, _)) => Intended::Form(*index),
                None => {
                    Intended::Tag { name, tags: tags.into_iter().map(|(_, tag)| tag).collect() }
                }
            };
        }
        // An alternative with a single member is identified by its name.
        let by_member = forms.iter().position(|form| {
            only_member(form).is_some_and(|name| members.len() == 1 && members.contains_key(name))
        });
        if let Some(index) = by_member {
            return Intended::Form(index);
        }
    }
    // Otherwise the only alternative of the right type, unless it is a constant.
    let kind = kind_of(value);
    let of_this_kind = |form: &Value| {
        let types = form.get("type");
        let named = types.is_some_and(|types| {
            types == kind
                || types.as_array().is_some_and(|types| types.iter().any(|one| one == kind))
        });
        named && form.get("const").is_none() && only_member(form).is_none()
    };
    let mut fitting = (0..forms.len()).filter(|index| of_this_kind(forms[*index]));
    match (fitting.next(), fitting.next()) {
        (Some(index), None) => Intended::Form(index),
        _ => Intended::Unknown,
    }
}

/// The member whose constant value distinguishes all alternatives that are objects.
fn tag<'a>(forms: &[&'a Value]) -> Option<(&'a str, Vec<(usize, &'a Value)>)> {
    let objects = || forms.iter().copied().enumerate().filter(|(_, form)| form["type"] == "object");
    let (_, first) = objects().next()?;
    let fixed = |form: &'_ Value, name: &str| form["properties"][name].get("const").is_some();
    let name = first["properties"]
        .as_object()?
        .keys()
        .find(|name| objects().all(|(_, form)| fixed(form, name)) && objects().count() > 1)?;
    let tags = objects().map(|(index, form)| (index, &form["properties"][name]["const"]));
    Some((name, tags.collect()))
}

/// The only member of an alternative, as enum variants with data have.
fn only_member(form: &Value) -> Option<&str> {
    let properties = form.get("properties")?.as_object()?;
    let (name, _) = properties.iter().next().filter(|_| properties.len() == 1)?;
    let is_tag = properties[name].get("const").is_some();
    (!is_tag && form["required"] == Value::from(vec![name.as_str()])).then_some(name)
}

fn describe(form: &Value) -> String {
    if let Some(value) = form.get("const") {
        return value.to_string();
    }
    if let Some(options) = form.get("enum").and_then(Value::as_array) {
        return one_of(&options.iter().map(ToString::to_string).collect::<Vec<_>>());
    }
    if let Some(name) = only_member(form) {
        return format!("an object with {name}");
    }
    match form.get("type").and_then(Value::as_str) {
        Some(kind) => type_word(kind).to_owned(),
        None => "of another form".to_owned(),
    }
}

/// `a, b or c`, each once.
fn one_of(words: &[String]) -> String {
    let mut once: Vec<&str> = Vec::new();
    for word in words {
        if !once.contains(&word.as_str()) {
            once.push(word);
        }
    }
    list(&once, "or")
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
