//! A prompt's definition and argument decoding.

use mcp_flow_proto::model::{PromptArgument, PromptDefinition};
use mcp_flow_proto::{DecodeError, Raw};
use mcp_flow_schema::{CheckError, Schema};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::PromptParameter;
use super::builder::{BadPrompt, check_name};
use super::texts::{self, Reading, listed, to_json, violation};
use crate::completion::Completer;
use crate::tool::Violation;
use crate::tool::arguments::decode;

/// A prompt's definition, and the rules for decoding its arguments.
#[derive(Debug)]
pub(super) struct Shape {
    pub(super) definition: PromptDefinition,
    /// One for each argument, in the same order.
    rules: Vec<Rule>,
    /// The schema of the arguments, if they are decoded into a type.
    schema: Option<Schema>,
}

#[derive(Debug)]
struct Rule {
    reading: Reading,
    completer: Option<Completer>,
    secret: bool,
}

impl Shape {
    /// Merges the arguments derived from a type with those the author describes.
    pub(super) fn new(
        mut definition: PromptDefinition,
        said: Vec<PromptParameter>,
        schema: Option<Value>,
    ) -> Result<Self, BadPrompt> {
        check_name(&definition.name)?;
        if let Some(icon) = definition.icons.iter().find(|icon| !icon.is_displayable()) {
            return Err(BadPrompt::Icon { src: icon.src.clone(), name: definition.name });
        }
        let mut arguments = schema.as_ref().map(derived).unwrap_or_default();
        for (index, argument) in said.iter().enumerate() {
            let name = &argument.definition.name;
            if said[..index].iter().any(|other| other.definition.name == *name) {
                let argument = name.clone();
                return Err(BadPrompt::Twice { name: definition.name, argument });
            }
            match arguments.iter_mut().find(|(known, _)| known.definition.name == *name) {
                Some((known, _)) => merge(known, argument),
                None => arguments.push((argument.clone(), Reading::TEXT)),
            }
        }
        let mut rules = Vec::with_capacity(arguments.len());
        for (argument, reading) in arguments {
            let PromptParameter { definition: argument, completer, secret } = argument;
            check_name(&argument.name)?;
            if secret && completer.is_some() {
                let argument = argument.name;
                return Err(BadPrompt::Secret { name: definition.name, argument });
            }
            definition.arguments.push(argument);
            rules.push(Rule { reading, completer, secret });
        }
        let schema = schema
            .as_ref()
            .map(Schema::compile)
            .transpose()
            .map_err(|reason| BadPrompt::Schema { name: definition.name.clone(), reason })?;
        Ok(Self { definition, rules, schema })
    }

    /// Creates the shape of a prompt whose arguments another server validates.
    pub(super) fn described(definition: PromptDefinition) -> Self {
        Self { definition, rules: Vec::new(), schema: None }
    }

    pub(super) fn description(&self) -> Option<&str> {
        self.definition.description.as_deref()
    }

    /// The position of the argument with this name.
    pub(super) fn position(&self, name: &str) -> Option<usize> {
        self.definition.arguments.iter().position(|argument| argument.name == name)
    }

    pub(super) fn is_secret(&self, position: usize) -> bool {
        self.rules[position].secret
    }

    pub(super) fn completer(&self, position: usize) -> Option<&Completer> {
        self.rules[position].completer.as_ref()
    }

    pub(super) fn has_completions(&self) -> bool {
        self.rules.iter().any(|rule| rule.completer.is_some())
    }

    /// The names of the arguments, in order.
    pub(super) fn names(&self) -> Vec<&str> {
        self.definition.arguments.iter().map(|argument| argument.name.as_str()).collect()
    }

    /// Reads the arguments of a request as texts.
    pub(super) fn read(&self, arguments: Raw<'_>) -> Result<Vec<Option<String>>, Vec<Violation>> {
        let texts = texts::read(arguments, &self.names())?;
        let missing: Vec<_> = self
            .definition
            .arguments
            .iter()
            .zip(&texts)
            .filter(|(argument, text)| argument.required && text.is_none())
            .map(|(PromptArgument { name, .. }, _)| violation(name, format!("{name} is required")))
            .collect();
        if missing.is_empty() { Ok(texts) } else { Err(missing) }
    }

    /// Decodes texts into the type a function takes.
    pub(super) fn decode<T: DeserializeOwned>(
        &self,
        texts: &[Option<String>],
    ) -> Result<T, CheckError> {
        let named = self.definition.arguments.iter().zip(&self.rules).zip(texts);
        let json = to_json(named.map(|((argument, rule), text)| {
            (argument.name.as_str(), rule.reading, text.as_deref())
        }));
        let raw = Raw::Json(&json);
        let checked = self.schema.as_ref().map_or(Ok(()), |schema| schema.check(raw));
        checked.and_then(|()| decode(raw)).map_err(|fault| self.without_secrets(fault))
    }

    /// The values of secret arguments.
    pub(super) fn secrets(&self, texts: Vec<Option<String>>) -> Vec<String> {
        let secret = self.rules.iter().zip(texts).filter(|(rule, _)| rule.secret);
        secret.filter_map(|(_, text)| text.filter(|text| !text.is_empty())).collect()
    }

    /// The fault without values of secret arguments.
    fn without_secrets(&self, fault: CheckError) -> CheckError {
        let has_secrets = self.rules.iter().any(|rule| rule.secret);
        match fault {
            CheckError::Violations(mut violations) => {
                for one in &mut violations {
                    let name = one.pointer.split('/').nth(1).unwrap_or_default();
                    if self.position(name).is_some_and(|position| self.is_secret(position)) {
                        one.sentence = format!("{name} cannot be used");
                    }
                }
                CheckError::Violations(violations)
            }
            CheckError::Unreadable(_) if has_secrets => {
                let details = "one of them is not what it must be".to_owned();
                CheckError::Unreadable(DecodeError::Shape(details))
            }
            fault @ CheckError::Unreadable(_) => fault,
        }
    }
}

/// The arguments derived from a schema.
fn derived(schema: &Value) -> Vec<(PromptParameter, Reading)> {
    let required = schema.get("required").and_then(Value::as_array);
    let is_required = |name: &str| required.is_some_and(|list| list.iter().any(|one| one == name));
    let properties = schema.get("properties").and_then(Value::as_object);
    let properties = properties.into_iter().flatten();
    let argument = |(name, property): (&String, &Value)| {
        let text = |word: &str| property.get(word).and_then(Value::as_str).map(str::to_owned);
        let required = is_required(name);
        let definition = PromptArgument {
            name: name.clone(),
            title: text("title"),
            description: text("description"),
            required,
        };
        let completer = listed(property).map(Completer::list);
        (PromptParameter { definition, completer, secret: false }, Reading::of(property, required))
    };
    properties.map(argument).collect()
}

/// Merges the author's description of an argument into the derived one.
fn merge(known: &mut PromptParameter, said: &PromptParameter) {
    let PromptParameter { definition, completer, secret } = said.clone();
    let PromptArgument { title, description, required, .. } = definition;
    known.definition.title = title.or(known.definition.title.take());
    known.definition.description = description.or(known.definition.description.take());
    known.definition.required |= required;
    // An enum's values are not suggested for a secret; the author's completions are rejected.
    let suggested = known.completer.take().filter(|_| !secret);
    known.completer = completer.or(suggested);
    known.secret = secret;
}
