//! Tool files of a running server: changes that clients are told of, calls of gateway tools, and
//! large responses.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use mcp_flow::Revision;
use mcp_flow_testkit::process::Program;
use mcp_flow_testkit::stateless_meta;
use mcp_flow_testkit::usage::Usage;
use mcp_flow_testkit::wait::LIMIT;
use serde_json::{Value, json};

use super::served_process::Served;
use super::{PROGRAM, folder_with};

fn echo(name: &str) -> String {
    format!("tools: [{{name: {name}, description: d, run: {{program: echo, args: [{name}]}}}}]")
}

/// Clients of both eras are told when the tools of a file change.
#[tokio::test]
async fn changes_are_announced() {
    let folder = folder_with(&echo("one"));
    let tools = folder.path().join("tools").display().to_string();
    let words = ["stdio", "--no-examples", "--store", "memory:", "--tools", &tools];
    for revision in [Revision::V2025_11_25, Revision::V2026_07_28] {
        std::fs::write(folder.path().join("tools/tools.yaml"), echo("one")).unwrap();
        let (_program, mut peer) = Program::start(PROGRAM, &words);
        let mut list = json!({});
        if revision.is_stateless() {
            list["_meta"] = stateless_meta();
            let mut listen = json!({"notifications": {"toolsListChanged": true}});
            listen["_meta"] = stateless_meta();
            peer.ask("subscriptions/listen", listen);
            peer.find(|message| message["method"] == "notifications/subscriptions/acknowledged")
                .await;
        } else {
            peer.initialize(revision).await;
        }
        // A broken file announces nothing: its last version is served.
        std::fs::write(folder.path().join("tools/tools.yaml"), "tools: [").unwrap();
        std::fs::write(folder.path().join("tools/two.yaml"), echo("two")).unwrap();
        peer.find(|message| message["method"] == "notifications/tools/list_changed").await;
        let listed = peer.call("tools/list", list).await;
        let names: Vec<_> = listed["result"]["tools"].as_array().unwrap().iter().collect();
        let is = |name: &str| names.iter().any(|tool| tool["name"] == name);
        assert!(is("one") && is("two"), "{listed}");
        std::fs::remove_file(folder.path().join("tools/two.yaml")).unwrap();
        peer.find(|message| message["method"] == "notifications/tools/list_changed").await;
    }
}

/// A flow calls a tool of another server behind the gateway, and shows its failure.
#[tokio::test]
async fn flows_call_tools_of_the_gateway() {
    let folder = folder_with(
        r#"
tools:
- name: relay
  description: Says something elsewhere
  flow:
  - ask: {key: text, message: What?}
  - call: {tool: up.echo, arguments: {text: "<{{text}}>"}, as: said}
  - return: {said: "{{said}}"}
- name: broken
  description: Fails elsewhere
  flow: [{call: {tool: up.fail}}, {return: 1}]
- name: gone
  description: Calls a server that does not run
  flow: [{call: {tool: lost.anything}}, {return: 1}]
"#,
    );
    let words = ["stdio", "--diagnostics", "--no-examples", "--store", "memory:"];
    let servers = json!({"mcpServers": {
        "up": {"command": PROGRAM, "args": words},
        "lost": {"command": "sh", "args": ["-c", "exit 3"]},
    }});
    let file = folder.path().join("servers.json");
    std::fs::write(&file, servers.to_string()).unwrap();
    let (file, tools) = (file.display().to_string(), folder.path().join("tools"));
    let tools = tools.display().to_string();
    let words = ["--no-examples", "--store", "memory:", "--tools", &tools, "--gateway", &file];
    let server = Served::start(&words);
    let call = async |name: &str, arguments: Value| {
        let params = json!({"name": name, "arguments": arguments});
        server.request("tools/call", name, params).await["result"].clone()
    };
    let relayed = call("relay", json!({"text": "hi"})).await;
    assert_eq!(relayed["structuredContent"], json!({"said": "<hi>"}), "{relayed}");
    for (name, expected) in [("broken", "always fails"), ("gone", "lost")] {
        let failed = call(name, json!({})).await;
        assert!(failed["isError"] == true && failed.to_string().contains(expected), "{failed}");
    }
}

/// A response of any size streams to the client: the server never has it in memory.
#[tokio::test]
async fn large_responses_stream_in_constant_memory() {
    let api = serve_zeros(SIZE);
    let folder = folder_with(&format!(
        "tools:\n- name: image\n  description: d\n  http: {{url: 'http://{api}/', allow_private: [127.0.0.1]}}\n  output: {{as: \
         file, name: image.bin}}\n- name: text\n  description: d\n  http: {{url: 'http://{api}/', allow_private: [127.0.0.1]}}\n"
    ));
    let tools = folder.path().join("tools").display().to_string();
    let server = Served::start(&["--no-examples", "--store", "memory:", "--tools", &tools]);
    let before = Usage::of(server.id()).resident;
    let params = |name: &str| json!({"name": name, "arguments": {}});
    // Without `as: file`, a response that is too long is an error and not kept.
    let refused = server.request("tools/call", "text", params("text")).await;
    assert!(refused.to_string().contains("longer than 4194304 bytes"), "{refused}");
    let linked = server.request("tools/call", "image", params("image")).await;
    let uri = linked["result"]["content"][0]["uri"].as_str().unwrap_or_else(|| panic!("{linked}"));
    let path = uri.splitn(4, '/').nth(3).unwrap();
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    write!(stream, "GET /{path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
    let (mut received, mut most) = (0, before);
    let mut buffer = vec![0; 1 << 20];
    loop {
        match stream.read(&mut buffer).unwrap() {
            0 => break,
            length => received += length as u64,
        }
        most = most.max(Usage::of(server.id()).resident);
    }
    // The head, and the framing of a body of unknown length.
    assert!((SIZE..SIZE + SIZE / 50).contains(&received), "{received}");
    assert!(most < before + 32 * 1024, "{before} KiB before, {most} KiB at most");
}

/// More than a connection and the server together may keep.
const SIZE: u64 = 96 << 20;

/// Serves a body of zeros, as fast as it is read.
fn serve_zeros(size: u64) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut head = [0; 4096];
                let _ = stream.read(&mut head);
                let block = vec![0; 1 << 20];
                let head = format!("HTTP/1.1 200 X\r\ncontent-length: {size}\r\n\r\n");
                let mut sent = stream.write_all(head.as_bytes());
                for _ in 0..size / block.len() as u64 {
                    sent = sent.and_then(|()| stream.write_all(&block));
                }
            });
        }
    });
    address
}
