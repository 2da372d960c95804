//! Tools: definitions, calls and results.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{ContentList, Icon, Meta};
use crate::raw::{Params, Raw};
use crate::revision::Revision;

/// The definition of a tool.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolDefinition {
    /// Name to call it by.
    pub name: String,
    /// Display name.
    pub title: Option<String>,
    /// Description for the model.
    pub description: Option<String>,
    /// JSON Schema of the arguments, of type `object`.
    pub input_schema: Map<String, Value>,
    /// JSON Schema of the structured result.
    pub output_schema: Option<Map<String, Value>>,
    /// Hints on the tool's side effects.
    pub annotations: Option<ToolAnnotations>,
    /// Icons to show beside it.
    pub icons: Vec<Icon>,
    /// Set if a server of 2025-11-25 takes calls of it only as tasks.
    pub requires_task: bool,
    /// Additional members.
    pub meta: Meta,
}

impl ToolDefinition {
    /// Returns the definition for a client of this revision, under the given name.
    pub fn wire<'a>(&'a self, name: Cow<'a, str>, revision: Revision) -> WireTool<'a> {
        let features = revision.features();
        let is_object =
            |schema: &&Map<String, Value>| schema.get("type").is_some_and(|kind| kind == "object");
        WireTool {
            name,
            title: self.title.as_deref().filter(|_| features.titles),
            description: self.description.as_deref(),
            input_schema: &self.input_schema,
            output_schema: self.output_schema.as_ref().filter(|schema| {
                features.structured_content && (features.structured_values || is_object(schema))
            }),
            examples: None,
            annotations: self.annotations.as_ref().filter(|_| features.tool_annotations),
            icons: if features.icons { &self.icons } else { &[] },
            meta: (features.structured_content && !self.meta.is_empty())
                .then_some(Cow::Borrowed(&self.meta)),
        }
    }

    /// Returns the definition in the form of seed 004: with the output schema, and with the
    /// examples that are otherwise in `_meta` (C-27).
    pub fn wire_seed_004<'a>(&'a self, name: Cow<'a, str>) -> WireTool<'a> {
        WireTool {
            name,
            title: None,
            description: self.description.as_deref(),
            input_schema: &self.input_schema,
            output_schema: self.output_schema.as_ref(),
            examples: self.meta.get("examples"),
            annotations: None,
            icons: &[],
            meta: None,
        }
    }
}

/// A tool definition for encoding.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WireTool<'a> {
    name: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    input_schema: &'a Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_schema: Option<&'a Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    examples: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    annotations: Option<&'a ToolAnnotations>,
    #[serde(skip_serializing_if = "<[Icon]>::is_empty")]
    icons: &'a [Icon],
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<Cow<'a, Meta>>,
}

impl WireTool<'_> {
    /// Removes a member of `_meta`.
    #[must_use]
    pub fn without_meta(mut self, name: &str) -> Self {
        if let Some(meta) = self.meta.as_mut().filter(|meta| meta.contains_key(name)) {
            meta.to_mut().remove(name);
        }
        self.meta = self.meta.filter(|meta| !meta.is_empty());
        self
    }
}

/// Hints on a tool's side effects. A client may display them and must not rely on them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolAnnotations {
    /// Display name, from before tools had `title`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The tool has no side effects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_only_hint: Option<bool>,
    /// The tool may perform destructive updates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destructive_hint: Option<bool>,
    /// Repeating a call with the same arguments has no further effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotent_hint: Option<bool>,
    /// The tool interacts with external systems.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_world_hint: Option<bool>,
}

/// The params of `tools/call`, with raw arguments.
#[derive(Clone, Debug)]
pub struct CallParams<'a> {
    /// Name of the tool.
    pub name: Cow<'a, str>,
    /// The arguments: an object.
    pub arguments: Raw<'a>,
}

impl<'a> CallParams<'a> {
    /// Reads the params. The error is a sentence naming the invalid member.
    pub fn from_params(params: Params<'a>) -> Result<Self, String> {
        let [_, name, arguments, ..] = params.common().map_err(|error| error.to_string())?;
        let name = match name {
            Some(name) => name.as_text().ok_or("name must be a string")?,
            None => return Err("name is required".to_owned()),
        };
        let arguments = Params::new(arguments);
        if !arguments.are_named() {
            return Err("arguments must be an object".to_owned());
        }
        Ok(Self { name, arguments: arguments.object() })
    }
}

/// The result of `tools/call`, for encoding.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CallResult<'a> {
    /// `complete`, under revisions that have result types.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_type: Option<&'static str>,
    /// Content for a person or a model.
    pub content: ContentList<'a>,
    /// Structured content for programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub structured_content: Option<&'a Value>,
    /// The tool failed.
    pub is_error: bool,
    /// The error message, in the member that seed 002 defines (C-24).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_message: Option<&'a str>,
    /// Additional members.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<&'a Meta>,
}

#[cfg(test)]
mod tests {
    use super::{CallParams, ToolDefinition};
    use crate::raw::{Params, Raw, ValueKind};
    use crate::revision::Revision;
    use serde_json::{Value, json};

    /// C-27, MCP-088: members the revision does not have are left out. Before structured values, so
    /// is an output schema that is not an object.
    #[test]
    fn a_definition_follows_the_revision() {
        let listed = |kind: &str, revision| {
            let object = |value: Value| value.as_object().cloned();
            let definition = ToolDefinition {
                title: Some("T".to_owned()),
                output_schema: object(json!({"type": kind})),
                meta: object(json!({"examples": [1]})).unwrap_or_default(),
                ..ToolDefinition::default()
            };
            let wire = serde_json::to_value(definition.wire("a".into(), revision)).unwrap();
            ["title", "outputSchema", "_meta"].map(|member| wire.get(member).is_some())
        };
        for revision in Revision::ALL {
            let recent = revision >= Revision::V2025_06_18;
            assert_eq!(listed("object", revision), [recent; 3], "{revision}");
            let newest = revision == Revision::V2026_07_28;
            assert_eq!(listed("array", revision), [recent, newest, recent], "{revision}");
        }
    }

    /// MCP-017: `name` is a string, `arguments` an object or absent.
    #[test]
    fn a_malformed_call_is_explained() {
        for (text, expected) in [
            ("{}", "name is required"),
            (r#"{"name":7}"#, "name must be a string"),
            (r#"{"name":null}"#, "name must be a string"),
            (r#"{"name":"a","arguments":[1]}"#, "arguments must be an object"),
            (r#"{"name":"a","arguments":"x"}"#, "arguments must be an object"),
        ] {
            let error = CallParams::from_params(Params::new(Some(Raw::Json(text)))).unwrap_err();
            assert_eq!(error, expected);
        }
        for text in [r#"{"name":"a"}"#, r#"{"name":"a","arguments":null}"#] {
            let call = CallParams::from_params(Params::new(Some(Raw::Json(text)))).unwrap();
            assert_eq!(call.arguments.kind(), ValueKind::Object);
        }
    }
}
