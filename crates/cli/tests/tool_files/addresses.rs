//! Names that resolve to private and link-local addresses.
//!
//! The server runs in a mount namespace of its own, with a file of hosts that the test writes: so names
//! resolve by the resolver of the system, and may change between two calls.

use std::path::{Path, PathBuf};

use mcp_flow_testkit::process::Program;
use mcp_flow_testkit::{scripted, stateless_meta};
use serde_json::{Value, json};

use super::PROGRAM;

/// Returns the words that run a program with another file of hosts.
fn with_hosts(hosts: &Path, words: &[&str]) -> Vec<String> {
    let script = "mount --bind \"$1\" /etc/hosts && shift && exec \"$@\"";
    let hosts = hosts.display().to_string();
    let unshare = ["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh", &hosts];
    unshare.into_iter().chain([PROGRAM]).chain(words.iter().copied()).map(str::to_owned).collect()
}

fn write_hosts(hosts: &PathBuf, lines: &[&str]) {
    // Not replaced: the namespace has this very file.
    std::fs::write(hosts, lines.join("\n") + "\n").unwrap();
}

#[tokio::test]
async fn names_of_private_addresses_are_refused_at_every_request() {
    let requests = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = requests.clone();
    let api = scripted::http(move |mut request| {
        counted.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        let host = request.host().to_owned();
        match request.line.as_str() {
            // To the same origin, whose name resolves to something else meanwhile.
            "GET /moved" => request.write("HTTP/1.1 302 X\r\nlocation: /end\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"),
            _ => request.content("200 OK", "application/json", &json!({"host": host}).to_string()),
        }
    });
    let port = api.port();
    let folder = tempfile::tempdir().unwrap();
    let tools = folder.path().join("tools");
    std::fs::create_dir(&tools).unwrap();
    let tool = |name: &str, url: &str, allowed: Value| {
        json!({"name": name, "description": "d",
            "http": {"url": url, "retries": 0, "timeout": "10s", "allow_private": allowed}})
    };
    let names = ["metadata", "link", "private", "here", "mapped", "unique", "shared", "any"];
    let mut declared: Vec<Value> = names
        .iter()
        .map(|name| tool(name, &format!("http://{name}.example:{port}/"), json!([])))
        .collect();
    // A name that is listed may be private, but never link-local, where clouds serve credentials.
    declared.push(tool("listed", &format!("http://here.example:{port}/"), json!(["here.example"])));
    let metadata = json!(["metadata.example", "169.254.169.254"]);
    declared.push(tool("listed.link", &format!("http://metadata.example:{port}/"), metadata));
    let moving = |path: &str| format!("http://moving.example:{port}/{path}");
    declared.push(tool("moving", &moving("end"), json!(["127.0.0.1"])));
    declared.push(tool("moved", &moving("moved"), json!(["127.0.0.1"])));
    std::fs::write(tools.join("t.json"), json!({"tools": declared}).to_string()).unwrap();
    let hosts = folder.path().join("hosts");
    let known = [
        "169.254.169.254 metadata.example",
        "fe80::1 link.example",
        "10.1.2.3 private.example",
        "127.0.0.1 here.example",
        "::ffff:127.0.0.1 mapped.example",
        "fd00::1 unique.example",
        "100.64.0.1 shared.example",
        "0.0.0.0 any.example",
    ];
    write_hosts(&hosts, &[&known[..], &["127.0.0.1 moving.example"]].concat());
    let tools = tools.display().to_string();
    let words = ["stdio", "--no-examples", "--store", "memory:", "--tools", &tools];
    let words = with_hosts(&hosts, &words);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (_program, mut peer) = Program::start("unshare", &words);
    let mut call = async |name: &str| {
        let params = json!({"name": name, "arguments": {}, "_meta": stateless_meta()});
        peer.call("tools/call", params).await["result"].clone()
    };
    for name in names.iter().copied().chain(["listed.link"]) {
        let refused = call(name).await;
        let text = refused["content"][0]["text"].as_str().unwrap_or_default();
        assert!(refused["isError"] == true && text.contains("not allowed"), "{name}: {refused}");
    }
    assert_eq!(requests.load(std::sync::atomic::Ordering::SeqCst), 0);
    let host = json!({"host": format!("here.example:{port}")});
    assert_eq!(call("listed").await["structuredContent"], host);
    // The address is what counts, each time anew.
    assert_ne!(call("moving").await["isError"], true);
    assert_ne!(call("moved").await["isError"], true);
    write_hosts(&hosts, &["169.254.169.254 moving.example"]);
    for name in ["moving", "moved"] {
        let refused = call(name).await;
        assert!(refused.to_string().contains("not allowed"), "{name}: {refused}");
    }
}
