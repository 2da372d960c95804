//! Sampling: requests to the client's model (PAT-048).
//!
//! This module has the types. `wire` encodes them by revision, and `decode` reads every form
//! clients send.

mod decode;
mod wire;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Content, Meta, Role, ToolDefinition};

/// The params of `sampling/createMessage`.
///
/// ```
/// use mcp_flow_proto::Revision;
/// use mcp_flow_proto::model::CreateMessage;
///
/// let request = CreateMessage::new(100).user("What is the capital of France?");
/// let wire = serde_json::to_value(request.wire(Revision::V2025_06_18)).unwrap();
/// assert_eq!(wire["messages"][0]["content"]["text"], "What is the capital of France?");
/// assert_eq!(wire["maxTokens"], 100);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CreateMessage {
    /// The messages so far.
    pub messages: Vec<SamplingMessage>,
    /// Preferred models.
    pub model_preferences: Option<ModelPreferences>,
    /// System prompt; the client may change or omit it.
    pub system_prompt: Option<String>,
    /// Context the client should add.
    pub include_context: Option<IncludeContext>,
    /// Sampling temperature.
    pub temperature: Option<f64>,
    /// Maximum number of tokens to generate.
    pub max_tokens: u32,
    /// Texts that end the generation.
    pub stop_sequences: Vec<String>,
    /// Metadata for the model provider.
    pub metadata: Option<Map<String, Value>>,
    /// Tools offered to the model; only for clients with `sampling.tools`.
    pub tools: Vec<ToolDefinition>,
    /// Rule for the use of tools.
    pub tool_choice: Option<ToolChoice>,
}

impl CreateMessage {
    /// Creates a request with a limit on the generated tokens.
    pub fn new(max_tokens: u32) -> Self {
        Self { max_tokens, ..Self::default() }
    }

    /// Adds a message from the user.
    #[must_use]
    pub fn user(self, content: impl Into<SamplingContent>) -> Self {
        self.message(SamplingMessage::new(Role::User, [content.into()]))
    }

    /// Adds a message from the model.
    #[must_use]
    pub fn assistant(self, content: impl Into<SamplingContent>) -> Self {
        self.message(SamplingMessage::new(Role::Assistant, [content.into()]))
    }

    /// Adds a message.
    #[must_use]
    pub fn message(mut self, message: SamplingMessage) -> Self {
        self.messages.push(message);
        self
    }

    /// Sets the system prompt.
    #[must_use]
    pub fn system_prompt(mut self, prompt: impl Into<String>) -> Self {
        self.system_prompt = Some(prompt.into());
        self
    }

    /// Sets the preferred models.
    #[must_use]
    pub fn prefer(mut self, preferences: ModelPreferences) -> Self {
        self.model_preferences = Some(preferences);
        self
    }

    /// Offers a tool to the model.
    #[must_use]
    pub fn tool(mut self, tool: ToolDefinition) -> Self {
        self.tools.push(tool);
        self
    }

    /// Returns whether the request requires a client with `sampling.tools`.
    pub fn needs_tools(&self) -> bool {
        let contents = || self.messages.iter().flat_map(|message| &message.content);
        !self.tools.is_empty()
            || self.tool_choice.is_some()
            || contents().any(|content| !matches!(content, SamplingContent::Content(_)))
    }
}

/// One message of a sampling request.
#[derive(Clone, Debug, PartialEq)]
pub struct SamplingMessage {
    /// Author of the message.
    pub role: Role,
    /// Content of the message.
    pub content: Vec<SamplingContent>,
    /// Additional members.
    pub meta: Option<Meta>,
}

impl SamplingMessage {
    /// Creates a message.
    pub fn new(role: Role, content: impl Into<Vec<SamplingContent>>) -> Self {
        Self { role, content: content.into(), meta: None }
    }
}

/// A content block of a sampling message.
#[derive(Clone, Debug, PartialEq)]
pub enum SamplingContent {
    /// Text, an image or audio.
    Content(Content),
    /// The model's request to call a tool.
    ToolUse(ToolUse),
    /// The result of a tool call. A message with one of these contains nothing else.
    ToolResult(ToolResult),
}

impl From<&str> for SamplingContent {
    fn from(text: &str) -> Self {
        Self::Content(Content::text(text))
    }
}

impl From<String> for SamplingContent {
    fn from(text: String) -> Self {
        Self::Content(Content::text(text))
    }
}

impl From<Content> for SamplingContent {
    fn from(content: Content) -> Self {
        Self::Content(content)
    }
}

/// The model's request to call a tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolUse {
    /// Identifies this tool use in its result.
    pub id: String,
    /// Name of the tool.
    pub name: String,
    /// Arguments of the call.
    pub input: Map<String, Value>,
    /// Additional members.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

/// The result of a tool call, for the model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolResult {
    /// The id of the tool use.
    pub tool_use_id: String,
    /// Content for the model.
    pub content: Vec<Content>,
    /// Structured content for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured_content: Option<Value>,
    /// The tool failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_error: Option<bool>,
    /// Additional members.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

/// Preferred models. All members are hints.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelPreferences {
    /// Model names or parts of them, best first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hints: Vec<ModelHint>,
    /// Importance of low cost, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_priority: Option<f64>,
    /// Importance of speed, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed_priority: Option<f64>,
    /// Importance of capability, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intelligence_priority: Option<f64>,
}

/// A model name, or a part of one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelHint {
    /// The name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// The context a client adds. All but `None` are deprecated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum IncludeContext {
    /// No context.
    None,
    /// Context of the requesting server.
    ThisServer,
    /// Context of all servers.
    AllServers,
}

/// Rule for the use of tools by the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "mode", rename_all = "lowercase")]
pub enum ToolChoice {
    /// The model decides.
    Auto,
    /// The model must use at least one tool.
    Required,
    /// The model must not use tools.
    None,
}

/// The result of `sampling/createMessage`.
#[derive(Clone, Debug, PartialEq)]
pub struct SampleResult {
    /// Author of the message: the model.
    pub role: Role,
    /// The generated content.
    pub content: Vec<SamplingContent>,
    /// Name of the model.
    pub model: String,
    /// The reason generation stopped, such as `endTurn`, `maxTokens`, `stopSequence` or `toolUse`.
    pub stop_reason: Option<String>,
    /// Additional members.
    pub meta: Option<Meta>,
}

impl SampleResult {
    /// Returns the concatenated text of the result.
    pub fn text(&self) -> String {
        let texts = self.content.iter().filter_map(|content| match content {
            SamplingContent::Content(Content::Text { text, .. }) => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }

    /// Iterates over the tool calls the model requests.
    pub fn tool_uses(&self) -> impl Iterator<Item = &ToolUse> {
        self.content.iter().filter_map(|content| match content {
            SamplingContent::ToolUse(tool_use) => Some(tool_use),
            _ => None,
        })
    }

    /// Converts the result into a message, to continue the dialogue.
    pub fn into_message(self) -> SamplingMessage {
        SamplingMessage { role: self.role, content: self.content, meta: None }
    }
}
