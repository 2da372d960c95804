//! Questions of upstreams as data: the prompt that people see, and their answers.
//!
//! A question keeps the upstream's own words. Clients are asked with those; the console and the
//! command line show a prompt. Answers are kept in one form, however they were given:
//!
//! | question | accepted | declined | cancelled, or withdrawn |
//! |---|---|---|---|
//! | form | the content | `{"$action": "decline"}` | null |
//! | URL, approval | true | false | null |
//! | sampling, roots | the result | `{"$error": {…}}` | null |

use mcp_flow_client::sanitize;
use mcp_flow_engine::model::prompt::{Prompt, PromptType};
use mcp_flow_proto::error::RpcErrorKind;
use mcp_flow_proto::model::InputRequest;
use mcp_flow_proto::{Revision, RpcError, method};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::error::NOT_ANSWERED;
use crate::question::{answer_for, known_method, question_for};
use crate::recovery::Holder;

/// A question of an upstream, or of the gateway itself for an approval.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub(crate) struct AskedQuestion {
    /// Key under which a stateless upstream expects the answer.
    pub(crate) key: String,
    pub(crate) method: String,
    pub(crate) params: Value,
    /// Set for the approval of a call.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_approval: bool,
}

/// Questions that are asked together, with what belongs to them, as the journal has it.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub(crate) struct QuestionHints {
    /// Upstream that asks.
    pub(crate) server: String,
    /// Tool, prompt or resource that was requested.
    pub(crate) target: String,
    /// Number of the round, from one.
    pub(crate) round: u32,
    /// Set if the upstream's call waits in the memory of a process.
    pub(crate) is_live: bool,
    /// That process, if others share its store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) holder: Option<Holder>,
    pub(crate) question: AskedQuestion,
}

impl AskedQuestion {
    /// Asks to approve a call.
    pub(crate) fn approval(server: &str, target: &str, arguments: &Value) -> Self {
        let arguments = arguments.to_string();
        let message = format!("Allow a call of {target} on the server {server} with {arguments}?");
        let message = warn_of_length(&message, MAX_ASKED_LENGTH);
        // A form without fields might be accepted by a client that asks nobody.
        let approve = json!({"type": "boolean", "title": "Approve this call"});
        let schema = json!({"type": "object", "properties": {APPROVE: approve},
            "required": [APPROVE]});
        Self {
            key: APPROVAL.to_owned(),
            method: method::ELICITATION_CREATE.to_owned(),
            params: json!({"message": message, "requestedSchema": schema}),
            is_approval: true,
        }
    }

    fn is_url(&self) -> bool {
        self.method == method::ELICITATION_CREATE && self.params["mode"] == "url"
    }

    fn is_form(&self) -> bool {
        self.method == method::ELICITATION_CREATE && !self.is_url() && !self.is_approval
    }

    /// The prompt for people, with everything that is needed to ask a client.
    pub(crate) fn prompt(&self, hints: QuestionHints) -> Prompt {
        let text = |name: &str| self.params[name].as_str().unwrap_or_default();
        let message = text("message");
        let (kind, message) = match self.method.as_str() {
            method::ELICITATION_CREATE if self.is_url() => {
                (PromptType::Confirm, format!("{message}\nOpen {}", text("url")))
            }
            method::ELICITATION_CREATE if self.is_approval => {
                (PromptType::Confirm, warn_of_length(message, MAX_APPROVAL_LENGTH))
            }
            method::ELICITATION_CREATE => (PromptType::Custom, message.to_owned()),
            method::SAMPLING_CREATE_MESSAGE => {
                let messages = sanitize::shorten(&self.params["messages"].to_string(), 4000);
                (PromptType::Custom, format!("The server asks your model: {messages}"))
            }
            _ => (PromptType::Custom, "The server requests the roots of the client".to_owned()),
        };
        let message = match self.is_approval {
            true => message,
            false => sanitize::shorten(&message, MAX_MESSAGE_LENGTH),
        };
        let message = if message.trim().is_empty() { "(no message)".to_owned() } else { message };
        let mut prompt = Prompt::new(kind, &message);
        prompt.validation.required = None;
        prompt.ui = serde_json::to_value(hints).ok();
        if kind == PromptType::Custom {
            let schema = match self.is_form() {
                true => form_schema(&self.params["requestedSchema"]),
                false => json!({"type": "object"}),
            };
            prompt.validation.schema = Some(schema);
            if prompt.validate().is_err() {
                prompt.validation.schema = Some(json!({"type": "object"}));
            }
        }
        prompt
    }

    /// The question in the form of a client's revision.
    pub(crate) fn request_for(&self, revision: Revision) -> Result<InputRequest, RpcError> {
        let Some(method) = known_method(&self.method) else { return Err(RpcError::internal()) };
        Ok(InputRequest { method, params: question_for(revision, method, &self.params)? })
    }

    /// The kept form of a client's result.
    pub(crate) fn answer_from_client(&self, result: Result<Value, RpcError>) -> Value {
        let result = match result {
            Ok(result) => result,
            // Nobody can be asked, so nobody approves.
            Err(_) if self.is_approval => return Value::Bool(false),
            Err(error) => {
                let error = serde_json::to_value(error.wire(Revision::BASE)).unwrap_or_default();
                return json!({ERROR: {"code": error["code"], "message": error["message"]}});
            }
        };
        if self.method != method::ELICITATION_CREATE {
            return result;
        }
        let action = result["action"].as_str();
        match action {
            Some("accept") if self.is_form() => match &result["content"] {
                Value::Object(content) if !content.is_empty() => Value::Object(content.clone()),
                // An empty answer would be none.
                _ => json!({CONTENT: {}}),
            },
            Some("accept") if self.is_approval => {
                Value::Bool(result["content"][APPROVE] == Value::Bool(true))
            }
            Some("accept") => Value::Bool(true),
            Some("decline") if self.is_form() => json!({ACTION: "decline"}),
            Some("decline") => Value::Bool(false),
            _ => Value::Null,
        }
    }

    /// The result for the upstream, from the kept form, for its revision.
    pub(crate) fn result_for(&self, revision: Revision, kept: &Value) -> Result<Value, RpcError> {
        if let Some(error) = kept.get(ERROR) {
            let code = error["code"].as_i64().and_then(|code| i32::try_from(code).ok());
            let code = code.unwrap_or(NOT_ANSWERED.code);
            let kind = RpcErrorKind { code, stateless_code: code, ..NOT_ANSWERED };
            let message = error["message"].as_str().unwrap_or(NOT_ANSWERED.message);
            return Err(RpcError::new(kind).message(message.to_owned()));
        }
        let content = kept.get(CONTENT).unwrap_or(kept);
        Ok(match (self.method.as_str(), kept) {
            (method::ELICITATION_CREATE, Value::Null) => json!({"action": "cancel"}),
            (method::ELICITATION_CREATE, Value::Bool(true)) => json!({"action": "accept"}),
            (method::ELICITATION_CREATE, Value::Bool(false)) => json!({"action": "decline"}),
            (method::ELICITATION_CREATE, kept) if kept.get(ACTION).is_some() => {
                json!({"action": "decline"})
            }
            (method::ELICITATION_CREATE, _) => json!({"action": "accept", "content": content}),
            (method::ROOTS_LIST, Value::Null) => json!({"roots": []}),
            (_, Value::Null) => return Err(RpcError::new(NOT_ANSWERED)),
            (method, _) => answer_for(revision, method, content.clone()),
        })
    }
}

/// Fits an answer to its prompt: what the prompt does not allow is wrapped, since only the upstream
/// decides what it takes from a client.
pub(crate) fn fit(prompt: &Prompt, answer: Value) -> Value {
    match prompt.check(&answer) {
        Ok(_) => answer,
        Err(_) => json!({CONTENT: answer}),
    }
}

/// A message that says so if it is too long to be shown as a whole: nobody approves what is hidden.
fn warn_of_length(message: &str, limit: usize) -> String {
    if message.len() <= limit {
        // Characters that a terminal would interpret are shown as longer ones.
        let whole = sanitize::shorten(message, limit);
        if whole.len() <= limit {
            return whole;
        }
    }
    let warning =
        format!("NOT ALL of this is shown: it has {} bytes. Refuse if in doubt.\n", message.len());
    // A character has at most four bytes.
    let shown = (limit / 4).saturating_sub(warning.len());
    warning + &sanitize::shorten(message, shown)
}

/// Schema of a form, which also allows declining.
fn form_schema(requested: &Value) -> Value {
    let mut schema = Map::new();
    schema.insert("type".to_owned(), "object".into());
    let properties = requested.get("properties").filter(|value| value.is_object());
    schema.insert("properties".to_owned(), properties.cloned().unwrap_or_else(|| json!({})));
    let required = requested.get("required").filter(|value| value.is_array());
    let required = required.cloned().unwrap_or_else(|| json!([]));
    let others = [ACTION, CONTENT, ERROR].map(|member| json!({"required": [member]}));
    let mut any = vec![json!({"required": required})];
    any.extend(others);
    schema.insert("anyOf".to_owned(), any.into());
    Value::Object(schema)
}

/// Key of the question for approval.
pub(crate) const APPROVAL: &str = "approval";

/// Field of the form for approval.
const APPROVE: &str = "approve";

const ACTION: &str = "$action";

const ERROR: &str = "$error";

const CONTENT: &str = "$content";

/// Bytes of an approval that a client is asked for.
const MAX_ASKED_LENGTH: usize = 64 * 1024;

/// Bytes of an approval that the console and the command line show.
const MAX_APPROVAL_LENGTH: usize = 16 * 1000;

/// Characters of a message that people see.
const MAX_MESSAGE_LENGTH: usize = 8000;

#[cfg(test)]
mod tests {
    use super::{AskedQuestion, QuestionHints, fit};
    use mcp_flow_proto::{Revision, RpcError};
    use serde_json::{Value, json};

    fn asked(method: &str, params: Value) -> AskedQuestion {
        AskedQuestion { key: "k".into(), method: method.into(), params, is_approval: false }
    }

    fn hints(question: &AskedQuestion) -> QuestionHints {
        let (server, target) = ("up".to_owned(), "up.tool".to_owned());
        QuestionHints {
            server,
            target,
            round: 1,
            is_live: false,
            holder: None,
            question: question.clone(),
        }
    }

    /// An upstream gets what its client said, whatever way the answer took.
    #[test]
    fn results_of_clients_survive_the_journal() {
        let form = json!({"message": "?", "requestedSchema": {"type": "object",
            "properties": {"name": {"type": "string"}}, "required": ["name"]}});
        let url = json!({"mode": "url", "message": "?", "url": "https://h"});
        let elicit = "elicitation/create";
        for (method, params, result) in [
            (elicit, &form, json!({"action": "accept", "content": {"name": "Ada"}})),
            (elicit, &form, json!({"action": "accept", "content": {"name": 7}})),
            (elicit, &form, json!({"action": "accept", "content": {}})),
            (elicit, &form, json!({"action": "decline"})),
            (elicit, &form, json!({"action": "cancel"})),
            (elicit, &url, json!({"action": "accept"})),
            (elicit, &url, json!({"action": "decline"})),
            (elicit, &url, json!({"action": "cancel"})),
            ("roots/list", &json!({}), json!({"roots": [{"uri": "file:///a"}]})),
        ] {
            let question = asked(method, params.clone());
            let prompt = question.prompt(hints(&question));
            prompt.validate().unwrap();
            let kept = fit(&prompt, question.answer_from_client(Ok(result.clone())));
            let kept = prompt.check(&kept).unwrap();
            let sent = question.result_for(Revision::V2025_11_25, &kept).unwrap();
            assert_eq!(sent, result, "{method} {kept}");
        }
        let question = asked("sampling/createMessage", json!({"messages": []}));
        let refused = question.answer_from_client(Err(RpcError::method_not_found("x")));
        let error = question.result_for(Revision::V2025_11_25, &refused).unwrap_err();
        assert_eq!(error.code(), -32601);
    }

    /// Whoever approves a call sees its arguments, or is told that not all of them are shown.
    #[test]
    fn approvals_hide_nothing_silently() {
        for (length, is_shown) in [(10, true), (15_000, true), (20_000, false), (200_000, false)] {
            for letter in ["x", "é", "\u{1f600}"] {
                let text = letter.repeat(length / letter.len()) + "END";
                let question = AskedQuestion::approval("up", "up.tool", &json!({"text": text}));
                let asked = question.params["message"].as_str().unwrap().to_owned();
                let prompt = question.prompt(hints(&question));
                prompt.validate().unwrap();
                assert_eq!(prompt.message.contains("END"), is_shown, "{length} {letter}");
                assert_eq!(prompt.message.starts_with("NOT ALL"), !is_shown, "{length} {letter}");
                assert_ne!(asked.contains("END"), asked.starts_with("NOT ALL"), "{length}");
            }
        }
    }

    /// A schema that cannot be used does not keep people from answering.
    #[test]
    fn hostile_schemas_become_plain_ones() {
        for schema in [
            json!(7),
            json!({"properties": 7}),
            json!({"properties": {"a": {"$ref": "http://elsewhere"}}}),
            json!({"properties": {"a": {"pattern": "("}}}),
        ] {
            let question =
                asked("elicitation/create", json!({"message": "", "requestedSchema": schema}));
            question.prompt(hints(&question)).validate().unwrap();
        }
    }
}
