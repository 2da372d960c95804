//! What servers ask of a model, and what clients answer for theirs.

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
        let answer = Answer::deserialize(deserializer)?;
        let content = match answer.content {
            Value::Array(pieces) => pieces.into_iter().map(piece).collect(),
            one => piece(one).map(|content| vec![content]),
        };
        Ok(Self {
            role: answer.role,
            content: content.map_err(D::Error::custom)?,
            model: answer.model,
            stop_reason: answer.stop_reason,
            meta: answer.meta,
        })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
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
        let asked = Asked::deserialize(deserializer)?;
        let messages = asked.messages.into_iter().map(|message| {
            let content = match message.content {
                Value::Array(pieces) => pieces.into_iter().map(any_piece).collect(),
                one => any_piece(one).map(|content| vec![content]),
            };
            Ok(SamplingMessage { role: message.role, content: content?, meta: message.meta })
        });
        Ok(Self {
            messages: messages.collect::<Result<_, String>>().map_err(D::Error::custom)?,
            model_preferences: asked.model_preferences,
            system_prompt: asked.system_prompt,
            include_context: asked.include_context,
            temperature: asked.temperature,
            // Some servers write whole numbers as floats; none means anything below one token.
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "cut")]
            max_tokens: asked.max_tokens as u32,
            stop_sequences: asked.stop_sequences.unwrap_or_default(),
            metadata: asked.metadata,
            tools: asked.tools.unwrap_or_default(),
            tool_choice: asked.tool_choice,
        })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Asked {
    messages: Vec<AskedMessage>,
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
struct AskedMessage {
    role: Role,
    content: Value,
    #[serde(rename = "_meta", default)]
    meta: Option<Meta>,
}

fn any_piece(value: Value) -> Result<SamplingContent, String> {
    let decoded = match value.get("type").and_then(Value::as_str) {
        Some("tool_use") => serde_json::from_value(value).map(SamplingContent::ToolUse),
        Some("tool_result") => serde_json::from_value(value).map(SamplingContent::ToolResult),
        _ => serde_json::from_value(value).map(SamplingContent::Content),
    };
    decoded.map_err(|error| error.to_string())
}

fn piece(value: Value) -> Result<SamplingContent, String> {
    match any_piece(value)? {
        SamplingContent::Content(content) if !may_be_said(&content) => {
            Err("a model answers with text, image, audio or tool_use".to_owned())
        }
        content => Ok(content),
    }
}

/// Whether there is such content in a conversation with a model.
fn may_be_said(content: &Content) -> bool {
    matches!(content, Content::Text { .. } | Content::Image { .. } | Content::Audio { .. })
}

#[cfg(test)]
mod tests {
    use crate::model::SampleResult;
    use serde_json::{Value, json};

    #[test]
    fn answers_are_read_in_both_forms() {
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
    fn what_is_no_answer_is_refused() {
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
            let mut answer = json!({"role": "assistant", "content": text, "model": "m"});
            answer[member] = value;
            assert!(read(answer.clone()).is_err(), "{answer}");
        }
    }

    fn read(answer: Value) -> Result<SampleResult, serde_json::Error> {
        serde_json::from_value(answer)
    }
}
