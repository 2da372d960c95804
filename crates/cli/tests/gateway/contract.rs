//! The gateway from outside: endpoints, names, errors, invalid files, administration and metrics.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use mcp_flow::client::{Client, HttpOptions};
use mcp_flow_testkit::http::Request;
use mcp_flow_testkit::wait::{Deadline, output};
use serde_json::{Value, json};

use super::{PROGRAM, earlier_upstream, servers};

/// `mcp-flow serve` on a free port, killed on drop.
pub(crate) struct Server {
    child: Child,
    endpoints: Value,
    _deadline: Deadline,
}

impl Server {
    pub(crate) fn start(options: &[&str]) -> Self {
        let mut child = Command::new(PROGRAM)
            .args(["serve", "--listen", "127.0.0.1:0", "--json", "--no-examples"])
            .args(options)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let _deadline = Deadline::of(&child);
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { child, endpoints: serde_json::from_str(&line).unwrap(), _deadline }
    }

    pub(crate) fn url(&self) -> &str {
        self.endpoints["mcp"].as_str().unwrap()
    }

    pub(crate) async fn client(&self) -> Caller {
        let connector = mcp_flow::client::connector(self.url(), &HttpOptions::new()).unwrap();
        Caller(Client::builder().prepare(connector))
    }

    pub(crate) fn process_id(&self) -> String {
        self.child.id().to_string()
    }

    async fn get(&self, path: &str) -> (u16, String) {
        let address = self.endpoints["http"].as_str().unwrap();
        let address = address.trim_start_matches("http://").trim_end_matches('/');
        let mut response = Request::get(path).send(address.parse().unwrap()).await;
        (response.status, response.text().await)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A client of the gateway.
pub(crate) struct Caller(Client);

impl Caller {
    /// Names of the tools of upstreams.
    pub(crate) async fn tools(&mut self) -> Vec<String> {
        let listed = self.0.tools().all().await.unwrap().into_iter().map(|tool| tool.name);
        listed.filter(|name| name.contains('.')).collect()
    }

    /// Calls a tool, and returns its `result` or its `error`.
    pub(crate) async fn call(&mut self, name: &str, arguments: Value) -> Value {
        match self.0.call_tool(name, arguments).raw().await {
            Ok(result) => json!({"result": result}),
            Err(error) => {
                let error = error.server().unwrap_or_else(|| panic!("{error}"));
                json!({"error": {"code": error.code, "data": error.data}})
            }
        }
    }
}

/// The servers of a host's file are served, and errors name the server.
#[tokio::test]
async fn a_hosts_file_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("servers.json");
    let everything = json!({"command": PROGRAM, "type": "stdio", "args":
        ["stdio", "--diagnostics", "--no-examples", "--store", "memory:"]});
    let all = json!({"mcpServers": {
        "everything": everything,
        "lost": {"command": "sh", "args": ["-c", "exit 3"]},
    }});
    std::fs::write(&file, all.to_string()).unwrap();
    let file = file.display().to_string();
    let server = Server::start(&["--gateway", &file, "--store", "memory:"]);
    let mut client = server.client().await;
    let tools = client.tools().await;
    assert!(tools.contains(&"everything.echo".to_owned()), "{tools:?}");
    for name in ["everything.echo", "echo"] {
        let echoed = client.call(name, json!({"text": "hi"})).await;
        assert_eq!(echoed["result"]["content"][0]["text"], "hi", "{echoed}");
    }
    let failed = client.call("everything.echo", json!({"text": 7})).await;
    let has_failed = failed["result"]["isError"] == true || failed["error"].is_object();
    assert!(has_failed, "{failed}");
    // A server that does not start does not make this one unready, and operators see it.
    assert_eq!(server.get("/readyz").await.0, 200);
    let (_, metrics) = server.get("/metrics").await;
    assert!(metrics.contains("mcp_flow_upstream_calls_total{server=\"everything\"}"), "{metrics}");
    assert!(metrics.contains("mcp_flow_upstream_up{server=\"lost\"} 0"), "{metrics}");
    let upstreams: Value = client.0.request("admin/upstreams", json!({})).await.unwrap();
    assert_eq!(upstreams["upstreams"][0]["state"], "running", "{upstreams}");
    assert_ne!(upstreams["upstreams"][1]["lastError"], Value::Null, "{upstreams}");
}

/// All problems of a file are reported, with their lines.
#[test]
fn an_invalid_file_is_rejected_with_all_problems() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("servers.json");
    let text = r#"{"mcpServers": {
"a": {},
"b": {"command": 7},
"..": {"url": "http://h"},
"d": {"url": "http://h", "headers": {"a b": "x", "c": "y\n"}},
"e": {"command": "true", "auth": "shared"},
"f": {"url": "http://"},
"g h": {"command": "true"},
"g_h": {"command": "true"},
"i": {"command": ""},
"k": {"command": "true", "instances": 0},
"j": {"command": "true", "rename": {"a": "x", "b": "x", "c": "x y"}}
}}"#;
    std::fs::write(&file, text).unwrap();
    let file = file.display().to_string();
    for command in ["serve", "stdio"] {
        let ended = output(Command::new(PROGRAM).args([command, "--gateway", &file]));
        let said = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(2), "{said}");
        let lines: Vec<_> = said.lines().collect();
        let found = [2, 3, 4, 5, 5, 6, 7, 9, 10, 11, 12, 12].iter().zip(&lines);
        let is_there = |(line, said): (&i32, &&str)| said.contains(&format!(": line {line}, "));
        assert!(lines.len() == 12 && found.clone().all(is_there), "{said}");
    }
}

/// All problems of an entry have lines of their own, also those of another kind than the first, and
/// those of a server that is in the configuration as well.
#[test]
fn problems_of_all_kinds_are_reported_together() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("servers.json");
    let text = r#"// mine
{"mcpServers": {
"a": {"command": "true",
"env": {"A": "${NONE_1}",
"B": "${NONE_2}"},
"instances": 0,
"rename": {"x": "a b"},
"revision": "2020-01-01"},
"b": {"command": 7,
"env": {"A": "${NONE_1}"},
"instances": 0}
}}"#;
    std::fs::write(&file, text).unwrap();
    let file = file.display().to_string();
    let ended = output(Command::new(PROGRAM).args(["stdio", "--gateway", &file]));
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(2), "{said}");
    let lines: Vec<_> = said.lines().collect();
    let found = [4, 5, 6, 7, 8, 9, 10, 11].iter().zip(&lines);
    let is_there = |(line, said): (&i32, &&str)| said.contains(&format!(": line {line}, "));
    assert!(lines.len() == 8 && found.clone().all(is_there), "{said}");

    std::fs::write(
        &file,
        "{\"mcpServers\": {\n\"a\": {\"command\": \"true\", \"aprove\": [\"*\"]}}}",
    )
    .unwrap();
    let configuration = folder.path().join("config.toml");
    std::fs::write(&configuration, "[servers.a]\ngateway = true\ncommand = \"true\"\n").unwrap();
    let configuration = configuration.display().to_string();
    let options = ["stdio", "--gateway", &file, "--config", &configuration];
    let ended = output(Command::new(PROGRAM).args(options));
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(2), "{said}");
    assert!(
        said.contains("[servers.a]: ") && said.contains(&format!("{file}: line 2, ")),
        "{said}"
    );
    // A misspelt key may be one of a host, so it is only reported.
    assert!(said.contains("did you mean `approve`?"), "{said}");
}

/// A call that needs approval waits until a person answers on the command line.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_approved_on_the_command_line() {
    let folder = tempfile::tempdir().unwrap();
    let mut upstream = earlier_upstream(folder.path());
    upstream["approve"] = json!(["*"]);
    let file = servers(folder.path(), &upstream).display().to_string();
    let server = Server::start(&["--gateway", &file, "--store", "memory:"]);
    let sessions = |arguments: &[&str]| {
        let options = ["--url", server.url(), "--format", "json"];
        let printed = output(Command::new(PROGRAM).arg("sessions").args(arguments).args(options));
        serde_json::from_slice::<Value>(&printed.stdout).unwrap_or_default()
    };
    for (answer, expected) in [("true", "NOT_ANSWERED"), ("false", "NOT_APPROVED")] {
        let mut client = server.client().await;
        let call = tokio::spawn(async move { client.call("up.greet", json!({})).await });
        let id = loop {
            let listed = tokio::task::block_in_place(|| sessions(&["list"]));
            let waiting = listed["sessions"].as_array().into_iter().flatten();
            let mut waiting = waiting.filter(|session| session["state"] == "waiting_user");
            if let Some(session) = waiting.next() {
                break session["sessionId"].as_str().unwrap().to_owned();
            }
        };
        tokio::task::block_in_place(|| sessions(&["answer", &id, answer]));
        let outcome = call.await.unwrap();
        // The client cannot be asked for a name, so the server's question fails.
        let name = outcome["error"]["data"]["name"].as_str().unwrap_or("NOT_ANSWERED");
        assert_eq!(name, expected, "{outcome}");
        let calls = std::fs::read_to_string(folder.path().join("calls")).unwrap_or_default();
        assert_eq!(calls.lines().count(), 1, "sent once, when it was approved");
    }
}

/// A tool that changed while no gateway ran is not called before somebody has seen the difference.
#[tokio::test(flavor = "multi_thread")]
async fn a_changed_tool_is_approved_on_the_command_line() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("sqlite:{}", folder.path().join("journal.db").display());
    let mut upstream = earlier_upstream(folder.path());
    for about in ["Before", "After"] {
        upstream["env"]["ABOUT"] = about.into();
        let file = servers(folder.path(), &upstream).display().to_string();
        let server = Server::start(&["--gateway", &file, "--store", &store]);
        let mut client = server.client().await;
        if about == "Before" {
            assert_eq!(client.tools().await, ["up.greet"]);
            continue;
        }
        let refused = client.call("up.greet", json!({})).await;
        assert_eq!(refused["error"]["data"]["name"], "QUARANTINED", "{refused}");
        assert!(!folder.path().join("calls").exists());
        let approve = ["pins", "approve", "up.greet", "--url", server.url()];
        let mut command = Command::new(PROGRAM);
        let approved = tokio::task::block_in_place(|| output(command.args(approve)));
        let said = String::from_utf8(approved.stdout).unwrap();
        let (shown, done) =
            (said.find("\"description\": \"After\""), said.find("approved up.greet"));
        assert!(shown.is_some() && shown < done, "{said}");
        let called = client.call("up.greet", json!({})).await;
        assert_ne!(called["error"]["data"]["name"], "QUARANTINED", "{called}");
        assert!(folder.path().join("calls").exists());
    }
}
