//! Observability of the real program: call log, `/metrics` and `/readyz`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use mcp_flow_testkit::wait::{Deadline, end, output};
use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_mcp-flow");

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

/// MCP-076, MCP-077: each call is a line with request, connection, principal, method, tool,
/// duration, outcome and trace, in text and in JSON, without user data.
#[test]
fn each_call_is_a_line_without_user_data() {
    for format in ["json", "text"] {
        let mut program = Command::new(PROGRAM)
            .args(["stdio", "--store=memory:", "--log-level=info", "--log-format", format])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let traced = json!({"traceparent": format!("00-{TRACE}-00f067aa0ba902b7-01")});
        let calls = [
            json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
                "protocolVersion": "2025-11-25", "capabilities": {}}}),
            json!({"jsonrpc": "2.0", "id": "two", "method": "tools/call", "params": {
                "name": "calculator.add", "arguments": {"a": 47_110_815, "b": 1}, "_meta": traced}}),
            json!({"jsonrpc": "2.0", "id": 3, "method": "s3cret/method"}),
            json!({"jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": {
                "name": "s3cret\u{1b}[2J"}}),
        ];
        let mut input = program.stdin.take().unwrap();
        calls.iter().for_each(|call| writeln!(input, "{call}").unwrap());
        drop(input);
        let output = end(program);
        let log = String::from_utf8(output.stderr).unwrap();
        assert!(!log.contains("s3cret") && !log.contains("47110815"), "{log}");
        let lines: Vec<&str> = log.lines().filter(|line| line.contains("mcp_flow::call")).collect();
        assert_eq!(lines.len(), calls.len(), "{log}");
        assert!(lines[1].contains(TRACE) && !lines[0].contains("trace="), "{log}");
        if format == "text" {
            assert!(lines[1].contains("outcome=\"ok\""), "{log}");
            continue;
        }
        let lines: Vec<Value> =
            lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
        let received = |name: &str| lines.iter().map(|line| line[name].clone()).collect::<Vec<_>>();
        assert_eq!(received("request"), ["1", "\"two\"", "3", "4"]);
        assert_eq!(received("method"), ["initialize", "tools/call", "other", "tools/call"]);
        assert_eq!(received("outcome"), ["ok", "ok", "METHOD_NOT_FOUND", "UNKNOWN_TOOL"]);
        assert_eq!(received("tool")[1], "calculator.add");
        assert!(lines.iter().all(|line| line["principal"] == "local"));
        assert!([0, 2, 3].iter().all(|index| received("tool")[*index].is_null()), "{log}");
        assert_eq!(received("trace")[1], TRACE);
        assert!(lines.iter().all(|line| line["ms"].is_f64() && line["connection"].is_u64()));
        assert!(lines.iter().all(|line| line["level"] == "INFO" && line["transport"] == "stdio"));
    }
}

/// MCP-076: at level `trace` every message is a line, bounded and without secrets; in client
/// commands as well.
#[test]
fn messages_are_logged_at_trace_without_secrets() {
    let mut program = Command::new(PROGRAM)
        .args(["stdio", "--store=memory:", "--diagnostics", "--log-level=trace"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let long = "x".repeat(100_000);
    let mut input = program.stdin.take().unwrap();
    for message in [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}}}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {
            "name": "echo", "arguments": {"text": "hello"}, "_meta": {"api_key": "hunter2"}}}),
        json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {
            "name": "echo", "arguments": {"text": long}}}),
    ] {
        writeln!(input, "{message}").unwrap();
    }
    drop(input);
    let log = String::from_utf8(end(program).stderr).unwrap();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("mcp_flow::message")).collect();
    let count = |what: &str| lines.iter().filter(|line| line.contains(what)).count();
    assert_eq!((count("received {"), count("sent {")), (4, 3), "{lines:#?}");
    assert_eq!((count("notifications/initialized"), count("\"hello\"")), (1, 2), "{lines:#?}");
    assert!(!log.contains("hunter2") && count("\"api_key\":\"[masked]\"") == 1, "{lines:#?}");
    assert!(lines.iter().all(|line| line.len() < 5000));

    let mut call = Command::new(PROGRAM);
    call.args(["--log-level=trace", "call", "echo", "text=hello", "--", PROGRAM, "stdio"]);
    let log = output(call.args(["--store=memory:", "--diagnostics"])).stderr;
    let log = String::from_utf8(log).unwrap();
    assert!(log.contains("sent {") && log.contains("received {"), "{log}");
}

/// MCP-075, WT-021: a server with a store is ready, and counts requests and the datagrams of all
/// sessions.
#[test]
fn a_server_is_ready_and_counts() {
    let folder = tempfile::tempdir().unwrap();
    let mut program = Command::new(PROGRAM)
        .current_dir(folder.path())
        .args(["serve", "--json", "--listen", "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let _deadline = Deadline::of(&program);
    let mut line = String::new();
    BufReader::new(program.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let ready: Value = serde_json::from_str(&line).unwrap();
    let host = ready["http"].as_str().unwrap().trim_start_matches("http://").trim_end_matches('/');
    let ask = |request: &str, body: &str| {
        let mut stream = TcpStream::connect(host).unwrap();
        write!(
            stream,
            "{request} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Type: \
             application/json\r\nAccept: application/json, text/event-stream\r\nContent-Length: \
             {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}});
    assert!(ask("POST /mcp", &hello.to_string()).starts_with("HTTP/1.1 200"));
    for place in ["/readyz", "/healthz"] {
        assert!(ask(&format!("GET {place}"), "").starts_with("HTTP/1.1 200"), "{place}");
    }
    let figures = ask("GET /metrics", "");
    let counted = "mcp_flow_calls_total{method=\"initialize\",outcome=\"ok\"} 1";
    assert!(figures.contains(counted), "{figures}");
    assert!(figures.contains("mcp_flow_connections_opened_total{transport="), "{figures}");
    assert!(
        figures.contains("mcp_flow_datagrams_dropped_total{direction=\"received\"} 0"),
        "{figures}"
    );
    let id = program.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    assert_eq!(program.wait().unwrap().code(), Some(0));
}
