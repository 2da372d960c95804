//! Reading the query and the body of a request.

use hyper::header::{CONTENT_TYPE, HeaderName};
use mcp_flow_workflow::document::{Fields, Problems, ValuePath, shown};
use serde_json::{Map, Value};

use super::super::{Reader, scalar};
use crate::model::{BodyTemplate, HeaderTemplate, Parameter, ParameterValue};
use crate::template::{Template, ValueTemplate};

/// Reads the parameters of a text such as `a=1&b={{b}}`; `None` if one is invalid.
pub(super) fn read_pairs(
    text: &str,
    path: ValuePath<'_>,
    reader: &Reader<'_>,
    problems: &Problems,
) -> Option<Vec<Parameter>> {
    let mut parameters = Vec::new();
    for pair in text.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let decoded = |text: &str| {
            let text = text.replace('+', " ");
            percent_encoding::percent_decode_str(&text).decode_utf8_lossy().into_owned()
        };
        let name = reader.template(&decoded(name), path, problems)?;
        let value = reader.template(&decoded(value), path, problems)?;
        let value = match value.only_variable() {
            Some(variable) => ValueTemplate::Variable(variable.into()),
            None => ValueTemplate::Text(value),
        };
        parameters.push(Parameter { name, value: ParameterValue::Value(value) });
    }
    Some(parameters)
}

/// Reads the parameters of an object.
pub(super) fn read_parameters(
    members: &Map<String, Value>,
    path: ValuePath<'_>,
    reader: &Reader<'_>,
    problems: &Problems,
) -> Vec<Parameter> {
    let mut parameters = Vec::new();
    for (name, value) in members {
        let path = path.member(name);
        if name.contains("{{") {
            problems.error(path, "the name of a parameter cannot have variables");
            continue;
        }
        let Ok(name) = Template::parse(name) else { continue };
        let kind = KINDS.into_iter().find(|kind| value.get(kind).is_some());
        let Some(kind) = kind else {
            let value = reader.value_with_secrets(value, path, problems);
            parameters.push(Parameter { name, value: ParameterValue::Value(value) });
            continue;
        };
        let Some(fields) = Fields::of(value, path, &[kind], problems) else { continue };
        let Some(inner) = fields.get(kind) else { continue };
        let inner = || reader.value(inner, fields.location(kind), problems);
        let value = match kind {
            "join" => ParameterValue::Joined(inner()),
            "spread" => ParameterValue::Spread(inner()),
            _ => match scalar::secret(&fields, reader.folder) {
                Some(source) => ParameterValue::Value(ValueTemplate::Secret(source)),
                None => continue,
            },
        };
        parameters.push(Parameter { name, value });
    }
    parameters
}

/// Reads the body. Its encoding follows from the type of the content.
pub(super) fn read_body(
    fields: &Fields<'_>,
    reader: &Reader<'_>,
    headers: &[(HeaderName, HeaderTemplate)],
) -> Option<BodyTemplate> {
    let body = fields.get("body")?;
    let (path, problems) = (fields.location("body"), fields.problems());
    let content_type = headers.iter().find_map(|(name, value)| match value {
        HeaderTemplate::Text(text) if *name == CONTENT_TYPE => text.literal(),
        _ => None,
    });
    let essence = content_type.map(|text| text.split(';').next().unwrap_or_default().trim());
    let essence = essence.map(str::to_ascii_lowercase);
    let value = || reader.value_with_secrets(body, path, problems);
    match essence.as_deref() {
        Some("application/x-www-form-urlencoded") => read_form(fields, body, reader),
        Some(json) if json == "application/json" || json.ends_with("+json") => {
            read_json(fields, body, reader)
        }
        Some(kind) => {
            let value = value();
            let is_markup = kind.ends_with("xml") || kind == "text/html";
            if is_markup {
                return Some(BodyTemplate::Markup(value));
            }
            if kind != "text/plain" && matches!(value, ValueTemplate::Text(_)) {
                fields.warn(&format!(
                    "values are inserted into this body as they are, because {kind} has no encoding \
                     here; let one variable be the whole body"
                ));
            }
            Some(BodyTemplate::Text(value))
        }
        None if body.as_str().is_some_and(looks_like_json) => read_json(fields, body, reader),
        None => Some(match value() {
            value @ (ValueTemplate::Text(_) | ValueTemplate::Literal(Value::String(_))) => {
                BodyTemplate::Text(value)
            }
            value => BodyTemplate::Json(value),
        }),
    }
}

/// Reads JSON. A text of it is parsed before its variables are filled in, so that they stay values.
fn read_json(fields: &Fields<'_>, body: &Value, reader: &Reader<'_>) -> Option<BodyTemplate> {
    let (path, problems) = (fields.location("body"), fields.problems());
    let text = body.as_str().filter(|text| looks_like_json(text));
    let parsed = text.map(serde_json::from_str::<Value>).transpose();
    let Ok(parsed) = parsed else {
        let message =
            "this text is not JSON; write the body as an object, such as {id: \"{{id}}\"}";
        fields.note("body", message);
        return None;
    };
    let body = parsed.as_ref().unwrap_or(body);
    Some(BodyTemplate::Json(reader.value_with_secrets(body, path, problems)))
}

fn read_form(fields: &Fields<'_>, body: &Value, reader: &Reader<'_>) -> Option<BodyTemplate> {
    let (path, problems) = (fields.location("body"), fields.problems());
    match body {
        Value::Object(members) => {
            Some(BodyTemplate::Form(read_parameters(members, path, reader, problems)))
        }
        Value::String(text) => {
            let whole = Template::parse(text).ok().filter(|text| text.only_variable().is_some());
            match whole {
                Some(_) => Some(BodyTemplate::FormValue(reader.value(body, path, problems))),
                None => read_pairs(text, path, reader, problems).map(BodyTemplate::Form),
            }
        }
        other => {
            let message = format!(
                "the body of a form is an object, or a text such as a=1&b={{{{b}}}}, not {}",
                shown(other)
            );
            fields.note("body", message);
            None
        }
    }
}

/// Returns whether a text begins as JSON does, and not as a template.
fn looks_like_json(text: &str) -> bool {
    let text = text.trim_start();
    text.starts_with('[') || (text.starts_with('{') && !text.starts_with("{{"))
}

/// Members by which the value of a parameter is more than a value.
const KINDS: [&str; 3] = ["secret", "join", "spread"];
