//! Completion of arguments.

use std::borrow::Cow;

use serde::Serialize;

use super::Meta;
use crate::raw::{Params, Raw, ValueKind};

/// The params of `completion/complete`.
#[derive(Clone, Debug)]
pub struct CompleteParams<'a> {
    /// The prompt or resource template whose argument is completed.
    pub reference: Reference<'a>,
    /// Name of the argument.
    pub argument: Cow<'a, str>,
    /// The value typed so far.
    pub value: Cow<'a, str>,
    /// Values of the other arguments: an object.
    pub resolved: Raw<'a>,
}

/// The owner of an argument that can be completed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reference<'a> {
    /// A prompt, by its name.
    Prompt(Cow<'a, str>),
    /// A resource or resource template, by its URI.
    Resource(Cow<'a, str>),
}

impl<'a> CompleteParams<'a> {
    /// Reads the params. The error is a sentence naming the invalid member.
    pub fn from_params(params: Params<'a>) -> Result<Self, String> {
        let members = params.members(["ref", "argument", "context"]);
        let [reference, argument, context] = members.map_err(|error| error.to_string())?;
        let [kind, name, uri] = object("ref", reference, ["type", "name", "uri"])?;
        let reference = match &*text("ref.type", kind)? {
            "ref/prompt" => Reference::Prompt(text("ref.name", name)?),
            "ref/resource" => Reference::Resource(text("ref.uri", uri)?),
            _ => return Err("ref.type must be ref/prompt or ref/resource".to_owned()),
        };
        let [name, value] = object("argument", argument, ["name", "value"])?;
        let [resolved] = match Params::new(context) {
            context if context.are_named() => context.members(["arguments"]),
            _ => return Err("context must be an object".to_owned()),
        }
        .map_err(|error| error.to_string())?;
        let resolved = Params::new(resolved);
        if !resolved.are_named() {
            return Err("context.arguments must be an object".to_owned());
        }
        Ok(Self {
            reference,
            argument: text("argument.name", name)?,
            value: text("argument.value", value)?,
            resolved: resolved.object(),
        })
    }
}

fn object<'a, const N: usize>(
    name: &str,
    raw: Option<Raw<'a>>,
    members: [&str; N],
) -> Result<[Option<Raw<'a>>; N], String> {
    match raw {
        None => Err(format!("{name} is required")),
        Some(raw) if raw.kind() == ValueKind::Object => {
            raw.members(members).map_err(|error| format!("{name} is malformed: {error}"))
        }
        Some(_) => Err(format!("{name} must be an object")),
    }
}

fn text<'a>(name: &str, raw: Option<Raw<'a>>) -> Result<Cow<'a, str>, String> {
    let raw = raw.ok_or_else(|| format!("{name} is required"))?;
    raw.as_text().ok_or_else(|| format!("{name} must be a string"))
}

/// The result of `completion/complete`, for encoding.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CompleteResult<'a> {
    /// `complete`, under revisions that have result types.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_type: Option<&'static str>,
    /// The suggested values.
    pub completion: CompletionValues<'a>,
    /// `_meta` of the result, which identifies the server.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

/// Suggested values, best first.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CompletionValues<'a> {
    /// At most [`MAX_COMPLETIONS`] values.
    pub values: &'a [String],
    /// Total number of matches, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// More matches exist than are listed.
    pub has_more: bool,
}

/// Maximum number of values in one result.
pub const MAX_COMPLETIONS: usize = 100;

#[cfg(test)]
mod tests {
    use super::{CompleteParams, Reference};
    use crate::raw::{Params, Raw};

    #[test]
    fn a_malformed_request_is_explained() {
        let prompt = r#""ref":{"type":"ref/prompt","name":"a"}"#;
        let argument = r#""argument":{"name":"b","value":""}"#;
        for (text, expected) in [
            ("{}".to_owned(), "ref is required"),
            (r#"{"ref":7}"#.to_owned(), "ref must be an object"),
            (r#"{"ref":{"type":"ref/x"}}"#.to_owned(), "ref.type must be ref/prompt or"),
            (r#"{"ref":{"type":"ref/prompt","uri":"a"}}"#.to_owned(), "ref.name is required"),
            (r#"{"ref":{"type":"ref/resource","uri":1}}"#.to_owned(), "ref.uri must be a string"),
            (format!("{{{prompt}}}"), "argument is required"),
            (format!(r#"{{{prompt},"argument":{{}}}}"#), "argument.name is required"),
            (
                format!(r#"{{{prompt},"argument":{{"name":"b","value":5}}}}"#),
                "argument.value must be a string",
            ),
            (format!(r#"{{{prompt},{argument},"context":[]}}"#), "context must be an object"),
            (
                format!(r#"{{{prompt},{argument},"context":{{"arguments":"x"}}}}"#),
                "context.arguments must be an object",
            ),
        ] {
            let fault = CompleteParams::from_params(Params::new(Some(Raw::Json(&text))));
            let fault = fault.unwrap_err();
            assert!(fault.starts_with(expected), "{text}: {fault}");
        }
        let text = format!("{{{prompt},{argument},\"context\":null}}");
        let read = CompleteParams::from_params(Params::new(Some(Raw::Json(&text)))).unwrap();
        assert_eq!(read.reference, Reference::Prompt("a".into()));
        assert_eq!((&*read.argument, &*read.value), ("b", ""));
    }
}
