//! MCP-032, MCP-034: spawned servers: start, failure, shutdown and restart.

use mcp_flow_client::{Client, ClientEvent, Error, ErrorKind};
use mcp_flow_stdio::client::Program;
use mcp_flow_testkit::wait::within;
use mcp_flow_testkit_fixture::Fixture;
use serde_json::json;

/// This test binary as a server. The client must ignore the lines the test harness prints.
fn ourselves() -> Program {
    Program::new(std::env::current_exe().unwrap())
        .arguments(["--exact", "child::serve_as_a_child", "--nocapture"])
        .environment("SERVE_AS_A_CHILD", "1")
}

#[test]
fn serve_as_a_child() {
    if std::env::var_os("SERVE_AS_A_CHILD").is_some() {
        mcp_flow_stdio::run(&Fixture::new().server).unwrap();
    }
}

#[tokio::test]
async fn a_spawned_server_is_called_and_exits() {
    let client = Client::builder().connect(ourselves()).await.unwrap();
    let sum = client.call_tool("math.add", json!({"a": 2, "b": 3})).await.unwrap();
    assert_eq!(sum.text(), "5");
    client.close().await;
    assert!(matches!(client.ping().await, Err(Error::Closed)));
}

#[tokio::test]
async fn a_spawned_server_that_exits_is_restarted() {
    let client = Client::builder().connect(ourselves()).await.unwrap();
    let mut events = client.events();
    // Ends the process at once (seed 004).
    client.notify("exit", &json!({})).await.unwrap();
    let disconnected = async {
        loop {
            let event = futures_util::StreamExt::next(&mut events).await;
            if let ClientEvent::Disconnected { reason } = event.expect("the client goes on") {
                return reason;
            }
        }
    };
    let reason = within("the end of the server", disconnected).await;
    assert!(reason.contains("closed the connection"), "{reason}");
    let sum = client.call_tool("math.add", json!({"a": 1, "b": 1})).await.unwrap();
    assert_eq!(sum.text(), "2");
}

#[tokio::test]
async fn start_failures_are_explained() {
    for (program, words) in [
        (Program::new("no-such-program-anywhere"), "cannot be started"),
        (Program::new("sh").arguments(["-c", "echo 'no licence' >&2; exit 3"]), "no licence"),
        (Program::new("sh").arguments(["-c", "exit 3"]), "exit status: 3"),
        (Program::new("true"), "closed the connection"),
    ] {
        let error = Client::builder().connect(program).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Connect, "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }
}

/// A server that ignores the end of its input gets SIGTERM, then SIGKILL.
#[tokio::test]
async fn a_server_that_does_not_exit_is_killed() {
    let script = r#"trap '' TERM
        read line; echo '{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}'
        read line; echo '{"jsonrpc":"2.0","id":2,"result":{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"stubborn","version":"1"}}}'
        echo $$ > "$PID_FILE"; while true; do sleep 1; done"#;
    let file = tempfile::NamedTempFile::new().unwrap();
    let program = Program::new("sh").arguments(["-c", script]).environment("PID_FILE", file.path());
    let client = Client::builder().connect(program).await.unwrap();
    assert_eq!(client.server().await.unwrap().implementation.name, "stubborn");
    let written = async {
        loop {
            let text = std::fs::read_to_string(file.path()).unwrap();
            // Without the newline the number may be incomplete.
            if let Some(pid) = text.strip_suffix('\n') {
                return pid.parse::<u32>().unwrap();
            }
            tokio::task::yield_now().await;
        }
    };
    let pid = within("the server to write its id", written).await;
    client.close().await;
    assert!(!std::path::Path::new(&format!("/proc/{pid}/cmdline")).exists());
}
