//! `#[prompt]`, as a user writes it and as a client sees it.

use mcp_flow::completion::ResolvedArguments;
use mcp_flow::prelude::*;
use mcp_flow::{PromptOutput, Revision};
use mcp_flow_testkit::Peer;
use mcp_flow_testkit_fixture::memory;
use serde_json::{Value, json};

/// Ask for a review of code
///
/// In any language.
#[prompt(title = "Code review", quick, meta(version = 2))]
fn review(
    /// The code
    code: String,
    /// Strictness of the review
    strictness: Option<Strictness>,
    #[param(range = 1..=5, default = 3)] findings: u8,
) -> Vec<PromptMessage> {
    let how = strictness.map_or(String::new(), |strictness| format!(" ({strictness:?})"));
    vec![
        PromptMessage::user(format!("Review this{how}, {findings} findings at most:\n{code}")),
        PromptMessage::assistant("I begin with the worst."),
    ]
}

#[data]
#[derive(Debug)]
#[serde(rename_all = "lowercase")]
enum Strictness {
    /// Only what is wrong
    Mild,
    /// Suggestions for improvement, too
    Harsh,
}

#[prompt(name = "greet.someone", description = "Greet")]
async fn greet(
    context: Context,
    #[param(name = "who", complete = names)] r#type: String,
    #[param(secret)] password: Option<String>,
) -> Result<PromptOutput, Failure> {
    let password = password.unwrap_or_default();
    if r#type == "nobody" {
        return Err(Failure::new("NOBODY", format!("{password} greets nobody")).with("n", 1));
    }
    let text = format!("Greet {} of {} by {password}", r#type, context.principal().name());
    Ok(PromptOutput::new([PromptMessage::user(text)]).described("A greeting"))
}

fn names(_: &Context, partial: &str, resolved: &ResolvedArguments) -> Vec<String> {
    let last = resolved.get("password").map_or("nobody", |_| "somebody");
    let all = ["ada", "alan", last];
    all.iter().filter(|name| name.starts_with(partial)).map(|name| (*name).to_owned()).collect()
}

#[prompt]
fn plain() -> String {
    "Say something.".to_owned()
}

#[data]
struct Trip {
    /// City to travel to
    city: String,
    days: Option<u16>,
}

#[prompt]
fn plan(#[arguments] trip: Trip) -> String {
    format!("{} in {:?} days", trip.city, trip.days)
}

/// MCP-082, PAT-038: a prompt is listed with the name, doc comment and parameters of its function.
#[tokio::test]
async fn a_prompt_is_listed_with_its_signature() {
    let mut peer = connect().await;
    let listed = peer.call("prompts/list", json!({})).await["result"]["prompts"].clone();
    assert_eq!(
        listed,
        json!([
            {
                "name": "review",
                "title": "Code review",
                "description": "Ask for a review of code\n\nIn any language.",
                "arguments": [
                    {"name": "code", "description": "The code", "required": true},
                    {"name": "strictness", "description": "Strictness of the review", "required": false},
                    {"name": "findings", "required": false},
                ],
                "_meta": {"version": 2},
            },
            {
                "name": "greet.someone",
                "description": "Greet",
                "arguments": [
                    {"name": "who", "required": true},
                    {"name": "password", "required": false},
                ],
            },
            {"name": "plain"},
            {
                "name": "plan",
                "arguments": [
                    {"name": "city", "description": "City to travel to", "required": true},
                    {"name": "days", "required": false},
                ],
            },
        ])
    );
}

/// PAT-040, PAT-041, MCP-083: strings are parsed as the types of the parameters, or rejected with a
/// reason.
#[tokio::test]
async fn strings_are_parsed_as_arguments() {
    let mut peer = connect().await;
    for (name, arguments, expected) in [
        ("review", json!({"code": "x"}), "Review this, 3 findings at most:\nx"),
        (
            "review",
            json!({"code": "{x}", "strictness": "harsh", "findings": "5", "other": 1}),
            "Review this (Harsh), 5 findings at most:\n{x}",
        ),
        ("review", json!({"code": "", "strictness": ""}), "Review this, 3 findings at most:\n"),
        ("plain", json!({}), "Say something."),
        ("plan", json!({"city": "5", "days": "12"}), "5 in Some(12) days"),
        ("plan", json!({"city": "Oslo", "days": ""}), "Oslo in None days"),
    ] {
        let got = get(&mut peer, name, &arguments).await;
        assert_eq!(got["result"]["messages"][0]["content"]["text"], expected, "{got}");
    }
    for (name, arguments, expected) in [
        ("review", json!({}), "code is required"),
        ("review", json!({"code": "x", "findings": "9"}), "findings must be at most 5"),
        ("review", json!({"code": "x", "findings": "many"}), "findings must be"),
        ("review", json!({"code": "x", "strictness": "cruel"}), "strictness must be"),
        ("review", json!({"code": 7}), "code must be a string"),
        ("plan", json!({"city": "x", "days": "-1"}), "days must be at least 0"),
    ] {
        let error = get(&mut peer, name, &arguments).await["error"].clone();
        assert_eq!(error["code"], -32602, "{error}");
        let details = error["data"]["details"].as_str().unwrap();
        assert!(details.contains(expected), "{arguments}: {details}");
    }
}

/// PAT-045: a secret is not shown in messages or errors.
#[tokio::test]
async fn secrets_are_not_shown() {
    let mut peer = connect().await;
    let got = get(&mut peer, "greet.someone", &json!({"who": "ada", "password": "hunter2"})).await;
    assert_eq!(got["result"]["description"], "A greeting");
    let text = &got["result"]["messages"][0]["content"]["text"];
    assert_eq!(text, "Greet ada of local by [secret]");
    let failed = get(&mut peer, "greet.someone", &json!({"who": "nobody", "password": "x"})).await;
    assert_eq!(failed["error"]["code"], -32603);
    assert_eq!(failed["error"]["message"], "[secret] greets nobody");
    let data = &failed["error"]["data"];
    assert_eq!((&data["reason"], &data["n"]), (&json!("NOBODY"), &json!(1)));
}

/// Completions come from the enum, or from a function that gets the other arguments.
#[tokio::test]
async fn arguments_are_completed() {
    let mut peer = connect().await;
    for (prompt, argument, value, settled, expected) in [
        ("review", "strictness", "", json!({}), json!(["mild", "harsh"])),
        ("review", "strictness", "H", json!({}), json!(["harsh"])),
        ("review", "code", "", json!({}), json!([])),
        ("greet.someone", "who", "a", json!({}), json!(["ada", "alan"])),
        ("greet.someone", "who", "", json!({}), json!(["ada", "alan", "nobody"])),
        ("greet.someone", "who", "s", json!({"password": "x"}), json!(["somebody"])),
    ] {
        let params = json!({
            "ref": {"type": "ref/prompt", "name": prompt},
            "argument": {"name": argument, "value": value},
            "context": {"arguments": settled},
        });
        let completed = peer.call("completion/complete", params).await["result"].clone();
        assert_eq!(completed["completion"]["values"], expected, "{argument} {value}");
    }
}

async fn connect() -> Peer {
    let server = Server::builder("prompts", "1.0.0").prompts(prompts![review, greet, plain, plan]);
    let mut peer = memory::connect(&server.build().unwrap());
    peer.initialize(Revision::V2025_11_25).await;
    peer
}

async fn get(peer: &mut Peer, name: &str, arguments: &Value) -> Value {
    peer.call("prompts/get", json!({"name": name, "arguments": arguments})).await
}
