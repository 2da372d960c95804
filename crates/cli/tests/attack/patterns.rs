//! Patterns and schemas that would take forever (INT-106).

use std::process::Stdio;
use std::time::Duration;

use mcp_flow_testkit::scripted::{ScriptedRequest, http};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::attack::book::Book;
use crate::attack::target::{PROGRAM, Target};
use crate::attack::way::{Transport, Way};

/// INT-106, PAT-035: a schema of a hostile server cannot keep its client busy, whatever its patterns
/// would do to others.
#[tokio::test]
async fn a_server_cannot_keep_its_client_busy() {
    let mut book = Book::default();
    let address = http(|mut asked: ScriptedRequest| match asked.method() {
        "server/discover" => asked
            .result(&json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}})),
        "tools/list" => {
            let tool = |(number, (pattern, _)): (usize, &(&str, bool))| {
                let text = json!({"type": "string", "pattern": pattern});
                let schema = json!({"type": "object", "properties": {"x": text},
                    "patternProperties": {*pattern: {}}});
                json!({"name": format!("t{number}"), "inputSchema": schema})
            };
            let tools: Vec<Value> = PATTERNS.iter().enumerate().map(tool).collect();
            asked.result(&json!({"tools": tools}));
        }
        _ => asked.result(&json!({"content": []})),
    });
    let url = format!("http://{address}/mcp");
    let text = format!("x={}!", "a".repeat(30_000));
    for (number, (pattern, is_usable)) in PATTERNS.iter().enumerate() {
        let tool = format!("t{number}");
        let ended = ends(&["call", &url, &tool, &text]).await;
        // What matches none of them is refused before it is sent; a schema that cannot be checked is
        // not believed, or left to the server.
        let is_right = match is_usable {
            true => ended == Some(2),
            false => ended.is_some_and(|code| code != 101),
        };
        book.check(pattern, is_right, format_args!("{ended:?}"));
    }
    book.close(PATTERNS.len());
}

/// INT-106: nor can a file of a workflow keep whoever reads it busy.
#[tokio::test]
async fn a_workflow_cannot_keep_its_reader_busy() {
    let mut book = Book::default();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bomb.json");
    for (pattern, is_usable) in PATTERNS {
        let rule = json!({"type": "regex", "pattern": pattern, "message": "m"});
        let step = json!({"id": "one", "title": "t", "prompt": "p", "validationCriteria": [rule]});
        let workflow = json!({"id": "bomb", "name": "n", "description": "d", "version": "1.0.0",
            "steps": [step]});
        std::fs::write(&path, workflow.to_string()).unwrap();
        let ended = ends(&["workflow", "validate", path.to_str().unwrap()]).await;
        book.note(pattern, ended, Some(i32::from(!is_usable)));
    }
    book.close(PATTERNS.len());
}

/// INT-104, INT-106: answers made for the pattern of a question are judged at once, over every
/// transport.
#[tokio::test]
async fn an_answer_cannot_keep_the_server_busy() {
    let target = Target::open("", &[]).await;
    let mut book = Book::default();
    for transport in Transport::EVERY {
        let mut way = Way::open(&target, transport).await;
        let params = json!({"toolName": "register"});
        let started = way.ask("interaction.start", params).await.messages[0]["result"].clone();
        let respond =
            |value: Value| json!({"sessionId": started["sessionId"], "response": {"value": value}});
        let long = "a".repeat(50_000);
        for answer in [json!(null), json!(7), json!([]), json!({}), json!(""), json!(long)] {
            let heard = way.ask("interaction.respond", respond(answer.clone())).await;
            let row = format!(
                "{transport:?} {}",
                &answer.to_string()[..answer.to_string().len().min(20)]
            );
            book.check(row, !is_accepted(&heard.messages), format_args!("{heard:?}"));
        }
    }
    book.close(50);
    target.unharmed(64).await;
}

fn is_accepted(messages: &[Value]) -> bool {
    messages.iter().any(|message| message["result"]["accepted"] == true)
}

/// The exit code of the program, if it ends in time.
async fn ends(words: &[&str]) -> Option<i32> {
    let mut program = Command::new(PROGRAM);
    program.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let ended = program.kill_on_drop(true).status();
    tokio::time::timeout(Duration::from_secs(20), ended).await.ok()?.ok()?.code()
}

/// Patterns, and whether they can be used at all; those that cannot are refused where they are read.
const PATTERNS: &[(&str, bool)] = &[
    ("^(a+)+$", true),
    ("^(a|a)*$", true),
    ("^(a|aa)+$", true),
    ("^([a-z]+)*$", true),
    ("^(x+x+)+y", true),
    ("^(a?){50}a{50}$", true),
    ("^(((((((((a*)*)*)*)*)*)*)*)*)*$", true),
    ("a{1000000}", false),
    ("((a{100}){100}){100}", false),
    ("(?=(a+))a*b\\1", false),
    ("\\p{L}{5000}", false),
    ("[", false),
    ("(", false),
    ("(?P<n>a)(?P<n>b)", false),
    ("\\", false),
];
