//! Tools that ask the client something before they answer.

use mcp_flow::context::ClientError;
use mcp_flow::prelude::*;
use mcp_flow::{BadTool, IntoTools};
use serde_json::{Value, json};

/// All of them.
pub fn tools() -> Result<Vec<Tool>, BadTool> {
    tools![
        test_sampling,
        test_elicitation,
        test_elicitation_sep1034_defaults,
        test_elicitation_sep1330_enums,
    ]
    .into_tools()
}

/// Has the client's model answer a prompt
#[tool]
async fn test_sampling(
    context: &Context,
    /// The prompt to send to the model
    prompt: String,
) -> Result<String, ClientError> {
    let params = json!({
        "messages": [{"role": "user", "content": {"type": "text", "text": prompt}}],
        "maxTokens": 100,
    });
    let answer: Value = context.client().request("sampling/createMessage", &params).await?;
    Ok(format!("LLM response: {}", answer["content"]["text"].as_str().unwrap_or_default()))
}

/// Asks the user for a name and an email address
#[tool]
async fn test_elicitation(
    context: &Context,
    /// What to tell the user
    message: String,
) -> Result<String, ClientError> {
    let schema = json!({
        "type": "object",
        "properties": {
            "username": {"type": "string", "description": "User's response"},
            "email": {"type": "string", "description": "User's email address"},
        },
        "required": ["username", "email"],
    });
    let answer = elicit(context, &message, schema).await?;
    Ok(format!("User response: {answer}"))
}

/// Asks the user for one of each primitive type, with a default for each
#[tool]
async fn test_elicitation_sep1034_defaults(context: &Context) -> Result<String, ClientError> {
    let schema = json!({
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "User name", "default": "John Doe"},
            "age": {"type": "integer", "description": "User age", "default": 30},
            "score": {"type": "number", "description": "User score", "default": 95.5},
            "status": {
                "type": "string",
                "description": "User status",
                "enum": ["active", "inactive", "pending"],
                "default": "active",
            },
            "verified": {"type": "boolean", "description": "Is it verified?", "default": true},
        },
        "required": [],
    });
    let answer = elicit(context, "Please review the form", schema).await?;
    Ok(format!("Elicitation completed: {answer}"))
}

/// Asks the user to choose in each of the five ways there are
#[tool]
async fn test_elicitation_sep1330_enums(context: &Context) -> Result<String, ClientError> {
    let names = ["option1", "option2", "option3"];
    let titled = |kind: &str| {
        json!([
            {"const": "value1", "title": format!("First {kind}")},
            {"const": "value2", "title": format!("Second {kind}")},
            {"const": "value3", "title": format!("Third {kind}")},
        ])
    };
    let schema = json!({
        "type": "object",
        "properties": {
            "untitledSingle": {"type": "string", "enum": names},
            "titledSingle": {"type": "string", "oneOf": titled("Option")},
            "legacyEnum": {
                "type": "string",
                "enum": ["opt1", "opt2", "opt3"],
                "enumNames": ["Option One", "Option Two", "Option Three"],
            },
            "untitledMulti": {"type": "array", "items": {"type": "string", "enum": names}},
            "titledMulti": {"type": "array", "items": {"anyOf": titled("Choice")}},
        },
        "required": [],
    });
    let answer = elicit(context, "Please choose", schema).await?;
    Ok(format!("Elicitation completed: {answer}"))
}

/// Puts a form before the user, and says what came of it.
async fn elicit(context: &Context, message: &str, schema: Value) -> Result<String, ClientError> {
    let params = json!({"message": message, "requestedSchema": schema});
    let answer: Value = context.client().request("elicitation/create", &params).await?;
    let action = answer["action"].as_str().unwrap_or("nothing");
    Ok(format!("action={action}, content={}", answer["content"]))
}
