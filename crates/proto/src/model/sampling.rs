//! Sampling: asking the client's model (PAT-048).
//!
//! Here is what there is to say; how it is written differs by revision (`wire`), and what clients
//! answer is read in every form there is (`decode`).

mod decode;
mod wire;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Content, Meta, ToolDefinition};

/// What a model is asked: `sampling/createMessage`.
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
    /// The conversation so far.
    pub messages: Vec<SamplingMessage>,
    /// Which model would be best.
    pub model_preferences: Option<ModelPreferences>,
    /// What the model is told first; the client may change or leave it out.
    pub system_prompt: Option<String>,
    /// Which context the client should add.
    pub include_context: Option<IncludeContext>,
    /// How free the model's choice of words is.
    pub temperature: Option<f64>,
    /// How many tokens the answer may have.
    pub max_tokens: u32,
    /// Texts at which the answer stops.
    pub stop_sequences: Vec<String>,
    /// Passed through to whoever runs the model.
    pub metadata: Option<Map<String, Value>>,
    /// Tools the model may ask to be called; for clients with `sampling.tools` only.
    pub tools: Vec<ToolDefinition>,
    /// Whether the model may, must or must not use them.
    pub tool_choice: Option<ToolChoice>,
}

impl CreateMessage {
    /// Begins a request for an answer of at most so many tokens.
    pub fn new(max_tokens: u32) -> Self {
        Self { max_tokens, ..Self::default() }
    }

    /// Adds what the user says.
    #[must_use]
    pub fn user(self, content: impl Into<SamplingContent>) -> Self {
        self.message(SamplingMessage::new(Role::User, [content.into()]))
    }

    /// Adds what the model said before.
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

    /// Says what the model is told first.
    #[must_use]
    pub fn system_prompt(mut self, prompt: impl Into<String>) -> Self {
        self.system_prompt = Some(prompt.into());
        self
    }

    /// Says which model would be best.
    #[must_use]
    pub fn prefer(mut self, preferences: ModelPreferences) -> Self {
        self.model_preferences = Some(preferences);
        self
    }

    /// Offers a tool that the model may ask to be called.
    #[must_use]
    pub fn tool(mut self, tool: ToolDefinition) -> Self {
        self.tools.push(tool);
        self
    }

    /// Whether only a client with `sampling.tools` can be asked this.
    pub fn needs_tools(&self) -> bool {
        let contents = || self.messages.iter().flat_map(|message| &message.content);
        !self.tools.is_empty()
            || self.tool_choice.is_some()
            || contents().any(|content| !matches!(content, SamplingContent::Content(_)))
    }
}

/// One message of a conversation with a model.
#[derive(Clone, Debug, PartialEq)]
pub struct SamplingMessage {
    /// Who says it.
    pub role: Role,
    /// What is said.
    pub content: Vec<SamplingContent>,
    /// Anything else.
    pub meta: Option<Meta>,
}

impl SamplingMessage {
    /// A message.
    pub fn new(role: Role, content: impl Into<Vec<SamplingContent>>) -> Self {
        Self { role, content: content.into(), meta: None }
    }
}

/// Who says something in a conversation with a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The person, or the server in their place.
    User,
    /// The model.
    Assistant,
}

/// One piece of a message.
#[derive(Clone, Debug, PartialEq)]
pub enum SamplingContent {
    /// Text, a picture or sound.
    Content(Content),
    /// The model asks for a tool to be called.
    ToolUse(ToolUse),
    /// What a tool gave back. A message with one of these has nothing else.
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

/// A model asks for a tool to be called.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolUse {
    /// Names this use in its result.
    pub id: String,
    /// Which tool.
    pub name: String,
    /// With what.
    pub input: Map<String, Value>,
    /// Anything else.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

/// What a tool gave back to a model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolResult {
    /// Which use this is the result of.
    pub tool_use_id: String,
    /// What the model reads.
    pub content: Vec<Content>,
    /// The same for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured_content: Option<Value>,
    /// Whether the tool failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_error: Option<bool>,
    /// Anything else.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

/// Which model would be best. All of it is advice.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelPreferences {
    /// Names or parts of names, best first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hints: Vec<ModelHint>,
    /// How much low cost counts, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_priority: Option<f64>,
    /// How much speed counts, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed_priority: Option<f64>,
    /// How much ability counts, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intelligence_priority: Option<f64>,
}

/// The name of a model, or a part of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelHint {
    /// The name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// Which context a client adds. All but `None` are deprecated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum IncludeContext {
    /// None.
    None,
    /// That of the server that asks.
    ThisServer,
    /// That of all servers.
    AllServers,
}

/// Whether a model may, must or must not use tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "mode", rename_all = "lowercase")]
pub enum ToolChoice {
    /// It may.
    Auto,
    /// It must use at least one.
    Required,
    /// It must not.
    None,
}

/// What a model answered.
#[derive(Clone, Debug, PartialEq)]
pub struct SampleResult {
    /// Who says it: the model.
    pub role: Role,
    /// What it says.
    pub content: Vec<SamplingContent>,
    /// Which model it was.
    pub model: String,
    /// Why it stopped, such as `endTurn`, `maxTokens`, `stopSequence` or `toolUse`.
    pub stop_reason: Option<String>,
    /// Anything else.
    pub meta: Option<Meta>,
}

impl SampleResult {
    /// All the text of the answer.
    pub fn text(&self) -> String {
        let texts = self.content.iter().filter_map(|content| match content {
            SamplingContent::Content(Content::Text { text, .. }) => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }

    /// The tools the model asks to be called.
    pub fn tool_uses(&self) -> impl Iterator<Item = &ToolUse> {
        self.content.iter().filter_map(|content| match content {
            SamplingContent::ToolUse(tool_use) => Some(tool_use),
            _ => None,
        })
    }

    /// The answer as a message, for going on with the conversation.
    pub fn into_message(self) -> SamplingMessage {
        SamplingMessage { role: self.role, content: self.content, meta: None }
    }
}
