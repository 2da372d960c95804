//! Regular expressions and schemas with exponential cost (INT-106).

use std::process::Stdio;
use std::time::Duration;

use mcp_flow_testkit::scripted::{ScriptedRequest, http};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::attack::connection::{TestConnection, Transport};
use crate::attack::report::TableReport;
use crate::attack::target::{PROGRAM, Target};

/// INT-106, PAT-035: no schema of a hostile server makes its client spend more than bounded time.
#[tokio::test]
async fn a_server_cannot_keep_its_client_busy() {
    let mut report = TableReport::default();
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
        // A value that matches no pattern is rejected before it is sent; a schema that cannot be
        // checked is rejected, or left to the server.
        let is_right = match is_usable {
            true => ended == Some(2),
            false => ended.is_some_and(|code| code != 101),
        };
        report.check(pattern, is_right, format_args!("{ended:?}"));
    }
    report.finish(PATTERNS.len());
}

/// INT-106: no workflow file makes its reader spend more than bounded time.
#[tokio::test]
async fn a_workflow_cannot_keep_its_reader_busy() {
    let mut report = TableReport::default();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bomb.json");
    for (pattern, is_usable) in PATTERNS {
        let rule = json!({"type": "regex", "pattern": pattern, "message": "m"});
        let step = json!({"id": "one", "title": "t", "prompt": "p", "validationCriteria": [rule]});
        let workflow = json!({"id": "bomb", "name": "n", "description": "d", "version": "1.0.0",
            "steps": [step]});
        std::fs::write(&path, workflow.to_string()).unwrap();
        let ended = ends(&["workflow", "validate", path.to_str().unwrap()]).await;
        report.compare(pattern, ended, Some(i32::from(!is_usable)));
    }
    report.finish(PATTERNS.len());
}

/// INT-104, INT-106: answers crafted for the pattern of a question are validated in bounded time
/// over every transport.
#[tokio::test]
async fn an_answer_cannot_keep_the_server_busy() {
    let target = Target::open("", &[]).await;
    let mut report = TableReport::default();
    for transport in Transport::ALL {
        let mut connection = TestConnection::open(&target, transport).await;
        let params = json!({"toolName": "register"});
        let started =
            connection.call("interaction.start", params).await.messages[0]["result"].clone();
        let respond =
            |value: Value| json!({"sessionId": started["sessionId"], "response": {"value": value}});
        let long = "a".repeat(50_000);
        for answer in [json!(null), json!(7), json!([]), json!({}), json!(""), json!(long)] {
            let received = connection.call("interaction.respond", respond(answer.clone())).await;
            let row = format!(
                "{transport:?} {}",
                &answer.to_string()[..answer.to_string().len().min(20)]
            );
            report.check(row, !is_accepted(&received.messages), format_args!("{received:?}"));
        }
    }
    report.finish(50);
    target.assert_recovered(64).await;
}

fn is_accepted(messages: &[Value]) -> bool {
    messages.iter().any(|message| message["result"]["accepted"] == true)
}

/// Returns the exit code of the program, if it exits in time.
async fn ends(words: &[&str]) -> Option<i32> {
    let mut program = Command::new(PROGRAM);
    program.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let ended = program.kill_on_drop(true).status();
    tokio::time::timeout(Duration::from_secs(20), ended).await.ok()?.ok()?.code()
}

/// Patterns, and whether they are supported; unsupported ones are rejected when they are read.
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
