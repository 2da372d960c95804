//! Answers to the open questions of a task, as they are typed.

use mcp_flow::client::model::{DetailedTask, TaskState};
use serde_json::{Map, Value, json};

use crate::client::tool_arguments;
use crate::exit::{Exit, Failure};
use crate::terminal::output::sanitize;

/// Returns the responses to send: one value answers the only question, several are KEY=VALUE.
pub(super) fn responses(
    requests: &Map<String, Value>,
    values: &[String],
) -> anyhow::Result<Map<String, Value>> {
    let mut responses = Map::new();
    for text in values {
        let (key, value) = assign(requests, text, values.len() == 1)?;
        if responses.insert(key.to_owned(), response(&requests[key], value)?).is_some() {
            return Err(usage(format!("two answers to {}", sanitize(key))).into());
        }
    }
    Ok(responses)
}

/// Returns the key of a question that was answered and is asked again. Keys of mcp-flow servers are
/// `NAME#ATTEMPT`; those of other servers do not show it.
pub(super) fn rejected<'a>(task: &'a DetailedTask, answered: &[String]) -> Option<&'a str> {
    let TaskState::InputRequired { input_requests } = &task.state else { return None };
    let question = |key: &str| Some(key.rsplit_once('#')?.1.split_once('.')?.0.to_owned());
    let is_again = |key: &&String| {
        question(key).is_some_and(|asked| {
            answered.iter().any(|old| question(old).as_ref() == Some(&asked) && old != *key)
        })
    };
    input_requests.keys().find(is_again).map(|key| name(key))
}

/// Finds the question that a word answers, and the value in it.
fn assign<'a>(
    requests: &'a Map<String, Value>,
    text: &'a str,
    is_only_value: bool,
) -> anyhow::Result<(&'a str, &'a str)> {
    if let Some((typed, value)) = text.split_once('=') {
        let exact = requests.keys().find(|key| *key == typed);
        let mut short = requests.keys().filter(|key| name(key) == typed);
        let only = short.next().filter(|_| short.next().is_none());
        if let Some(key) = exact.or(only) {
            return Ok((key, value));
        }
    }
    match requests.keys().next() {
        Some(key) if requests.len() == 1 && is_only_value => Ok((key, text)),
        _ => {
            let open: Vec<_> =
                requests.keys().map(|key| format!("{}=VALUE", sanitize(name(key)))).collect();
            let count = requests.len();
            let message = format!("{count} questions are open; answer by {}", open.join(" or "));
            Err(usage(message).into())
        }
    }
}

/// The name of a question, without the number that mcp-flow servers add to make its key unique.
pub(super) fn name(key: &str) -> &str {
    key.rsplit_once('#').map_or(key, |(name, _)| name)
}

/// Converts a typed value to the response to a request.
fn response(request: &Value, text: &str) -> anyhow::Result<Value> {
    let params = &request["params"];
    let is_elicitation = request["method"] == "elicitation/create";
    if is_elicitation && params["mode"] == "url" {
        let is_done = matches!(text.to_lowercase().as_str(), "y" | "yes" | "true" | "done");
        return Ok(json!({"action": if is_done { "accept" } else { "decline" }}));
    }
    let object = || serde_json::from_str::<Map<String, Value>>(text);
    if !is_elicitation {
        let method = sanitize(request["method"].as_str().unwrap_or("an unknown method"));
        let problem = || {
            usage(format!("this is a request by {method}; answer it by its result, a JSON object"))
        };
        return object().map(Value::Object).map_err(|_| problem().into());
    }
    let schema = &params["requestedSchema"];
    let fields = schema["properties"].as_object();
    let content = match fields.map(|fields| fields.keys().collect::<Vec<_>>()) {
        Some(names) if names.len() == 1 => {
            let value = tool_arguments::typed_value(schema, names[0], text).map_err(usage)?;
            json!({names[0]: value})
        }
        _ => {
            let problem = |_| usage("the form has several fields; answer by a JSON object".into());
            object().map(Value::Object).map_err(problem)?
        }
    };
    Ok(json!({"action": "accept", "content": content}))
}

fn usage(message: String) -> Failure {
    Failure::new(Exit::Usage, message)
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};

    use super::responses;

    fn form(kind: &str) -> Value {
        json!({"method": "elicitation/create", "params": {"mode": "form", "message": "?",
            "requestedSchema": {"type": "object", "properties": {"x": {"type": kind}}}}})
    }

    fn check(requests: &Value, values: &[&str]) -> Result<Value, String> {
        let requests: Map<String, Value> = requests.as_object().unwrap().clone();
        let values: Vec<_> = values.iter().map(|value| (*value).to_owned()).collect();
        responses(&requests, &values).map(Value::Object).map_err(|error| error.to_string())
    }

    #[test]
    fn answers_have_the_type_of_their_question() {
        for (kind, text, value) in [
            ("string", "42", json!("42")),
            ("string", "a=b", json!("a=b")),
            ("integer", "42", json!(42)),
            ("boolean", "yes", json!(true)),
        ] {
            let expected = json!({"q#0.0": {"action": "accept", "content": {"x": value}}});
            assert_eq!(check(&json!({"q#0.0": form(kind)}), &[text]), Ok(expected.clone()));
            let assigned = format!("q={text}");
            assert_eq!(check(&json!({"q#0.0": form(kind)}), &[&assigned]), Ok(expected));
        }
        let url = json!({"q": {"method": "elicitation/create", "params": {"mode": "url"}}});
        assert_eq!(check(&url, &["done"]).unwrap()["q"], json!({"action": "accept"}));
        let sampling = json!({"q": {"method": "sampling/createMessage"}});
        assert_eq!(check(&sampling, &[r#"{"role":"user"}"#]).unwrap()["q"]["role"], "user");
        assert!(check(&sampling, &["text"]).unwrap_err().contains("sampling/createMessage"));
    }

    #[test]
    fn several_questions_are_answered_by_key() {
        let both = json!({"a#0.0": form("string"), "b#1.2": form("integer")});
        let answers = check(&both, &["b=7", "a=x"]).unwrap();
        assert_eq!(answers["b#1.2"]["content"], json!({"x": 7}));
        assert_eq!(answers["a#0.0"]["content"], json!({"x": "x"}));
        assert_eq!(check(&both, &["b#1.2=7"]).unwrap().as_object().unwrap().len(), 1);
        for wrong in [&["7"][..], &["c=7"], &["a=1", "7"]] {
            let problem = check(&both, wrong).unwrap_err();
            assert!(problem.contains("a=VALUE or b=VALUE"), "{problem}");
        }
        assert!(check(&both, &["a=1", "a=2"]).unwrap_err().contains("two answers"));
    }
}
