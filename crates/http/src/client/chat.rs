//! A chat endpoint that answers as a model, in the form that many of them share.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use hyper::header::ACCEPT;
use mcp_flow_client::guard::models::Backend;
use mcp_flow_client::model::{
    Content, CreateMessage, Role, SampleResult, SamplingContent, ToolChoice, ToolUse,
};
use serde_json::{Map, Value, json};
use url::Url;

use super::wire::Wire;
use super::{BadTarget, HttpOptions, sending};

/// A chat endpoint, such as `https://…/v1/chat/completions`.
#[derive(Clone, Debug)]
pub struct ChatModel {
    url: Url,
    model: String,
    wire: Arc<Wire>,
}

impl ChatModel {
    /// The endpoint at a URL, asked for this model. A key is given as a bearer token of `options`.
    pub fn new(
        url: &str,
        model: impl Into<String>,
        options: &HttpOptions,
    ) -> Result<Self, BadTarget> {
        let url = Url::parse(url).map_err(|error| BadTarget::new(format!("{url:?}: {error}")))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(BadTarget::new(format!("{url}: use http or https")));
        }
        let wire = Arc::new(Wire::new(options)?);
        Ok(Self { url, model: model.into(), wire })
    }

    async fn complete(&self, request: CreateMessage) -> Result<SampleResult, String> {
        let body = self.write(&request).to_string().into_bytes();
        let mut post = sending::post(&self.url, body);
        post.headers_mut().insert(ACCEPT, sending::JSON);
        let answer = self.wire.send(post).await.map_err(|error| error.to_string())?;
        let (head, body) = answer.into_parts();
        let body = sending::whole(body, LONGEST).await.map_err(|error| error.to_string())?;
        if !head.status.is_success() {
            return Err(sending::refusal(head.status, &head.headers, &body).to_string());
        }
        let answer: Value = serde_json::from_slice(&body)
            .map_err(|error| format!("the answer is no JSON: {error}"))?;
        self.read(&answer).ok_or_else(|| "the answer holds no message".to_owned())
    }

    fn write(&self, request: &CreateMessage) -> Value {
        let mut messages = Vec::new();
        if let Some(prompt) = &request.system_prompt {
            messages.push(json!({"role": "system", "content": prompt}));
        }
        for message in &request.messages {
            write_message(message.role, &message.content, &mut messages);
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

    fn read(&self, answer: &Value) -> Option<SampleResult> {
        let choice = answer.get("choices")?.get(0)?;
        let message = choice.get("message")?;
        let mut content = Vec::new();
        if let Some(text) =
            message.get("content").and_then(Value::as_str).filter(|text| !text.is_empty())
        {
            content.push(SamplingContent::from(text));
        }
        let calls = message.get("tool_calls").and_then(Value::as_array);
        content.extend(calls.into_iter().flatten().filter_map(read_call));
        if content.is_empty() {
            content.push(SamplingContent::from(""));
        }
        let stop_reason = match choice.get("finish_reason").and_then(Value::as_str) {
            Some("length") => "maxTokens",
            Some("tool_calls") => "toolUse",
            _ => "endTurn",
        };
        let model = answer.get("model").and_then(Value::as_str).unwrap_or(&self.model);
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
    fn ask(&self, request: CreateMessage) -> BoxFuture<'_, Result<SampleResult, String>> {
        Box::pin(self.complete(request))
    }

    fn takes_tools(&self) -> bool {
        true
    }
}

/// Writes a message; what tools returned are messages of their own.
fn write_message(role: Role, pieces: &[SamplingContent], messages: &mut Vec<Value>) {
    let (mut parts, mut calls) = (Vec::new(), Vec::new());
    for piece in pieces {
        match piece {
            SamplingContent::Content(content) => parts.extend(write_part(content)),
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
        // What is nothing but text is understood everywhere as text.
        [part] if part["type"] == "text" => part["text"].clone(),
        _ => parts.into(),
    }});
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    messages.push(message);
}

fn write_part(content: &Content) -> Option<Value> {
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

fn read_call(call: &Value) -> Option<SamplingContent> {
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

/// How long an answer may be, in bytes.
const LONGEST: usize = 8 << 20;
