//! ctrl-c: cancellation on the server, cleanup, and exit codes.

use std::fs::{self, File};
use std::io::Read as _;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use mcp_flow_testkit::scripted::{Script, ScriptedRequest, http};
use mcp_flow_testkit::wait::LIMIT;
use serde_json::{Value, json};

use super::{CTRL_C, StoreFixture, Terminal};

/// ctrl-c cancels a running call, and prints that.
#[test]
fn a_running_call_is_cancelled() {
    let fixture = StoreFixture::new();
    let mut terminal = fixture.call(&["long_operation"]);
    terminal.expect("%");
    terminal.press(CTRL_C);
    terminal.expect("interrupted");
    terminal.ends_with(130);
}

/// MCP-094: over pipes the server receives a cancellation for the request before its input ends.
#[test]
fn cancellation_is_sent_over_pipes() {
    let script = Script::new(SLOW, "");
    let mut terminal = Terminal::start(&["call", "slow", "--", "sh", &path(&script)]);
    terminal.expect("50%");
    terminal.press(CTRL_C);
    terminal.expect("interrupted; pending requests were cancelled");
    terminal.ends_with(130);
    check_cancelled(&script.received());
}

/// A second ctrl-c kills a server that does not exit, with all its processes.
#[test]
fn a_second_ctrl_c_quits_at_once() {
    let script = Script::new(SLOW, "trap '' TERM; while :; do sleep 1; done");
    let mut terminal = Terminal::start(&["call", "slow", "--", "sh", &path(&script)]);
    terminal.expect("50%");
    let life = script.life();
    terminal.press(CTRL_C);
    terminal.expect("waiting for the server to exit");
    terminal.press(CTRL_C);
    terminal.expect("interrupted; did not wait for the server to exit");
    terminal.ends_with(130);
    check_cancelled(&script.received());
    ends(life);
}

/// ctrl-c ends the connection to a silent server, and its process.
#[test]
fn connecting_is_interrupted() {
    let folder = tempfile::tempdir().unwrap();
    let alive = folder.path().join("alive");
    let silent = "mkfifo \"$0\" && exec 3<>\"$0\" && while :; do sleep 1; done";
    let words = ["tools", "--", "sh", "-c", silent, alive.to_str().unwrap()];
    let mut terminal = Terminal::start(&words);
    let begun = Instant::now();
    let life = loop {
        match File::open(&alive) {
            Ok(life) => break life,
            Err(error) => assert!(begun.elapsed() < LIMIT, "the server does not start: {error}"),
        }
        std::thread::yield_now();
    };
    terminal.press(CTRL_C);
    terminal.expect("interrupted");
    terminal.ends_with(130);
    ends(life);
}

/// MCP-094: over HTTP, servers of older revisions receive a cancellation. Under 2026-07-28 closing
/// the stream cancels a request, and no message is sent.
#[test]
fn cancellation_is_sent_over_http() {
    for (path, is_modern) in [("/mcp", true), ("/mcp", false), ("/sse", false)] {
        let (url, news) = slow_server(path, is_modern);
        let mut terminal = Terminal::start(&["call", &url, "slow"]);
        let call = news.recv_timeout(LIMIT).expect("the server is called");
        assert_eq!(call["method"], "tools/call", "{path}");
        terminal.press(CTRL_C);
        terminal.expect("interrupted");
        terminal.ends_with(130);
        if is_modern {
            let received = news.recv_timeout(LIMIT).expect("the connection is closed");
            assert_eq!(received, json!({"closed": call["id"]}));
        }
        // The server had received the messages before the program exited.
        let received: Vec<_> =
            news.try_iter().filter(|received| received.get("method").is_some()).collect();
        let cancelled: Vec<_> =
            received.iter().map(|received| &received["params"]["requestId"]).collect();
        let expected = if is_modern { vec![] } else { vec![&call["id"]] };
        assert_eq!(cancelled, expected, "{path}: {received:?}");
    }
}

/// PAT-023: interrupted downloads leave no file in the folder.
#[test]
fn no_partial_file_is_left_behind() {
    let (received, news) = channel();
    let address = http(move |mut asked: ScriptedRequest| {
        if asked.line.starts_with("GET /part-") {
            asked.write("HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nsome");
            received.send(()).unwrap();
            return asked.until_closed();
        }
        let host = asked.host().to_owned();
        answer(&mut asked, true, |asked| {
            let link = |name: &str| {
                json!({"type": "resource_link", "name": name,
                "uri": format!("http://{host}/{name}")})
            };
            asked.result(&json!({"resultType": "complete",
                "content": [link("part-1"), link("part-2"), link("part-3")]}));
        });
    });
    let folder = tempfile::tempdir().unwrap();
    let files = || fs::read_dir(folder.path()).unwrap().count();
    let into = folder.path().to_str().unwrap();
    let url = format!("http://{address}/mcp");
    let mut terminal = Terminal::start(&["call", &url, "slow", "--output", into]);
    for _ in 0..3 {
        news.recv_timeout(LIMIT).expect("all parts are asked for");
    }
    assert_eq!(files(), 3, "all are under way");
    terminal.press(CTRL_C);
    terminal.expect("interrupted");
    terminal.ends_with(130);
    assert_eq!(files(), 0);
}

/// Waits until no process has the file open for writing.
fn ends(mut life: File) {
    let (received, ended) = channel();
    std::thread::spawn(move || received.send(life.read_to_end(&mut Vec::new())));
    ended.recv_timeout(LIMIT).expect("the server is not left running").unwrap();
}

fn check_cancelled(received: &[Value]) {
    let call = received.iter().find(|message| message["method"] == "tools/call").unwrap();
    let last = received.last().unwrap();
    assert_eq!(last["method"], "notifications/cancelled", "{last}");
    assert_eq!(last["params"]["requestId"], call["id"]);
}

fn path(script: &Script) -> String {
    script.path().display().to_string()
}

/// A server with a tool that never returns: its URL, and what it receives about the call.
fn slow_server(path: &str, is_modern: bool) -> (String, Receiver<Value>) {
    let (received, news) = channel();
    // The event stream of HTTP+SSE.
    let events: Mutex<Option<ScriptedRequest>> = Mutex::default();
    let address = http(move |mut asked: ScriptedRequest| {
        if asked.line == "GET /sse" {
            // Locked before the client learns where to send its messages: it may be faster.
            let mut events = events.lock().unwrap();
            asked.begin_events();
            asked.write("event: endpoint\ndata: /messages\n\n");
            *events = Some(asked);
            return;
        }
        if asked.message["method"] == "notifications/cancelled" {
            received.send(asked.message.clone()).unwrap();
        }
        if asked.line == "POST /messages" {
            asked.content("202 Accepted", "text/plain", "");
            let mut events = events.lock().unwrap();
            let stream = events.as_mut().unwrap();
            stream.message = asked.message.clone();
            return answer(stream, false, |stream| received.send(stream.message.clone()).unwrap());
        }
        answer(&mut asked, is_modern, |asked| {
            asked.begin_events();
            received.send(asked.message.clone()).unwrap();
            asked.until_closed();
            received.send(json!({"closed": asked.message["id"]})).unwrap();
        });
    });
    (format!("http://{address}{path}"), news)
}

/// Responds as a server with the tool `slow`.
fn answer(asked: &mut ScriptedRequest, is_modern: bool, call: impl FnOnce(&mut ScriptedRequest)) {
    match asked.method() {
        "server/discover" if is_modern => asked.result(&json!({
            "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}})),
        "initialize" => asked.result(&json!({"protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}}, "serverInfo": {"name": "slow", "version": "1"}})),
        "tools/list" => asked.result(&json!({"tools":
            [{"name": "slow", "inputSchema": {"type": "object"}}]})),
        "tools/call" => call(asked),
        _ if asked.message.get("id").is_some() => asked.error(-32601, "Method not found"),
        _ if asked.line.starts_with("GET") => asked.content("405 No", "text/plain", ""),
        _ => asked.content("202 Accepted", "text/plain", ""),
    }
}

const SLOW: &str = r#"
  *'"tools/list"'*) reply result '{"tools":[{"name":"slow","inputSchema":{"type":"object"}}]}' ;;
  *'"tools/call"'*)
    printf '{"jsonrpc":"2.0","method":"notifications/progress","params":%s}\n' \
      '{"progressToken":'"$id"',"progress":1,"total":2}' ;;
"#;
