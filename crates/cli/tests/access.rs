//! Authentication, permissions and configuration of the real program.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Output, Stdio};

use crate::support::configured_server::{ConfiguredServer, command};
use mcp_flow_testkit::wait::{end, output};
use serde_json::{Value, json};
use tempfile::TempDir;

const ADA: &str = "ada-0123456789abcdef";
const BOB: &str = "bob-0123456789abcdef";

/// INT-115, MCP-091: SIGHUP reloads tokens and permissions without dropping connections that stay
/// valid; an invalid file changes nothing.
#[test]
fn a_reload_changes_tokens_and_permissions() {
    let folder = folder(&[("ada", ADA), ("bob", BOB)], "tools = [\"calculator.*\"]");
    let mut served = ConfiguredServer::start(folder.path(), &[]);
    let mut ada = served.stream(ADA);
    let mut bob = served.stream(BOB);
    let many = served.tools(BOB);
    assert!(many.len() > 1 && many.iter().all(|name| name.starts_with("calculator.")));
    assert_eq!(served.post(None, &list()).0, 401);

    std::fs::write(folder.path().join("flow.toml"), "[serv]").unwrap();
    served.reload("not reloaded");
    assert_eq!(served.tools(BOB), many);

    write(folder.path(), &[("bob", BOB)], "tools = [\"calculator.add\"]");
    served.reload("configuration reloaded");
    assert_eq!(served.tools(BOB), ["calculator.add"]);
    assert_eq!(served.post(Some(ADA), &list()).0, 401);
    let mut rest = String::new();
    ada.0.read_to_string(&mut rest).unwrap();
    let refused = served.post(Some(BOB), &call("calculator.divide")).1;
    let unknown = served.post(Some(BOB), &call("calculator.absent")).1;
    assert_eq!(refused["error"]["data"]["name"], unknown["error"]["data"]["name"]);

    // The stream was open all the time: its session still accepts posts.
    let posted = json!({"jsonrpc": "2.0", "id": 7, "method": "ping"});
    assert_eq!(served.post_to(&bob.1, Some(BOB), &posted).0, 202);
    let mut line = String::new();
    while !line.contains("\"id\":7") {
        line.clear();
        assert!(bob.0.read_line(&mut line).unwrap() > 0, "the stream has ended");
    }
    served.end();
}

/// C-46: public addresses require authentication.
#[test]
fn a_public_address_requires_authentication() {
    let folder = tempfile::tempdir().unwrap();
    let certificate = certificate_for(folder.path());
    let listen = "[serve]\nlisten = \"0.0.0.0:0\"\nwebtransport = false\n";
    let tls = format!("{listen}{certificate}");
    for (text, received) in
        [(listen.to_owned(), "TLS is disabled"), (tls, "authentication is disabled")]
    {
        std::fs::write(folder.path().join("flow.toml"), text).unwrap();
        let output = run(folder.path(), &["serve", "--config", "flow.toml"], &[]);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.contains(received) && output.stdout.is_empty(), "{error}");
    }
}

/// MCP-072: over stdio the environment carries the token; an invalid one is rejected at initialize.
#[test]
fn a_token_in_the_environment_authenticates_stdio() {
    let folder = folder(&[("ada", ADA)], "tools = [\"calculator.add\"]");
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}}});
    let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"});
    for (token, expected) in [(Some(ADA), Some(1)), (None, Some(0)), (Some("wrong"), None)] {
        let mut command = command(folder.path(), &["stdio", "--config", "flow.toml"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        if let Some(token) = token {
            command.env("MCP_FLOW_TOKEN", token);
        }
        let mut program = command.spawn().unwrap();
        write!(program.stdin.take().unwrap(), "{hello}\n{list}\n").unwrap();
        let output = end(program);
        let lines = String::from_utf8(output.stdout).unwrap();
        let replies: Vec<Value> =
            lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        match expected {
            Some(tools) => {
                assert_eq!(replies[1]["result"]["tools"].as_array().unwrap().len(), tools);
            }
            None => assert_eq!(replies[0]["error"]["data"]["name"], "ACCESS_DENIED", "{lines}"),
        }
    }
}

/// `config check`, `config show` and `token create` work on a file before a server reads it.
#[test]
fn files_are_checked_and_shown() {
    let folder = folder(&[("ada", ADA)], "tools = [\"*\"]");
    let good = run(folder.path(), &["config", "check", "flow.toml"], &[]);
    assert!(good.status.success());
    let shown = run(folder.path(), &["config", "show", "flow.toml"], &[]);
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("drain_seconds = 30") && !shown.contains(ADA), "{shown}");
    for (text, received) in [
        ("[serve]\nlissten = \"127.0.0.1:1\"", "line 2, column 1"),
        ("[[identity.tokens]]\nname = \"a\"\nsha256 = \"x\"", "64 hexadecimal digits"),
        ("[[identity.tokens]]\nname = \"a\"\ntoken_env = \"NOT_THERE\"", "NOT_THERE"),
        ("[[identity.tokens]]\nname = \"a\"\ntoken_file = \"nowhere\"", "nowhere"),
    ] {
        std::fs::write(folder.path().join("bad.toml"), text).unwrap();
        let bad = run(folder.path(), &["config", "check", "bad.toml"], &[]);
        let error = String::from_utf8(bad.stderr).unwrap();
        assert_eq!(bad.status.code(), Some(2), "{error}");
        assert!(error.contains(received), "{error}");
    }
    let several = "[serve]\nlissten = 1\n[signing]\nkey_file = \"none\"\n[[identity.tokens]]\n\
                   name = \"a\"\ntoken_env = \"NOT_THERE\"\n[log]\nlevel = \"loud\"";
    std::fs::write(folder.path().join("bad.toml"), several).unwrap();
    let bad = run(folder.path(), &["config", "check", "bad.toml"], &[]);
    let error = String::from_utf8(bad.stderr).unwrap();
    let received: Vec<_> = error.lines().collect();
    assert_eq!(received.len(), 4, "{error}");
    for (received, problem) in received.iter().zip(["line 2", "line 3", "line 5", "line 9"]) {
        assert!(received.contains(&format!("bad.toml: {problem}, ")), "{error}");
    }
    let client = "[servers.it]\nurl = \"http://127.0.0.1:1/mcp\"";
    std::fs::write(folder.path().join("client.toml"), client).unwrap();
    let good = run(folder.path(), &["config", "check", "client.toml"], &[]);
    let warning = String::from_utf8(good.stderr).unwrap();
    assert!(
        good.status.success() && warning.contains("`serve` and `stdio` ignore it"),
        "{warning}"
    );
    let made = run(folder.path(), &["config", "token", "eve"], &[]);
    let (token, received) =
        (String::from_utf8(made.stdout).unwrap(), String::from_utf8(made.stderr).unwrap());
    let entry = received.split_once("[[").unwrap().1;
    std::fs::write(folder.path().join("flow.toml"), format!("[[{entry}")).unwrap();
    let served = ConfiguredServer::start(folder.path(), &[]);
    assert_eq!(served.post(Some(token.trim()), &list()).0, 200);
    served.end();
}

/// Command-line options override the file; the token file is reloaded as well.
#[test]
fn command_line_options_take_precedence() {
    let folder = folder(&[], "");
    std::fs::write(folder.path().join("tokens"), format!("ada:{ADA}\n")).unwrap();
    let text = "[serve]\nlisten = \"127.0.0.1:1\"\nconsole = false\n[log]\nlevel = \"info\"\n";
    std::fs::write(folder.path().join("flow.toml"), text).unwrap();
    let mut served = ConfiguredServer::start(folder.path(), &["--token-file", "tokens"]);
    assert_eq!(served.post(Some(ADA), &list()).0, 200);
    std::fs::write(folder.path().join("tokens"), format!("bob:{BOB}\n")).unwrap();
    let said = served.reload("configuration reloaded");
    assert!(!said.contains("has changed"), "what the command line says has not: {said}");
    assert_eq!((served.post(Some(ADA), &list()).0, served.post(Some(BOB), &list()).0), (401, 200));
    served.end();
}

/// PAT-024, INT-107: public addresses have rate limits by default, in the file and on the command
/// line, and a reload keeps them.
#[test]
fn a_reload_keeps_the_rate_limits_of_a_public_address() {
    let folder = folder(&[("ada", ADA)], "tools = [\"*\"]");
    let file = folder.path().join("flow.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("{text}[limits]\nrequest_burst = 1\n")).unwrap();
    let open = ["--insecure", "--host", "0.0.0.0", "--no-webtransport"];
    let mut served = ConfiguredServer::start_at("0.0.0.0:0", folder.path(), &open);
    // A burst of one, and the next only after some milliseconds.
    let is_refused =
        |served: &ConfiguredServer| (0..1000).any(|_| served.post(Some(ADA), &list()).0 == 429);
    assert!(is_refused(&served));
    served.reload("configuration reloaded");
    assert!(is_refused(&served));
    served.end();
}

/// A folder with a configuration that has a token for each name and `permissions` for everyone.
fn folder(tokens: &[(&str, &str)], gives: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), tokens, gives);
    folder
}

fn write(folder: &Path, tokens: &[(&str, &str)], gives: &str) {
    let mut text = String::from("[log]\nlevel = \"info\"\n[offer]\nstore = \"memory:\"\n");
    for (name, token) in tokens {
        std::fs::write(folder.join(name), token).unwrap();
        text += &format!("[[identity.tokens]]\nname = \"{name}\"\ntoken_file = \"{name}\"\n");
    }
    if !gives.is_empty() {
        text += &format!("[[permissions]]\nprincipals = [\"ada\", \"bob\"]\n{gives}\n");
    }
    std::fs::write(folder.join("flow.toml"), text).unwrap();
}

/// The TLS section of a configuration file, with keys.
fn certificate_for(folder: &Path) -> String {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    std::fs::write(folder.join("chain.pem"), made.cert.pem()).unwrap();
    std::fs::write(folder.join("key.pem"), made.signing_key.serialize_pem()).unwrap();
    "tls_certificate = \"chain.pem\"\ntls_key = \"key.pem\"\n".to_owned()
}

fn run(folder: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    output(command(folder, arguments).envs(environment.iter().copied()))
}

fn list() -> Value {
    stateless("tools/list", json!({}))
}

fn call(tool: &str) -> Value {
    stateless("tools/call", json!({"name": tool, "arguments": {"a": 1, "b": 1}}))
}

fn stateless(method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}

impl ConfiguredServer {
    fn host(&self) -> &str {
        let url = self.endpoints["http"].as_str().unwrap();
        url.trim_start_matches("http://").trim_end_matches('/')
    }

    fn tools(&self, token: &str) -> Vec<String> {
        let listed = self.post(Some(token), &list()).1;
        let tools = listed["result"]["tools"].as_array().unwrap().iter();
        tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    fn post(&self, token: Option<&str>, message: &Value) -> (u16, Value) {
        self.post_to("/mcp", token, message)
    }

    fn post_to(&self, path: &str, token: Option<&str>, message: &Value) -> (u16, Value) {
        let mut stream = TcpStream::connect(self.host()).unwrap();
        let body = message.to_string();
        let method = message["method"].as_str().unwrap();
        let name = message["params"]["name"].as_str();
        let name = name.map(|name| format!("Mcp-Name: {name}\r\n")).unwrap_or_default();
        let token = token.map(|token| format!("Authorization: Bearer {token}\r\n"));
        write!(
            stream,
            "POST {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n\
             Mcp-Method: {method}\r\n{name}{}Content-Length: {}\r\n\r\n{body}",
            self.host(),
            token.unwrap_or_default(),
            body.len()
        )
        .unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        let status = reply.split(' ').nth(1).unwrap().parse().unwrap();
        let body = reply.split_once("\r\n\r\n").unwrap().1;
        (status, serde_json::from_str(body).unwrap_or_default())
    }

    /// Opens an event stream, and reads up to the endpoint for posts.
    fn stream(&self, token: &str) -> (BufReader<TcpStream>, String) {
        let mut stream = TcpStream::connect(self.host()).unwrap();
        write!(
            stream,
            "GET /sse HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\n\
             Accept: text/event-stream\r\nConnection: close\r\n\r\n",
            self.host()
        )
        .unwrap();
        let mut stream = BufReader::new(stream);
        let mut line = String::new();
        while !line.starts_with("data:") {
            line.clear();
            assert!(stream.read_line(&mut line).unwrap() > 0);
        }
        let path = line["data:".len()..].trim().to_owned();
        (stream, path)
    }
}
