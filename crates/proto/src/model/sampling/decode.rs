//! Decoding of sampling requests and results.

use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::{
    CreateMessage, IncludeContext, ModelPreferences, Role, SampleResult, SamplingContent,
    SamplingMessage, ToolChoice,
};
use crate::model::{Content, Meta, ToolDefinition};

impl<'de> Deserialize<'de> for SampleResult {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = RawResult::deserialize(deserializer)?;
        let content = match raw.content {
            Value::Array(blocks) => blocks.into_iter().map(decode_result_block).collect(),
            one => decode_result_block(one).map(|content| vec![content]),
        };
        Ok(Self {
            role: raw.role,
            content: content.map_err(D::Error::custom)?,
            model: raw.model,
            stop_reason: raw.stop_reason,
            meta: raw.meta,
        })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawResult {
    role: Role,
    content: Value,
    model: String,
    #[serde(default)]
    stop_reason: Option<String>,
    #[serde(rename = "_meta", default)]
    meta: Option<Meta>,
}

impl<'de> Deserialize<'de> for CreateMessage {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = RawRequest::deserialize(deserializer)?;
        let messages = raw.messages.into_iter().map(|message| {
            let content = match message.content {
                Value::Array(blocks) => blocks.into_iter().map(decode_block).collect(),
                one => decode_block(one).map(|content| vec![content]),
            };
            Ok(SamplingMessage { role: message.role, content: content?, meta: message.meta })
        });
        Ok(Self {
            messages: messages.collect::<Result<_, String>>().map_err(D::Error::custom)?,
            model_preferences: raw.model_preferences,
            system_prompt: raw.system_prompt,
            include_context: raw.include_context,
            temperature: raw.temperature,
            // Some servers write integers as floats; fractions of a token have no meaning.
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "cut")]
            max_tokens: raw.max_tokens as u32,
            stop_sequences: raw.stop_sequences.unwrap_or_default(),
            metadata: raw.metadata,
            tools: raw.tools.unwrap_or_default(),
            tool_choice: raw.tool_choice,
        })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawRequest {
    messages: Vec<RawMessage>,
    #[serde(default)]
    model_preferences: Option<ModelPreferences>,
    #[serde(default)]
    system_prompt: Option<String>,
    #[serde(default)]
    include_context: Option<IncludeContext>,
    #[serde(default)]
    temperature: Option<f64>,
    max_tokens: f64,
    #[serde(default)]
    stop_sequences: Option<Vec<String>>,
    #[serde(default)]
    metadata: Option<Meta>,
    #[serde(default)]
    tools: Option<Vec<ToolDefinition>>,
    #[serde(default)]
    tool_choice: Option<ToolChoice>,
}

#[derive(Deserialize)]
struct RawMessage {
    role: Role,
    content: Value,
    #[serde(rename = "_meta", default)]
    meta: Option<Meta>,
}

fn decode_block(value: Value) -> Result<SamplingContent, String> {
    let decoded = match value.get("type").and_then(Value::as_str) {
        Some("tool_use") => serde_json::from_value(value).map(SamplingContent::ToolUse),
        Some("tool_result") => serde_json::from_value(value).map(SamplingContent::ToolResult),
        _ => serde_json::from_value(value).map(SamplingContent::Content),
    };
    decoded.map_err(|error| error.to_string())
}

fn decode_result_block(value: Value) -> Result<SamplingContent, String> {
    match decode_block(value)? {
        SamplingContent::Content(content) if !is_allowed(&content) => {
            Err("a sampling result contains text, image, audio or tool_use".to_owned())
        }
        content => Ok(content),
    }
}

/// Returns whether sampling messages may contain this content.
fn is_allowed(content: &Content) -> bool {
    matches!(content, Content::Text { .. } | Content::Image { .. } | Content::Audio { .. })
}

#[cfg(test)]
mod tests {
    use crate::model::SampleResult;
    use serde_json::{Value, json};

    #[test]
    fn results_are_read_in_both_forms() {
        let text = json!({"type": "text", "text": "Paris"});
        let one = read(json!({"role": "assistant", "content": text, "model": "m"})).unwrap();
        let list = json!([text, {"type": "tool_use", "id": "1", "name": "add", "input": {}}]);
        let several = json!({
            "role": "assistant", "content": list, "model": "m", "stopReason": "toolUse", "x": 1
        });
        let several = read(several).unwrap();
        assert_eq!((one.text(), several.text()), ("Paris".to_owned(), "Paris".to_owned()));
        assert_eq!(several.tool_uses().next().unwrap().name, "add");
        assert_eq!(several.stop_reason.as_deref(), Some("toolUse"));
    }

    #[test]
    fn invalid_results_are_rejected() {
        let link = json!({"type": "resource_link", "uri": "file:///a", "name": "a"});
        for (member, value) in [
            ("role", json!("system")),
            ("role", Value::Null),
            ("content", json!("Paris")),
            ("content", json!([{"type": "tool_use", "id": 7, "name": "a", "input": {}}])),
            ("content", link),
            ("content", Value::Null),
            ("model", json!(7)),
        ] {
            let text = json!({"type": "text", "text": "Paris"});
            let mut raw = json!({"role": "assistant", "content": text, "model": "m"});
            raw[member] = value;
            assert!(read(raw.clone()).is_err(), "{raw}");
        }
    }

    fn read(raw: Value) -> Result<SampleResult, serde_json::Error> {
        serde_json::from_value(raw)
    }
}
