//! Model backend for sampling over a chat completions endpoint.

use std::pin::Pin;
use std::sync::Arc;

use mcp_flow_client::approval::models::Backend;
use mcp_flow_client::model::{
    Content, CreateMessage, Role, SampleResult, SamplingContent, ToolChoice, ToolUse,
};
use mcp_flow_http::client::JsonEndpoint;
use mcp_flow_proto::decode_error::json_problem;
use serde_json::{Map, Value, json};

use super::{BadTarget, HttpOptions};

/// A model behind a chat completions endpoint, such as `https://…/v1/chat/completions`.
#[derive(Clone, Debug)]
pub struct ChatModel {
    endpoint: Arc<JsonEndpoint>,
    model: String,
}

impl ChatModel {
    /// Creates a backend that requests this model from the endpoint at a URL. An API key is the
    /// bearer token of `options`.
    pub fn new(
        url: &str,
        model: impl Into<String>,
        options: &HttpOptions,
    ) -> Result<Self, BadTarget> {
        let endpoint = Arc::new(JsonEndpoint::new(url, options)?);
        Ok(Self { endpoint, model: model.into() })
    }

    async fn complete(&self, request: CreateMessage) -> Result<SampleResult, String> {
        let body = self.encode(&request).to_string().into_bytes();
        let response = self.endpoint.post(body, MAX_RESPONSE).await?;
        let response: Value = serde_json::from_slice(&response)
            .map_err(|error| format!("the response is not JSON: {}", json_problem(&error)))?;
        self.decode(&response).ok_or_else(|| "the response holds no message".to_owned())
    }

    fn encode(&self, request: &CreateMessage) -> Value {
        let mut messages = Vec::new();
        if let Some(prompt) = &request.system_prompt {
            messages.push(json!({"role": "system", "content": prompt}));
        }
        for message in &request.messages {
            encode_message(message.role, &message.content, &mut messages);
        }
        let mut body = json!({
            "model": self.model, "messages": messages, "max_tokens": request.max_tokens,
        });
        if let Some(temperature) = request.temperature {
            body["temperature"] = temperature.into();
        }
        if !request.stop_sequences.is_empty() {
            body["stop"] = request.stop_sequences.clone().into();
        }
        if !request.tools.is_empty() {
            let tools = request.tools.iter().map(|tool| {
                json!({"type": "function", "function": {
                    "name": tool.name,
                    "description": tool.description.as_deref().unwrap_or_default(),
                    "parameters": tool.input_schema,
                }})
            });
            body["tools"] = tools.collect();
            body["tool_choice"] = match request.tool_choice {
                Some(ToolChoice::Required) => "required".into(),
                Some(ToolChoice::None) => "none".into(),
                Some(ToolChoice::Auto) | None => "auto".into(),
            };
        }
        body
    }

    fn decode(&self, response: &Value) -> Option<SampleResult> {
        let choice = response.get("choices")?.get(0)?;
        let message = choice.get("message")?;
        let mut content = Vec::new();
        if let Some(text) =
            message.get("content").and_then(Value::as_str).filter(|text| !text.is_empty())
        {
            content.push(SamplingContent::from(text));
        }
        let calls = message.get("tool_calls").and_then(Value::as_array);
        content.extend(calls.into_iter().flatten().filter_map(decode_tool_call));
        if content.is_empty() {
            content.push(SamplingContent::from(""));
        }
        let stop_reason = match choice.get("finish_reason").and_then(Value::as_str) {
            Some("length") => "maxTokens",
            Some("tool_calls") => "toolUse",
            _ => "endTurn",
        };
        let model = response.get("model").and_then(Value::as_str).unwrap_or(&self.model);
        Some(SampleResult {
            role: Role::Assistant,
            content,
            model: model.to_owned(),
            stop_reason: Some(stop_reason.to_owned()),
            meta: None,
        })
    }
}

impl Backend for ChatModel {
    fn ask(
        &self,
        request: CreateMessage,
    ) -> Pin<Box<dyn Future<Output = Result<SampleResult, String>> + Send + '_>> {
        Box::pin(self.complete(request))
    }

    fn supports_tools(&self) -> bool {
        true
    }
}

/// Encodes a message. Tool results become messages of their own.
fn encode_message(role: Role, pieces: &[SamplingContent], messages: &mut Vec<Value>) {
    let (mut parts, mut calls) = (Vec::new(), Vec::new());
    for piece in pieces {
        match piece {
            SamplingContent::Content(content) => parts.extend(encode_part(content)),
            SamplingContent::ToolUse(ToolUse { id, name, input, .. }) => calls.push(json!({
                "id": id, "type": "function",
                "function": {"name": name, "arguments": Value::Object(input.clone()).to_string()},
            })),
            SamplingContent::ToolResult(result) => {
                let texts = result.content.iter().filter_map(|content| match content {
                    Content::Text { text, .. } => Some(text.as_str()),
                    _ => None,
                });
                let text = texts.collect::<Vec<_>>().join("\n");
                messages.push(
                    json!({"role": "tool", "tool_call_id": result.tool_use_id, "content": text}),
                );
            }
        }
    }
    if parts.is_empty() && calls.is_empty() {
        return;
    }
    let role = match role {
        Role::User => "user",
        Role::Assistant => "assistant",
    };
    let mut message = json!({"role": role, "content": match parts.as_slice() {
        [] => Value::Null,
        // Every endpoint understands a plain string; not all understand parts.
        [part] if part["type"] == "text" => part["text"].clone(),
        _ => parts.into(),
    }});
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    messages.push(message);
}

fn encode_part(content: &Content) -> Option<Value> {
    match content {
        Content::Text { text, .. } => Some(json!({"type": "text", "text": text})),
        Content::Image { data, mime_type, .. } => {
            let data = serde_json::to_value(data).ok()?;
            let url = format!("data:{mime_type};base64,{}", data.as_str()?);
            Some(json!({"type": "image_url", "image_url": {"url": url}}))
        }
        Content::Audio { data, mime_type, .. } => {
            let format = mime_type.rsplit(['/', '-']).next().unwrap_or("wav");
            let format = if format == "mpeg" { "mp3" } else { format };
            let data = serde_json::to_value(data).ok()?;
            Some(json!({"type": "input_audio", "input_audio": {"data": data, "format": format}}))
        }
        _ => None,
    }
}

fn decode_tool_call(call: &Value) -> Option<SamplingContent> {
    let function = call.get("function")?;
    let arguments = function.get("arguments").and_then(Value::as_str).unwrap_or("{}");
    let input: Map<String, Value> = serde_json::from_str(arguments).unwrap_or_default();
    Some(SamplingContent::ToolUse(ToolUse {
        id: call.get("id")?.as_str()?.to_owned(),
        name: function.get("name")?.as_str()?.to_owned(),
        input,
        meta: None,
    }))
}

/// Limit on the response, in bytes.
const MAX_RESPONSE: usize = 8 << 20;
