//! Tools that send requests to the client, each in its own way.

use mcp_flow::ask::AskError;
use mcp_flow::context::ClientError;
use mcp_flow::model::{CreateMessage, Field};
use mcp_flow::prelude::*;
use mcp_flow::{BadTool, Elicited, Form, IntoTools};
use serde_json::{Map, Value, json};

/// All tools of this module.
pub fn tools() -> Result<Vec<Tool>, BadTool> {
    tools![
        test_sampling,
        test_missing_capability,
        test_elicitation,
        test_streaming_elicitation,
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
) -> Result<String, AskError> {
    let answer = context.sample(CreateMessage::new(100).user(prompt)).await?;
    Ok(format!("LLM response: {}", answer.text()))
}

/// Requires the client's model
#[tool]
async fn test_missing_capability(context: &Context) -> Result<String, AskError> {
    let answer = context.sample(CreateMessage::new(10).user("Say something")).await?;
    Ok(answer.text())
}

/// Asks the user for a name and an email address
#[tool]
async fn test_elicitation(
    context: &Context,
    /// Message to the user
    message: String,
) -> Result<String, AskError> {
    let fields = [
        Field::text("username").description("User's response").required(),
        Field::text("email").description("User's email address").required(),
    ];
    let answer = context.elicit(Form::of(message, fields)).await?;
    Ok(format!("User response: {}", describe(&answer)))
}

/// Asks the user for a word, after it has reported progress
#[tool]
async fn test_streaming_elicitation(context: &Context) -> Result<String, AskError> {
    context.progress(1.0, Some(2.0), Some("about to ask"));
    let form = Form::of("Please say a word", [Field::text("word").required()]);
    let answer = context.elicit(form).await?;
    Ok(format!("User response: {}", describe(&answer)))
}

/// Asks the user for one of each primitive type, with a default for each
#[tool]
async fn test_elicitation_sep1034_defaults(context: &Context) -> Result<String, AskError> {
    let fields = [
        Field::text("name").description("User name").default_value("John Doe"),
        Field::integer("age").description("User age").default_value(30),
        Field::number("score").description("User score").default_value(95.5),
        Field::choice("status", ["active", "inactive", "pending"])
            .description("User status")
            .default_value("active"),
        Field::boolean("verified").description("Verification status").default_value(true),
    ];
    let answer = context.elicit(Form::of("Please review the form", fields)).await?;
    Ok(format!("Elicitation completed: {}", describe(&answer)))
}

/// Asks the user to choose in each of the five ways
///
/// One of them is deprecated and not supported by the form builder, so this request is built by
/// hand.
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
    let params = json!({"message": "Please choose", "requestedSchema": schema});
    let answer: Value = context.client().request("elicitation/create", &params).await?;
    let action = answer["action"].as_str().unwrap_or("none");
    Ok(format!("Elicitation completed: action={action}, content={}", answer["content"]))
}

fn describe(answer: &Elicited<Map<String, Value>>) -> String {
    match answer {
        Elicited::Accepted(content) => format!("action=accept, content={}", json!(content)),
        Elicited::Declined => "action=decline, content={}".to_owned(),
        Elicited::Cancelled => "action=cancel, content={}".to_owned(),
    }
}
