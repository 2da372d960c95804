//! `mcp-flow serve`, the real program, on a free port.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};

use mcp_flow_testkit::wait::{Deadline, output};
use serde_json::{Value, json};

use crate::support::configured_server::{ConfiguredServer, command};

const PROGRAM: &str = env!("CARGO_BIN_EXE_mcp-flow");

/// The directory for journals.
const FOLDER: &str = env!("CARGO_TARGET_TMPDIR");

/// MCP-095: one line of JSON lists the endpoints; clients of both eras list the tools; SIGTERM ends
/// the program with status 0.
#[test]
fn endpoints_are_printed_and_served() {
    let (mut program, mut out, ready, _deadline) = start(&["--diagnostics"]);
    assert_eq!(ready["pid"], program.id());
    let names: Vec<_> = ready.as_object().unwrap().keys().map(String::as_str).collect();
    let all = ["http", "mcp", "sse", "websocket", "webtransport", "certificateHash", "pid"];
    assert_eq!(names, all);
    let base = ready["http"].as_str().unwrap().trim_end_matches('/').to_owned();
    for (name, path) in [("mcp", "/mcp"), ("sse", "/sse")] {
        assert_eq!(ready[name], format!("{base}{path}"));
    }
    assert!(ready["websocket"].as_str().unwrap().starts_with("ws://"));
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "calculator.add", "arguments": {"a": 2, "b": 3}, "_meta": meta,
    }});
    let headers = "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: calculator.add\r\n";
    let reply = post(&base, headers, &call);
    assert!(reply.starts_with("HTTP/1.1 200") && reply.contains(r#""text":"5""#), "{reply}");
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {},
    }});
    let reply = post(&base, "", &hello);
    assert!(reply.to_lowercase().contains("mcp-session-id: "), "{reply}");

    let id = program.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    assert_eq!(program.wait().unwrap().code(), Some(0));
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "", "one line and no more");
}

/// A port that is in use is explained by every command that serves there.
#[test]
fn a_port_in_use_is_explained() {
    let used = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = used.local_addr().unwrap().to_string();
    let server = ["--", PROGRAM, "stdio", "--store", "memory:"];
    for command in [
        &["serve", "--store", "memory:"][..],
        &[&["bridge"], &server[..]].concat(),
        &[&["ui", "--no-browser"], &server[..]].concat(),
    ] {
        let mut program = Command::new(PROGRAM);
        let ended =
            output(program.arg(command[0]).args(["--listen", &address]).args(&command[1..]));
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(1), "{command:?}: {said}");
        assert!(said.contains("--listen 127.0.0.1:0 for a free port"), "{command:?}: {said}");
    }
}

/// PAT-002: the same server answers newline-delimited JSON on TCP and on a Unix socket.
#[test]
fn newline_delimited_json_is_served_on_sockets() {
    let path = std::env::temp_dir().join(format!("mcp-flow-socket-{}", std::process::id()));
    let (mut program, _, ready, _deadline) =
        start(&["--tcp", "127.0.0.1:0", "--unix", path.to_str().unwrap()]);
    let ping = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n";
    let mut tcp = TcpStream::connect(ready["tcp"].as_str().unwrap()).unwrap();
    let mut unix = std::os::unix::net::UnixStream::connect(&path).unwrap();
    for stream in [&mut tcp as &mut dyn ReadWrite, &mut unix] {
        stream.write_all(ping).unwrap();
        let mut reply = [0; 36];
        stream.read_exact(&mut reply).unwrap();
        assert_eq!(&reply, b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}");
    }
    drop((tcp, unix));
    let id = program.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    assert_eq!(program.wait().unwrap().code(), Some(0));
    assert!(!path.exists(), "the socket is cleared away");
}

trait ReadWrite: Read + Write {}
impl<T: Read + Write> ReadWrite for T {}

/// INT-112, MCP-049: a public address requires TLS, unless an option allows plaintext.
#[test]
fn a_public_address_requires_tls() {
    let mut command = Command::new(PROGRAM);
    let output = output(command.current_dir(FOLDER).args(["serve", "--listen", "0.0.0.0:0"]));
    assert_eq!(output.status.code(), Some(1));
    let received = String::from_utf8(output.stderr).unwrap();
    assert!(received.contains("--insecure") && output.stdout.is_empty(), "{received}");
    let (mut program, ..) = start(&["--insecure", "--listen", "0.0.0.0:0"]);
    program.kill().unwrap();
    program.wait().unwrap();
}

/// C-53: with a token file every request requires a token.
#[test]
fn a_token_file_requires_authentication() {
    let path = std::env::temp_dir().join(format!("mcp-flow-tokens-{}", std::process::id()));
    std::fs::write(&path, "ada:0123456789abcdef0123\n").unwrap();
    let (mut program, _, ready, _deadline) = start(&["--token-file", path.to_str().unwrap()]);
    std::fs::remove_file(&path).unwrap();
    let base = ready["http"].as_str().unwrap().trim_end_matches('/').to_owned();
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25",
    }});
    let refused = post(&base, "", &ping);
    assert!(refused.starts_with("HTTP/1.1 401"), "{refused}");
    assert!(refused.to_lowercase().contains("www-authenticate: bearer"), "{refused}");
    let admitted = post(&base, "Authorization: Bearer 0123456789abcdef0123\r\n", &ping);
    assert!(admitted.starts_with("HTTP/1.1 200"), "{admitted}");
    program.kill().unwrap();
    program.wait().unwrap();
}

/// C-65: a journal that is damaged or locked by another process is an error that says what to do.
/// The default journal is shared by processes; a damaged one is an error.
#[test]
fn an_unusable_store_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join(".mcp-flow/journal.db");
    let run = |arguments: &[&str]| {
        let output = output(&mut command(folder.path(), arguments));
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let serve = ["serve", "--listen", "127.0.0.1:0", "--no-webtransport"];
    std::fs::write(folder.path().join("flow.toml"), "").unwrap();
    let locked = ["--store", "redb:locked.redb"];
    let first = ConfiguredServer::start(folder.path(), &locked);
    let (code, received) = run(&[&serve[..], &locked].concat());
    assert_eq!(code, Some(1), "{received}");
    for advice in ["another process", "stop that process", "--store sqlite:PATH", "--store memory:"]
    {
        assert!(received.contains(advice), "{advice}: {received}");
    }
    first.end();
    let first = ConfiguredServer::start(folder.path(), &[]);
    ConfiguredServer::start(folder.path(), &[]).end();
    assert_eq!(run(&["stdio"]), (Some(0), String::new()));
    assert_eq!(run(&["stdio", "--store", "memory:"]), (Some(0), String::new()));
    ConfiguredServer::start(folder.path(), &["--store", "memory:"]).end();
    first.end();

    let whole = std::fs::read(&journal).unwrap();
    // A pattern without meaning for the database.
    let noise = |index: usize| u8::try_from(index.wrapping_mul(2_654_435_761) >> 7 & 0xff).unwrap();
    for from in [0, 4096] {
        let mut damaged = whole.clone();
        damaged.iter_mut().enumerate().skip(from).for_each(|(index, byte)| *byte = noise(index));
        std::fs::write(&journal, damaged).unwrap();
        for arguments in [&serve[..], &["stdio"]] {
            let (code, received) = run(arguments);
            assert_eq!(code, Some(1), "{arguments:?} from {from}: {received}");
            assert!(
                received.contains("damaged") && received.contains("move it away"),
                "{received}"
            );
        }
    }
    std::fs::write(&journal, whole).unwrap();
    ConfiguredServer::start(folder.path(), &[]).end();
}

fn start(arguments: &[&str]) -> (Child, BufReader<ChildStdout>, Value, Deadline) {
    let listen: &[&str] =
        if arguments.contains(&"--listen") { &[] } else { &["--listen", "127.0.0.1:0"] };
    let mut program = Command::new(PROGRAM)
        .current_dir(FOLDER)
        .args(["serve", "--json", "--store", "memory:"])
        .args(listen)
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let deadline = Deadline::of(&program);
    let mut out = BufReader::new(program.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    (program, out, serde_json::from_str(&line).unwrap(), deadline)
}

fn post(base: &str, headers: &str, body: &Value) -> String {
    let host = base.trim_start_matches("http://");
    let mut stream = TcpStream::connect(host).unwrap();
    let body = body.to_string();
    write!(
        stream,
        "POST /mcp HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\
         Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
         {headers}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    reply
}
