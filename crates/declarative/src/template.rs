//! Templates: `{{name}}` in the texts and values of tool files.
//!
//! A template is parsed once, when its file is read. Values are inserted as they are and never
//! parsed again, so an argument cannot contain a template. `\{{` is a literal `{{`.

use std::borrow::Cow;
use std::path::Path;

use mcp_flow_workflow::find;
use serde_json::{Map, Value};

use crate::flow::{measure, take};
use crate::secret::{Secret, SecretSource};

/// Variables by name: the arguments of a call, and what a flow has gathered.
pub(crate) type Variables = Map<String, Value>;

/// Text with variables.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Template {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Part {
    Text(Box<str>),
    Variable(Box<str>),
}

impl Template {
    /// Parses a text; the error says what is wrong with it.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(start) = rest.find("{{") {
            if let Some(before) = rest[..start].strip_suffix('\\') {
                literal.push_str(before);
                literal.push_str("{{");
                rest = &rest[start + 2..];
                continue;
            }
            literal.push_str(&rest[..start]);
            let open = &rest[start + 2..];
            let end = open.find("}}").ok_or("`{{` has no `}}`; write \\{{ for two plain braces")?;
            let name = open[..end].trim();
            if !is_variable(name) {
                return Err(format!(
                    "`{{{{{name}}}}}` is not a variable, such as {{{{name}}}} or {{{{a.b.0}}}}; write \
                     \\{{{{ for two plain braces"
                ));
            }
            if !literal.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut literal).into()));
            }
            parts.push(Part::Variable(name.into()));
            rest = &open[end + 2..];
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            parts.push(Part::Text(literal.into()));
        }
        Ok(Self { parts })
    }

    pub(crate) fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Returns the text of a template without variables.
    pub(crate) fn literal(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [] => Some(""),
            [Part::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// Returns the variable of a template that is nothing else.
    pub(crate) fn only_variable(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [Part::Variable(name)] => Some(name),
            _ => None,
        }
    }

    /// Returns the names of the variables.
    pub(crate) fn variables(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Variable(name) => Some(&**name),
            Part::Text(_) => None,
        })
    }

    /// Fills in the text, each value by `insert`; `None` if a variable is absent.
    pub(crate) fn render_with<E>(
        &self,
        variables: &Variables,
        mut insert: impl FnMut(&str, &Value, &mut String) -> Result<(), E>,
    ) -> Result<Option<String>, E> {
        let mut filled = String::new();
        for part in &self.parts {
            match part {
                Part::Text(text) => filled.push_str(text),
                Part::Variable(name) => match lookup(variables, name) {
                    None => return Ok(None),
                    Some(value) => insert(name, value, &mut filled)?,
                },
            }
        }
        Ok(Some(filled))
    }

    /// Takes the approximate bytes of the text from those that are left; `None` if it needs more.
    pub(crate) fn measure(&self, variables: &Variables, left: &mut usize) -> Option<()> {
        self.parts.iter().try_for_each(|part| match part {
            Part::Text(text) => take(left, text.len()),
            Part::Variable(name) => measure_variable(variables, name, left),
        })
    }

    /// Fills in a text for people; absent variables are empty.
    pub(crate) fn text(&self, variables: &Variables) -> String {
        self.text_with(variables, |value| shown(value).into_owned())
    }

    /// Fills in a text, with the text of each value by a function; absent variables are empty.
    pub(crate) fn text_with(
        &self,
        variables: &Variables,
        text_of: impl Fn(&Value) -> String,
    ) -> String {
        let mut filled = String::new();
        for part in &self.parts {
            match part {
                Part::Text(text) => filled.push_str(text),
                Part::Variable(name) => {
                    filled.extend(lookup(variables, name).map(&text_of));
                }
            }
        }
        filled
    }
}

/// JSON value with variables in its texts.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ValueTemplate {
    Literal(Value),
    /// A text that is one variable has the type of its value.
    Variable(Box<str>),
    Text(Template),
    List(Vec<ValueTemplate>),
    Object(Vec<(Box<str>, ValueTemplate)>),
    /// A reference, which must be resolved before the value is filled in.
    Secret(SecretSource),
}

impl ValueTemplate {
    /// Parses all texts of a value; reports errors by their path. Secrets are read below a folder;
    /// without one they are errors.
    pub(crate) fn parse(
        value: &Value,
        folder: Option<&Path>,
        report: &mut dyn FnMut(&str, String),
    ) -> Self {
        Self::parse_at(value, folder, &mut String::new(), report)
    }

    fn parse_at(
        value: &Value,
        folder: Option<&Path>,
        pointer: &mut String,
        report: &mut dyn FnMut(&str, String),
    ) -> Self {
        let before = pointer.len();
        if let Some(reference) = secret_reference(value) {
            return parse_secret(value, reference, folder).unwrap_or_else(|message| {
                report(pointer, message);
                Self::Literal(Value::Null)
            });
        }
        match value {
            Value::String(text) if text.contains("{{") => match Template::parse(text) {
                Ok(template) => match (template.literal(), template.only_variable()) {
                    (Some(text), _) => Self::Literal(text.into()),
                    (_, Some(name)) => Self::Variable(name.into()),
                    _ => Self::Text(template),
                },
                Err(message) => {
                    report(pointer, message);
                    Self::Literal(Value::Null)
                }
            },
            Value::Array(items) => {
                let items = items.iter().enumerate().map(|(index, item)| {
                    pointer.push_str(&format!("/{index}"));
                    let item = Self::parse_at(item, folder, pointer, report);
                    pointer.truncate(before);
                    item
                });
                Self::List(items.collect())
            }
            Value::Object(members) => {
                let members = members.iter().map(|(name, member)| {
                    pointer.push('/');
                    pointer.push_str(&mcp_flow_proto::text::escape_pointer(name));
                    let member = Self::parse_at(member, folder, pointer, report);
                    pointer.truncate(before);
                    (name.as_str().into(), member)
                });
                Self::Object(members.collect())
            }
            other => Self::Literal(other.clone()),
        }
    }

    /// Replaces the references to secrets by their values, which are added to a list.
    pub(crate) fn resolve(&self, secrets: &mut Vec<Secret>) -> Result<Self, String> {
        Ok(match self {
            Self::Secret(source) => {
                let secret = source.read()?;
                let value = Self::Literal(secret.expose().into());
                secrets.push(secret);
                value
            }
            Self::List(items) => {
                let items = items.iter().map(|item| item.resolve(secrets));
                Self::List(items.collect::<Result<_, _>>()?)
            }
            Self::Object(members) => {
                let members = members.iter();
                let members = members.map(|(name, one)| Ok((name.clone(), one.resolve(secrets)?)));
                Self::Object(members.collect::<Result<_, String>>()?)
            }
            other => other.clone(),
        })
    }

    /// Visits the references to secrets.
    pub(crate) fn each_secret<'a>(&'a self, visit: &mut impl FnMut(&'a SecretSource)) {
        match self {
            Self::Secret(source) => visit(source),
            Self::List(items) => items.iter().for_each(|item| item.each_secret(visit)),
            Self::Object(members) => {
                members.iter().for_each(|(_, member)| member.each_secret(visit));
            }
            Self::Literal(_) | Self::Variable(_) | Self::Text(_) => {}
        }
    }

    /// Fills in the value; `None` if it is an absent variable. Absent members and items are left
    /// out.
    pub(crate) fn render(&self, variables: &Variables) -> Option<Value> {
        Some(match self {
            Self::Literal(value) => value.clone(),
            Self::Variable(name) => lookup(variables, name)?.clone(),
            Self::Secret(_) => return None,
            Self::Text(template) => template.text(variables).into(),
            Self::List(items) => {
                items.iter().filter_map(|item| item.render(variables)).collect::<Vec<_>>().into()
            }
            Self::Object(members) => {
                let members = members.iter().filter_map(|(name, member)| {
                    Some((name.to_string(), member.render(variables)?))
                });
                Value::Object(members.collect())
            }
        })
    }

    /// Takes the approximate bytes of the value from those that are left; `None` if it needs more.
    pub(crate) fn measure(&self, variables: &Variables, left: &mut usize) -> Option<()> {
        take(left, size_of::<Value>())?;
        match self {
            Self::Literal(value) => measure(value, left),
            Self::Secret(_) => Some(()),
            Self::Variable(name) => measure_variable(variables, name, left),
            Self::Text(template) => template.measure(variables, left),
            Self::List(items) => items.iter().try_for_each(|item| item.measure(variables, left)),
            Self::Object(members) => members.iter().try_for_each(|(name, member)| {
                take(left, name.len())?;
                member.measure(variables, left)
            }),
        }
    }

    /// Visits the names of all variables.
    pub(crate) fn each_variable<'a>(&'a self, visit: &mut impl FnMut(&'a str)) {
        match self {
            Self::Literal(_) | Self::Secret(_) => {}
            Self::Variable(name) => visit(name),
            Self::Text(template) => template.variables().for_each(visit),
            Self::List(items) => items.iter().for_each(|item| item.each_variable(visit)),
            Self::Object(members) => {
                members.iter().for_each(|(_, member)| member.each_variable(visit));
            }
        }
    }
}

/// Returns the reference of `{secret: "env:NAME"}`. Other objects may have a member `secret` as well.
fn secret_reference(value: &Value) -> Option<&str> {
    let reference = value.as_object()?.get("secret")?.as_str()?;
    let is_reference = ["env:", "file:"].iter().any(|start| reference.starts_with(start));
    let is_alone = value.as_object()?.keys().all(|name| name == "secret" || name == "prefix");
    (is_reference && is_alone).then_some(reference)
}

fn parse_secret(
    value: &Value,
    reference: &str,
    folder: Option<&Path>,
) -> Result<ValueTemplate, String> {
    let Some(folder) = folder else {
        return Err("a secret cannot be here; `env`, `stdin`, and the query, headers, body and \
                    `auth` of a request can have secrets"
            .to_owned());
    };
    if value.get("prefix").is_some() {
        return Err("only secrets in headers have a `prefix`".to_owned());
    }
    SecretSource::parse(reference, folder).map(ValueTemplate::Secret)
}

fn measure_variable(variables: &Variables, name: &str, left: &mut usize) -> Option<()> {
    lookup(variables, name).map_or(Some(()), |value| measure(value, left))
}

/// Looks up a variable, or a member of one; null is absent.
pub(crate) fn lookup<'a>(variables: &'a Variables, name: &str) -> Option<&'a Value> {
    find(variables, name).filter(|value| !value.is_null())
}

/// Text of a value: strings as they are, everything else as JSON.
pub(crate) fn shown(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => Cow::Borrowed(text),
        other => Cow::Owned(other.to_string()),
    }
}

/// Returns whether a text can be the name of a variable, or a path into one.
fn is_variable(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_-$@".contains(&byte);
    !name.is_empty()
        && name.len() <= 256
        && name.split('.').all(|part| !part.is_empty() && part.bytes().all(allowed))
}

#[cfg(test)]
mod tests {
    use super::{Template, ValueTemplate};
    use serde_json::json;

    #[test]
    fn texts_are_filled_in_once() {
        let variables = json!({"a": "{{b}}", "b": "x", "n": 5, "o": {"p": [1, "two"]}, "z": null});
        let variables = variables.as_object().unwrap();
        for (text, expected) in [
            ("plain", "plain"),
            ("{{a}} {{ b }}", "{{b}} x"),
            ("{{n}} {{o.p.1}} {{o.p}}", "5 two [1,\"two\"]"),
            ("<{{z}}{{missing}}>", "<>"),
            ("\\{{.Names}}", "{{.Names}}"),
            ("\\{{{{b}}", "{{x"),
            ("}}{", "}}{"),
        ] {
            assert_eq!(Template::parse(text).unwrap().text(variables), expected, "{text}");
        }
        for text in ["{{", "{{a", "{{}}", "{{ .Names }}", "{{a b}}", "{{a..b}}", "{{a|b}}"] {
            assert!(Template::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn values_keep_their_types() {
        let template = json!({"n": "{{n}}", "t": "n={{n}}", "gone": "{{x}}", "l": ["{{x}}", 1]});
        let template = ValueTemplate::parse(&template, None, &mut |_, message| panic!("{message}"));
        let variables = json!({"n": 5});
        let filled = template.render(variables.as_object().unwrap()).unwrap();
        assert_eq!(filled, json!({"n": 5, "t": "n=5", "l": [1]}));
    }
}
