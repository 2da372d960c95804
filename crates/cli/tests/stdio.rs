//! `mcp-flow stdio`, the real program, over pipes.

use std::io::{Read, Write};
use std::process::{Command, Output, Stdio};

use mcp_flow::Revision;
use mcp_flow_testkit::process::Program;
use mcp_flow_testkit::wait::{Deadline, end};
use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_mcp-flow");

/// The directory for journals.
const FOLDER: &str = env!("CARGO_TARGET_TMPDIR");

/// MCP-050, MCP-051, MCP-055, MCP-057: a transcript gets one message per line, and nothing else is
/// written to standard output at any log level.
#[test]
fn a_transcript_is_answered_line_by_line() {
    let transcript = "garbage\r\n\r\n\
        {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2024-11-05\"}}\r\n\
        {\"jsonrpc\":\"2.0\",\n\"id\":2,\"method\":\"ping\"}\n\
        {\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"tools/call\",\"params\":{\"name\":\"calculator.divide\",\"arguments\":{\"a\":1,\"b\":0}}}";
    let output = run(&["--log-level", "trace", "stdio"], transcript.as_bytes());
    assert_eq!(output.status.code(), Some(0));
    assert!(!output.stderr.is_empty());
    let replies = messages(&output.stdout);
    let summary: Vec<_> =
        replies.iter().map(|reply| (reply["id"].clone(), reply["error"]["code"].clone())).collect();
    assert_eq!(
        summary,
        [
            (json!(null), json!(-32700)),
            (json!(1), json!(null)),
            (json!(null), json!(-32700)),
            (json!(null), json!(-32700)),
            (json!(3), json!(null)),
        ]
    );
    assert_eq!(replies[4]["result"]["isError"], true);
    assert!(replies[4]["result"]["errorMessage"].as_str().unwrap().contains("zero"));
}

/// MCP-053: messages may be split anywhere.
#[tokio::test]
async fn messages_may_arrive_byte_by_byte() {
    let mut child = Command::new(PROGRAM)
        .current_dir(FOLDER)
        .arg("stdio")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    for byte in b"{\"jsonrpc\":\"2.0\",\"id\":\"\xc3\xa9\",\"method\":\"ping\"}\n" {
        stdin.write_all(&[*byte]).unwrap();
        stdin.flush().unwrap();
    }
    drop(stdin);
    let output = end(child);
    assert_eq!(messages(&output.stdout), [json!({"jsonrpc": "2.0", "id": "é", "result": {}})]);
}

/// MCP-050: a regular file and a Unix socket work as standard input as well as a pipe.
#[test]
fn standard_input_may_be_a_file_or_a_socket() {
    let ping = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n";
    let path = std::env::temp_dir().join(format!("mcp-flow-input-{}", std::process::id()));
    std::fs::write(&path, ping).unwrap();
    let file = std::fs::File::open(&path).unwrap();
    let mut command = Command::new(PROGRAM);
    command.current_dir(FOLDER).arg("stdio").stdin(file).stdout(Stdio::piped());
    let output = end(command.spawn().unwrap());
    std::fs::remove_file(&path).unwrap();
    assert_eq!(messages(&output.stdout).len(), 1);

    let (mut ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let output = theirs.try_clone().unwrap();
    let mut child = Command::new(PROGRAM)
        .current_dir(FOLDER)
        .arg("stdio")
        .stdin(std::os::fd::OwnedFd::from(theirs))
        .stdout(std::os::fd::OwnedFd::from(output))
        .spawn()
        .unwrap();
    let _deadline = Deadline::of(&child);
    ours.write_all(ping.as_bytes()).unwrap();
    ours.shutdown(std::net::Shutdown::Write).unwrap();
    let mut replies = Vec::new();
    ours.read_to_end(&mut replies).unwrap();
    assert_eq!(messages(&replies).len(), 1);
    assert!(child.wait().unwrap().success());
}

/// C-20, PAT-008, MCP-054: exit codes by the way the client ends the session.
#[test]
fn exit_codes_follow_the_shutdown_sequence() {
    let open = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-11-25\"}}\n";
    let sleep = "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\",\"params\":{\"name\":\"sleep\",\"arguments\":{\"ms\":100}}}\n";
    let shutdown = "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"shutdown\"}\n";
    let exit = "{\"jsonrpc\":\"2.0\",\"method\":\"exit\"}\n";
    let leave = "{\"jsonrpc\":\"2.0\",\"method\":\"$/shutdown\"}\n";
    for (lines, code, ids) in [
        (vec![], 0, vec![]),
        (vec![open, sleep], 0, vec![1, 2]),
        (vec![open, sleep, shutdown], 0, vec![1, 2, 3]),
        (vec![open, sleep, exit], 1, vec![1]),
        (vec![open, sleep, shutdown, exit], 0, vec![1]),
        (vec![open, shutdown, exit], 0, vec![1, 3]),
        (vec![open, leave, exit], 0, vec![1]),
        (vec![exit], 1, vec![]),
    ] {
        let output = run(&["stdio", "--diagnostics"], lines.concat().as_bytes());
        let answered: Vec<_> =
            messages(&output.stdout).iter().filter_map(|reply| reply["id"].as_i64()).collect();
        assert_eq!((output.status.code(), answered), (Some(code), ids), "{lines:?}");
    }
}

/// MCP-054: on SIGTERM the program answers running calls and exits with 0.
#[tokio::test]
async fn a_termination_signal_drains() {
    let (mut program, mut peer) = Program::start(PROGRAM, &["stdio", "--diagnostics"]);
    peer.initialize(Revision::V2025_11_25).await;
    let slow = peer.ask("tools/call", json!({"name": "sleep", "arguments": {"ms": 300}}));
    peer.call("ping", json!({})).await;
    let id = program.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    assert_eq!(peer.reply_to(slow).await["result"]["isError"], false);
    assert_eq!(program.wait().await.code(), Some(0));
}

/// A client that closes its end is detected and reported by the exit code.
#[test]
fn a_client_that_stops_reading_ends_the_program() {
    let mut child = Command::new(PROGRAM)
        .current_dir(FOLDER)
        .arg("stdio")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n").unwrap();
    let output = end(child);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("lost the connection to the client"));
}

/// A line above the limit is answered with the limit, at once and without an id, and the next line
/// works.
#[tokio::test]
async fn an_oversized_line_is_answered_with_the_limit() {
    let (_program, mut peer) = Program::start(PROGRAM, &["stdio"]);
    peer.send_frame(vec![b'x'; 17 * 1024 * 1024]);
    let reply = peer.next().await;
    assert_eq!(
        (&reply["id"], &reply["error"]["data"]["limit"]),
        (&json!(null), &json!(16_777_216))
    );
    assert!(reply["error"]["message"].as_str().unwrap().contains("16777216"));
    assert_eq!(peer.call("ping", json!({})).await["result"], json!({}));
}

/// C-04, C-17, C-37: the workflowlookup profile accepts one version only and answers in order.
#[tokio::test]
async fn the_workflowlookup_profile_is_strict() {
    let arguments = ["stdio", "--profile", "workflowlookup", "--diagnostics"];
    let (_program, mut peer) = Program::start(PROGRAM, &arguments);
    for (params, code) in [
        (json!({"protocolVersion": "2024-10-01", "capabilities": {}}), -32000),
        (json!({"protocolVersion": "1.0.0", "capabilities": {}}), -32000),
        (json!({"protocolVersion": ["2024-11-05"], "capabilities": {}}), -32602),
        (json!({"protocolVersion": "2024-11-05"}), -32602),
    ] {
        let error = peer.call("initialize", params.clone()).await["error"].clone();
        assert_eq!(error["code"], code, "{params}");
        if code == -32000 {
            assert_eq!(error["message"], "Unsupported protocol version");
            assert_eq!(error["data"]["supportedVersions"], json!(["2024-11-05"]));
            assert_eq!(error["data"]["requestedVersion"], params["protocolVersion"]);
        }
    }
    let params = json!({"protocolVersion": "2024-11-05", "capabilities": {}});
    peer.call("initialize", params).await;
    let slow = peer.ask("tools/call", json!({"name": "sleep", "arguments": {"ms": 100}}));
    let quick = peer.ask("tools/call", json!({"name": "echo", "arguments": {"text": "x"}}));
    assert_eq!(peer.next().await["id"], slow);
    assert_eq!(peer.next().await["id"], quick);
}

/// MCP-054: usage errors have their own exit code.
#[test]
fn usage_errors_are_explained() {
    for arguments in [
        &["nonsense"][..],
        &["stdio", "--ordered", "--max-concurrency", "2"],
        &["stdio", "--profile", "workflowlookup", "--minimum-version", "2025-06-18"],
        &["stdio", "--max-concurrency", "0"],
        &["stdio", "--minimum-version", "1"],
        &["stdio", "--content", "seed003"],
    ] {
        let output = run(arguments, b"");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty());
    }
}

fn run(arguments: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(PROGRAM)
        .current_dir(FOLDER)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A program that rejects its arguments does not read.
    let _ = child.stdin.take().unwrap().write_all(input);
    end(child)
}

fn messages(stdout: &[u8]) -> Vec<Value> {
    let text = std::str::from_utf8(stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}
