//! Mistyped names and incomplete addresses: the program finds or suggests what was meant.

use std::net::SocketAddr;
use std::process::Command;
use std::sync::{Mutex, mpsc};

use mcp_flow_testkit::scripted::{self, ScriptedRequest};
use mcp_flow_testkit::wait::output;
use serde_json::{Value, json};

use super::{PROGRAM, Server, run, run_in};

/// A server finds nothing at a mistyped name, and the error names the one that was meant.
#[test]
fn mistyped_names_are_suggested() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("today.md"), "today").unwrap();
    std::fs::write(
        folder.path().join(".mcp.json"),
        json!({"mcpServers": {"everything": {"command": "x"}}}).to_string(),
    )
    .unwrap();
    let root = folder.path().canonicalize().unwrap();
    let server = ["--", PROGRAM, "stdio", "--store", "memory:", "--root", root.to_str().unwrap()];
    let today = format!("file://{}/today.md", root.display());
    let mistyped = today.replace("today", "tdoay");
    let named = format!("Did you mean {today}?");
    let served = |words: &[&'static str]| [words, &["http://127.0.0.1:1/mcp"]].concat();
    for (words, code, said) in [
        ([&["call", "calculater.add"], &server[..]].concat(), 2, "Did you mean calculator.add?"),
        ([&["prompt", "anlayze_data"], &server[..]].concat(), 2, "Did you mean analyze_data?"),
        ([&["prompt", "weather"], &server[..]].concat(), 2, "mcp-flow prompts TARGET"),
        ([&["read", mistyped.as_str()], &server[..]].concat(), 4, named.as_str()),
        ([&["watch", mistyped.as_str()], &server[..]].concat(), 4, named.as_str()),
        (vec!["tools", "evrything"], 2, "Did you mean everything?"),
        (vec!["tools", "localhost:4433"], 2, "Did you mean http://localhost:4433?"),
        (vec!["tools", "far"], 2, "An address starts with http://"),
        (served(&["tols"]), 2, "'tools'"),
        (served(&["tools", "--formt", "json"]), 2, "'--format'"),
        (vec!["--lsten", "127.0.0.1:0"], 2, "'--listen'"),
        (vec!["--nonsense"], 2, "unexpected argument '--nonsense'"),
        (vec!["nwe"], 2, "'new'"),
        (vec!["--log-level", "info", "nw"], 2, "'new'"),
        (vec!["tool", "nwe"], 2, "'new'"),
        (vec!["weather"], 2, "unrecognized subcommand 'weather'"),
    ] {
        let (out, err, ended) = run_in(folder.path(), &words, "");
        assert_eq!((out.as_str(), ended), ("", code), "{words:?}: {err}");
        assert!(err.contains(said), "{words:?}: {err}");
    }
}

/// Without a command, the configuration file that the environment names is read as `serve` reads it.
#[test]
fn the_default_command_reads_the_environment() {
    for words in [&[][..], &["--log-level", "off"], &["serve"]] {
        let mut command = Command::new(PROGRAM);
        let ended = output(command.args(words).env("MCP_FLOW_CONFIG", "/nonexistent/flow.toml"));
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(1), "{words:?}: {said}");
        assert!(said.contains("/nonexistent/flow.toml"), "{words:?}: {said}");
    }
}

/// The address of our own server needs no path.
#[test]
fn an_address_without_a_path_finds_the_server() {
    let server = Server::start(&[]);
    let root = server.endpoints["http"].as_str().unwrap();
    for address in [root, root.trim_end_matches('/')] {
        let (out, err, code) = run(&["call", address, "calculator.add", "a=2", "b=3"], "");
        assert_eq!((out.trim(), code), ("5", 0), "{err}");
    }
}

/// A server of others may have its endpoint at `/mcp`, `/` or `/sse`.
#[test]
fn the_usual_endpoints_of_other_servers_are_tried() {
    for (line, not_found) in [
        ("POST /mcp", "application/json"),
        ("POST /", "text/html"),
        ("POST /", "application/json"),
        ("GET /sse", "text/plain"),
        ("GET /sse", "application/json"),
    ] {
        let address = foreign_server(line, not_found);
        let (out, err, code) = run(&["tools", &format!("http://{address}"), "--format=plain"], "");
        assert_eq!((out.split('\t').next(), code), (line.split(' ').nth(1), 0), "{line}: {err}");
    }
    let address = scripted::http(|mut request| request.content("404 Not Found", "text/html", "?"));
    let (out, err, code) = run(&["tools", &format!("http://{address}")], "");
    assert_eq!((out.as_str(), code), ("", 4), "{err}");
    assert!(err.contains("no MCP endpoint at /mcp, / or /sse"), "{err}");
    // A path that was typed is the only one that is tried.
    let address = foreign_server("POST /mcp", "text/html");
    let (_, err, code) = run(&["tools", &format!("http://{address}/api")], "");
    assert_eq!(code, 4, "{err}");
    assert!(err.contains("Check the path"), "{err}");
}

/// Starts a server with one endpoint, which has a tool of its name.
fn foreign_server(endpoint: &'static str, not_found: &'static str) -> SocketAddr {
    let events: Mutex<Option<mpsc::Sender<Value>>> = Mutex::default();
    let path = endpoint.split_once(' ').unwrap().1;
    scripted::http(move |mut request| match request.line.as_str() {
        line if line == endpoint && line.starts_with("GET") => {
            let (sender, replies) = mpsc::channel();
            *events.lock().unwrap() = Some(sender);
            request.begin_events();
            request.write("event: endpoint\ndata: /messages\n\n");
            // Ends with the client, which closes the stream that its replies are sent to.
            while let Ok(reply) = replies.recv() {
                request.event(&reply);
            }
        }
        "POST /messages" => {
            let reply = reply(&request, path);
            let reply = reply.map(
                |result| json!({"jsonrpc": "2.0", "id": request.message["id"], "result": result}),
            );
            let sent =
                events.lock().unwrap().as_ref().map(|events| reply.map(|it| events.send(it)));
            assert!(sent.is_some(), "a message without a stream");
            request.content("202 Accepted", "text/plain", "");
        }
        line if line == endpoint => match reply(&request, path) {
            Some(result) => request.result(&result),
            None => request.content("202 Accepted", "text/plain", ""),
        },
        _ => {
            let body = json!({"detail": "Not Found"}).to_string();
            request.content("404 Not Found", not_found, &body);
        }
    })
}

fn reply(request: &ScriptedRequest, tool: &str) -> Option<Value> {
    request.message.get("id")?;
    Some(match request.method() {
        "initialize" => json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
            "serverInfo": {"name": "foreign", "version": "1"}}),
        "tools/list" => json!({"tools": [{"name": tool, "inputSchema": {"type": "object"}}]}),
        _ => json!({}),
    })
}
