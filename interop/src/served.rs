//! The program under test, serving over HTTP.

use std::ffi::OsStr;
use std::process::{ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::{LIMIT, program};

/// The program on a free port, killed when dropped.
#[derive(Debug)]
pub struct Served {
    child: Child,
    places: Value,
}

impl Served {
    /// Starts the program and waits until it reports its addresses. As over stdio, a session has
    /// one permit.
    pub async fn start() -> Self {
        Self::with(["--max-concurrency", "1"]).await
    }

    /// Starts the program with further arguments and waits until it reports its addresses.
    pub async fn with(arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        let mut command = Command::new(program());
        command.args(["serve", "--listen", "127.0.0.1:0", "--json", "--diagnostics"]);
        let arguments: Vec<_> =
            arguments.into_iter().map(|argument| argument.as_ref().to_owned()).collect();
        if !arguments.iter().any(|argument| argument == "--store") {
            command.args(["--store", "memory:"]);
        }
        Self::run(command.args(arguments)).await
    }

    /// Starts a command that serves, and waits until it reports its addresses.
    pub async fn run(command: &mut Command) -> Self {
        let (child, line) = start(command).await;
        let places = serde_json::from_str(&line)
            .unwrap_or_else(|error| panic!("not a line of JSON: {error}: {line:?}"));
        Self { child, places }
    }

    /// Returns the URL of `mcp`, `sse`, `websocket`, `webtransport` or plain `http`.
    pub fn url(&self, kind: &str) -> &str {
        self.place(kind)
    }

    /// Returns the SHA-256 fingerprint of the WebTransport certificate.
    pub fn certificate_hash(&self) -> &str {
        self.place("certificateHash")
    }

    fn place(&self, kind: &str) -> &str {
        self.places[kind].as_str().unwrap_or_else(|| panic!("no {kind} in {}", self.places))
    }

    /// Waits until every client has ended its session, then [stops](Self::stop) the program.
    pub async fn end(self) {
        self.until_all_have_left().await;
        self.stop().await;
    }

    /// Stops the program, and panics unless it exits with 0 and logged no errors.
    pub async fn stop(mut self) {
        let id = self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        kill_process(id.expect("it runs"), Signal::TERM).expect("SIGTERM can be sent");
        let mut complaints = String::new();
        let mut errors = self.child.stderr.take().expect("it is piped");
        let (ended, read) = timeout(LIMIT, async {
            tokio::join!(self.child.wait(), errors.read_to_string(&mut complaints))
        })
        .await
        .expect("the program exits after SIGTERM");
        read.expect("complaints can be read");
        let code = ended.ok().as_ref().and_then(ExitStatus::code);
        assert!(code == Some(0) && complaints.is_empty(), "ended with {code:?}: {complaints}");
    }

    /// Sessions must be ended by clients, not by a timeout.
    async fn until_all_have_left(&self) {
        let left = async {
            loop {
                let metrics = self.metrics().await;
                let mut sessions =
                    metrics.lines().filter(|line| line.starts_with("mcp_flow_transport_sessions{"));
                if sessions.all(|line| line.ends_with(" 0")) {
                    return;
                }
                tokio::task::yield_now().await;
            }
        };
        timeout(LIMIT, left).await.expect("the client ends its session");
    }

    /// Reads the metrics.
    pub async fn metrics(&self) -> String {
        let host = self.url("http").trim_start_matches("http://").trim_end_matches('/');
        let mut stream = TcpStream::connect(host).await.expect("the port is open");
        let head = format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).await.expect("the server reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("the server answers");
        assert!(answer.contains("mcp_flow_transport_sessions{"), "{answer}");
        answer
    }
}

/// Starts a program that prints one line when it is ready, and returns that line.
pub async fn start(command: &mut Command) -> (Child, String) {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let mut line = String::new();
    let mut out = BufReader::new(child.stdout.as_mut().expect("it is piped"));
    timeout(LIMIT, out.read_line(&mut line))
        .await
        .unwrap_or_else(|_| panic!("not ready within {LIMIT:?}: {command:?}"))
        .expect("what it prints can be read");
    if line.is_empty() {
        // It closed its output, so it has exited or is about to: a port in use, a full disk.
        let ended = timeout(LIMIT, child.wait_with_output()).await;
        panic!("not ready, but ended: {command:?}: {ended:#?}");
    }
    (child, line)
}
