//! Queries and bodies from templates, each value encoded for its place.

use std::borrow::Cow;

use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use mcp_flow_server::tool::Failure;
use serde_json::{Map, Value};
use url::form_urlencoded::byte_serialize;

use crate::model::{BodyTemplate, ListStyle, Parameter, ParameterValue};
use crate::secret::Secret;
use crate::template::{ValueTemplate, Variables, shown};

/// Fills in what has names: the query and forms.
#[derive(Clone, Copy)]
pub(super) struct Filling<'a> {
    pub(super) variables: &'a Variables,
    pub(super) lists: ListStyle,
}

impl Filling<'_> {
    fn value(
        &self,
        template: &ValueTemplate,
        secrets: &mut Vec<Secret>,
    ) -> Result<Option<Value>, Failure> {
        let resolved = template.resolve(secrets);
        let resolved = resolved.map_err(|message| Failure::new("UNAVAILABLE", message))?;
        Ok(resolved.render(self.variables))
    }

    pub(super) fn parameters(
        &self,
        parameters: &[Parameter],
        secrets: &mut Vec<Secret>,
    ) -> Result<String, Failure> {
        let refused = |message: String| Failure::new("INVALID_ARGUMENT", message);
        let mut query = String::new();
        for Parameter { name, value } in parameters {
            let name = name.text(self.variables);
            match value {
                ParameterValue::Value(value) => {
                    if let Some(value) = self.value(value, secrets)? {
                        self.append(&mut query, &name, &value);
                    }
                }
                ParameterValue::Joined(value) => {
                    if let Some(value) = self.value(value, secrets)? {
                        let items = items_of(&name, &value, true).map_err(refused)?;
                        let items: Vec<_> = items.iter().map(|item| encoded(item)).collect();
                        push_pair(&mut query, &encoded(&name), &items.join(","));
                    }
                }
                ParameterValue::Spread(value) => match self.value(value, secrets)? {
                    None => {}
                    Some(Value::Object(members)) => {
                        self.append_members(&mut query, &members, parameters)?;
                    }
                    Some(_) => return Err(refused(format!("`{name}` must be an object"))),
                },
            }
        }
        Ok(query)
    }

    /// Appends members as parameters, unless they would be others that the author has named.
    fn append_members(
        &self,
        query: &mut String,
        members: &Map<String, Value>,
        parameters: &[Parameter],
    ) -> Result<(), Failure> {
        for (name, value) in members {
            let base = name.split('[').next().unwrap_or_default();
            if parameters.iter().any(|one| one.name.text(self.variables) == base) {
                let message = format!("`{name}` is a parameter already");
                return Err(Failure::new("INVALID_ARGUMENT", message));
            }
            self.append(query, name, value);
        }
        Ok(())
    }

    /// Appends a value; members of objects are in brackets.
    fn append(&self, query: &mut String, name: &str, value: &Value) {
        match value {
            Value::Null => {}
            Value::Array(items) => {
                let is_single = |item: &Value| !item.is_array() && !item.is_object();
                // The items of a list within another value belong together by their indexes only.
                let is_repeated = self.lists == ListStyle::Repeated
                    && !name.contains('[')
                    && items.iter().all(is_single);
                for (index, item) in items.iter().enumerate() {
                    match is_repeated {
                        true => self.append(query, name, item),
                        false => self.append(query, &format!("{name}[{index}]"), item),
                    }
                }
            }
            Value::Object(members) => {
                for (member, value) in members {
                    self.append(query, &format!("{name}[{member}]"), value);
                }
            }
            scalar => push_pair(query, &encoded(name), &encoded(&shown(scalar))),
        }
    }

    pub(super) fn body(
        &self,
        body: &BodyTemplate,
        secrets: &mut Vec<Secret>,
        headers: &mut HeaderMap,
    ) -> Result<Vec<u8>, Failure> {
        let (text, content_type) = match body {
            BodyTemplate::Json(value) => {
                let value = self.value(value, secrets)?;
                (value.map(|value| value.to_string()), "application/json")
            }
            BodyTemplate::Text(value) => {
                let value = self.value(value, secrets)?;
                (value.map(|value| shown(&value).into_owned()), "text/plain; charset=utf-8")
            }
            BodyTemplate::Markup(value) => {
                (self.markup(value, secrets)?, "application/xml; charset=utf-8")
            }
            BodyTemplate::Form(parameters) => {
                (Some(self.parameters(parameters, secrets)?), "application/x-www-form-urlencoded")
            }
            BodyTemplate::FormValue(value) => {
                let form = match self.value(value, secrets)? {
                    None => None,
                    Some(Value::Object(members)) => {
                        let mut form = String::new();
                        self.append_members(&mut form, &members, &[])?;
                        Some(form)
                    }
                    Some(_) => {
                        let message = "the body must be an object, whose members the form has";
                        return Err(Failure::new("INVALID_ARGUMENT", message));
                    }
                };
                (form, "application/x-www-form-urlencoded")
            }
        };
        let Some(text) = text else { return Ok(Vec::new()) };
        headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static(content_type));
        Ok(text.into_bytes())
    }

    /// Fills in XML or HTML. A body that is one variable is markup already.
    fn markup(
        &self,
        value: &ValueTemplate,
        secrets: &mut Vec<Secret>,
    ) -> Result<Option<String>, Failure> {
        let ValueTemplate::Text(template) = value else {
            return Ok(self.value(value, secrets)?.map(|value| shown(&value).into_owned()));
        };
        let escaped = |value: &Value| {
            let text = shown(value).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
            text.replace('"', "&quot;").replace('\'', "&apos;")
        };
        Ok(Some(template.text_with(self.variables, escaped)))
    }
}

/// Texts of a value, or of the items of a list. Items cannot contain the comma that separates them,
/// where it cannot be encoded or is decoded before they are separated.
pub(super) fn items_of<'a>(
    name: &str,
    value: &'a Value,
    separates: bool,
) -> Result<Vec<Cow<'a, str>>, String> {
    let Value::Array(items) = value else {
        return match value {
            Value::Object(_) => Err(format!("`{name}` must be a single value or a list")),
            single => Ok(vec![shown(single)]),
        };
    };
    let items = items.iter().filter(|item| !item.is_null()).map(|item| {
        if item.is_array() || item.is_object() {
            return Err(format!("the items of `{name}` must be single values"));
        }
        let text = shown(item);
        if separates && text.contains(',') {
            return Err(format!("an item of `{name}` contains a comma, which separates items"));
        }
        Ok(text)
    });
    items.collect()
}

fn encoded(text: &str) -> String {
    byte_serialize(text.as_bytes()).collect()
}

fn push_pair(query: &mut String, name: &str, value: &str) {
    if !query.is_empty() {
        query.push('&');
    }
    query.push_str(name);
    query.push('=');
    query.push_str(value);
}
