//! Encoding of sampling requests and results by revision.

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use super::{
    CreateMessage, IncludeContext, ModelPreferences, Role, SampleResult, SamplingContent,
    SamplingMessage, ToolChoice, ToolResult, ToolUse,
};
use crate::model::{ContentForm, ContentList, Meta, ToolDefinition};
use crate::revision::Revision;

impl CreateMessage {
    /// Returns the params for a client of this revision.
    ///
    /// Revisions without multi-block messages get one message per content block.
    pub fn wire(&self, revision: Revision) -> impl Serialize + '_ {
        let tools = revision.features().sampling_tools;
        WireRequest {
            messages: messages(&self.messages, revision),
            model_preferences: self.model_preferences.as_ref(),
            system_prompt: self.system_prompt.as_deref(),
            include_context: self.include_context,
            temperature: self.temperature,
            max_tokens: self.max_tokens,
            stop_sequences: &self.stop_sequences,
            metadata: self.metadata.as_ref(),
            tools: Tools { list: &self.tools, revision },
            tool_choice: self.tool_choice.filter(|_| tools),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WireRequest<'a> {
    messages: Vec<WireMessage<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model_preferences: Option<&'a ModelPreferences>,
    #[serde(skip_serializing_if = "Option::is_none")]
    system_prompt: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    include_context: Option<IncludeContext>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    max_tokens: u32,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    stop_sequences: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<&'a Map<String, Value>>,
    #[serde(skip_serializing_if = "Tools::are_left_out")]
    tools: Tools<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<ToolChoice>,
}

impl SampleResult {
    /// Returns the result for a server of this revision (PAT-052). Revisions without multi-block
    /// messages get the first content block.
    pub fn wire(&self, revision: Revision) -> impl Serialize + '_ {
        let most = if revision.features().sampling_tools { usize::MAX } else { 1 };
        WireSample {
            role: self.role,
            content: WireContents { list: &self.content[..self.content.len().min(most)], revision },
            model: &self.model,
            stop_reason: self.stop_reason.as_deref(),
            meta: self.meta.as_ref(),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WireSample<'a> {
    role: Role,
    content: WireContents<'a>,
    model: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    stop_reason: Option<&'a str>,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<&'a Meta>,
}

#[derive(Serialize)]
struct WireMessage<'a> {
    role: Role,
    content: WireContents<'a>,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<&'a Meta>,
}

fn messages(messages: &[SamplingMessage], revision: Revision) -> Vec<WireMessage<'_>> {
    let features = revision.features();
    let several = features.sampling_tools;
    let pieces =
        |message: &'_ SamplingMessage| if several { message.content.len().max(1) } else { 1 };
    messages
        .iter()
        .flat_map(|message| {
            message.content.chunks(pieces(message)).map(move |list| (message, list))
        })
        .map(|(message, list)| WireMessage {
            role: message.role,
            content: WireContents { list, revision },
            meta: message.meta.as_ref().filter(|_| features.sampling_tools),
        })
        .collect()
}

/// A single block as an object, several as an array.
struct WireContents<'a> {
    list: &'a [SamplingContent],
    revision: Revision,
}

impl Serialize for WireContents<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let revision = self.revision;
        match self.list {
            [one] => WireContent { content: one, revision }.serialize(serializer),
            list => {
                serializer.collect_seq(list.iter().map(|content| WireContent { content, revision }))
            }
        }
    }
}

struct WireContent<'a> {
    content: &'a SamplingContent,
    revision: Revision,
}

impl Serialize for WireContent<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.content {
            SamplingContent::Content(content) => {
                content.wire(self.revision, ContentForm::Official).serialize(serializer)
            }
            SamplingContent::ToolUse(ToolUse { id, name, input, meta }) => {
                WireToolUse { kind: "tool_use", id, name, input, meta: meta.as_ref() }
                    .serialize(serializer)
            }
            SamplingContent::ToolResult(result) => {
                let ToolResult { tool_use_id, content, structured_content, is_error, meta } =
                    result;
                let (revision, form) = (self.revision, ContentForm::Official);
                WireToolResult {
                    kind: "tool_result",
                    tool_use_id,
                    content: ContentList { items: content, revision, form },
                    structured_content: structured_content.as_ref(),
                    is_error: *is_error,
                    meta: meta.as_ref(),
                }
                .serialize(serializer)
            }
        }
    }
}

#[derive(Serialize)]
struct WireToolUse<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    id: &'a str,
    name: &'a str,
    input: &'a Map<String, Value>,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<&'a Meta>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WireToolResult<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    tool_use_id: &'a str,
    content: ContentList<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    structured_content: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    is_error: Option<bool>,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<&'a Meta>,
}

struct Tools<'a> {
    list: &'a [ToolDefinition],
    revision: Revision,
}

impl Tools<'_> {
    fn are_left_out(&self) -> bool {
        self.list.is_empty() || !self.revision.features().sampling_tools
    }
}

impl Serialize for Tools<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let revision = self.revision;
        let tools = self.list.iter();
        serializer.collect_seq(tools.map(|tool| tool.wire(tool.name.as_str().into(), revision)))
    }
}

#[cfg(test)]
mod tests {
    use crate::model::{CreateMessage, Role, SamplingMessage, ToolChoice, ToolDefinition};
    use crate::revision::Revision;
    use serde_json::{Value, json};

    /// PAT-048: members the revision lacks are expressed by other means or left out.
    #[test]
    fn a_request_follows_the_revision() {
        let request = CreateMessage {
            tool_choice: Some(ToolChoice::Required),
            ..CreateMessage::new(7)
                .message(SamplingMessage::new(Role::User, ["a".into(), "b".into()]))
                .assistant("c")
                .tool(ToolDefinition { name: "add".to_owned(), ..ToolDefinition::default() })
        };
        let text = |text: &str| json!({"type": "text", "text": text});
        for revision in Revision::ALL {
            let wire: Value = serde_json::to_value(request.wire(revision)).unwrap();
            let recent = revision >= Revision::V2025_11_25;
            let messages = wire["messages"].as_array().unwrap();
            assert_eq!(messages.len(), if recent { 2 } else { 3 }, "{revision}");
            let first = if recent { json!([text("a"), text("b")]) } else { text("a") };
            assert_eq!(messages[0], json!({"role": "user", "content": first}));
            assert_eq!(messages.last().unwrap()["content"], text("c"));
            assert_eq!(wire.get("tools").is_some(), recent);
            let choice = recent.then(|| json!({"mode": "required"}));
            assert_eq!(wire.get("toolChoice"), choice.as_ref());
            assert_eq!(wire["maxTokens"], 7);
        }
    }
}
