//! `--protocol-version`.

use std::sync::Mutex;
use std::sync::mpsc::channel;

use mcp_flow_testkit::scripted::{Script, ScriptedRequest, http};
use mcp_flow_testkit::wait::LIMIT;
use serde_json::{Value, json};

use super::{PROGRAM, Server, run};

/// C-04: every revision can be chosen; an unknown one, or one that the server does not support, is
/// an error that says so.
#[test]
fn a_revision_is_chosen() {
    let server = Server::start(&["--store", "memory:"]);
    let revisions = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];
    for revision in revisions {
        let choice = ["--protocol-version", revision];
        for target in [&[server.url()][..], &["--", PROGRAM, "stdio", "--store", "memory:"]] {
            let (out, err, code) = run(&[&["ping"], &choice[..], target].concat(), "");
            assert!(code == 0 && out.contains(&format!("MCP {revision}")), "{out}{err}");
        }
        let list = ["sessions", "--url", server.url(), "list"];
        let (_, err, code) = run(&[&list, &choice[..]].concat(), "");
        assert_eq!(code, 0, "{err}");
    }
    let (_, err, code) = run(&["ping", server.url(), "--protocol-version", "2099-01-01"], "");
    assert_eq!(code, 2, "{err}");
    assert!(revisions.iter().all(|revision| err.contains(revision)), "{err}");
    let script = Script::new("", "");
    let path = script.path().display().to_string();
    for revision in ["2024-11-05", "2026-07-28"] {
        let words = ["ping", "--protocol-version", revision, "--", "sh", &path];
        let (_, err, code) = run(&words, "");
        assert!(code == 4 && err.contains(&format!("only revision {revision}")), "{code}: {err}");
    }
}

/// PAT-009: a server of the newest revision that sends requests of its own, which that revision
/// does not have, works with an older revision.
#[test]
fn a_tool_that_asks_by_request_is_usable() {
    let (received, answered) = channel();
    let answered = Mutex::new(answered);
    let address = http(move |mut asked: ScriptedRequest| {
        let message = asked.message.clone();
        let version = &message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"];
        let is_modern = !version.is_null();
        match asked.method() {
            "server/discover" => asked.result(&json!({"supportedVersions": ["2026-07-28"],
                "capabilities": {"tools": {}}})),
            "initialize" => asked.result(&json!({"protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}}, "serverInfo": {"name": "asks", "version": "1"}})),
            "tools/list" => asked.result(&json!({"tools":
                [{"name": "greet", "inputSchema": {"type": "object"}}]})),
            "tools/call" if is_modern => asked.result(&json!({"isError": true, "content":
                [{"type": "text", "text": "unavailable on 2026-07-28 connections"}]})),
            "tools/call" => {
                asked.begin_events();
                let form = json!({"type": "object", "required": ["name"],
                    "properties": {"name": {"type": "string", "title": "Your name"}}});
                asked
                    .event(&json!({"jsonrpc": "2.0", "id": "form", "method": "elicitation/create",
                    "params": {"message": "Who is there?", "requestedSchema": form}}));
                let answer: Value = answered.lock().unwrap().recv_timeout(LIMIT).unwrap();
                let text = format!("Hello, {}!", answer["content"]["name"].as_str().unwrap());
                asked.result(&json!({"content": [{"type": "text", "text": text}]}));
            }
            _ if message["id"] == "form" => {
                received.send(message["result"].clone()).unwrap();
                asked.content("202 Accepted", "text/plain", "");
            }
            _ if message.get("id").is_some() => asked.error(-32601, "Method not found"),
            _ if asked.line.starts_with("GET") => asked.content("405 No", "text/plain", ""),
            _ => asked.content("202 Accepted", "text/plain", ""),
        }
    });
    let url = format!("http://{address}/mcp");
    let (_, err, code) = run(&["call", &url, "greet"], "Ada\n");
    assert!(code == 1 && err.contains("unavailable"), "{code}: {err}");
    let chosen = ["call", &url, "greet", "--protocol-version", "2025-11-25"];
    let (out, err, code) = run(&chosen, "Ada\n");
    assert_eq!((out.as_str(), code), ("Hello, Ada!\n", 0), "{err}");
    assert!(err.contains("Who is there?"), "{err}");
}

/// PAT-009: the example server asks in every revision with forms, by a request or a round.
#[test]
fn our_server_asks_in_the_revision_that_is_chosen() {
    let folder = tempfile::tempdir().unwrap();
    let workflow = "id: one-step\nname: One\ndescription: One step\nversion: 1.0.0\nsteps:\n\
        - {id: one, title: One, prompt: Do it, requireConfirmation: true}\n";
    std::fs::write(folder.path().join("one.yaml"), workflow).unwrap();
    let server =
        Server::start(&["--store", "memory:", "--workflows", folder.path().to_str().unwrap()]);
    for revision in ["2025-06-18", "2025-11-25", "2026-07-28"] {
        let choice = ["--format", "json", "--protocol-version", revision];
        let start = ["call", server.url(), "workflow_start", "workflowId=one-step"];
        let (out, err, code) = run(&[&start, &choice[..]].concat(), "");
        assert_eq!(code, 0, "{err}");
        let started: Value = serde_json::from_str(&out).unwrap();
        let token = format!("token={}", started["structuredContent"]["token"].as_str().unwrap());
        let go_on = ["call", server.url(), "workflow_continue", &token, "output=done"];
        let (out, err, code) = run(&[&go_on, &choice[..]].concat(), "yes\n");
        assert_eq!(code, 0, "{revision}: {err}");
        assert!(err.contains(" asks: "), "{revision}: {err}");
        let ended: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(ended["structuredContent"]["status"], "complete", "{revision}: {out}");
    }
}
