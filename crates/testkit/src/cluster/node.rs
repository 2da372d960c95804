//! One node of a cluster: a process of the real program.

use std::fs::OpenOptions;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStdout, Command};

use super::{LEDGER, store_key};
use crate::http::{Connection, Request};
use crate::peer::stateless_meta;
use crate::wait::within;

/// Running node, killed when dropped.
#[derive(Debug)]
pub struct ClusterNode {
    child: Child,
    address: SocketAddr,
    /// Kept open, so that the program does not fail on a closed pipe.
    _output: BufReader<ChildStdout>,
}

impl ClusterNode {
    /// Starts a node, and waits until it listens.
    pub async fn start(program: &Path, folder: &Path, store: &str) -> Self {
        let errors = OpenOptions::new().append(true).create(true).open(folder.join(ERRORS));
        let mut child = Command::new(program)
            .args(["serve", "--listen", "127.0.0.1:0", "--no-webtransport", "--json"])
            .args(["--store", store, "--diagnostics"])
            .arg(format!("--ledger={LEDGER}"))
            .env("MCP_FLOW_STORE_KEY", store_key())
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(errors.expect("the folder can be written to"))
            .kill_on_drop(true)
            .spawn()
            .expect("the program can be started");
        let mut output = BufReader::new(child.stdout.take().expect("its output is piped"));
        let mut line = String::new();
        let read = within("a node to listen", output.read_line(&mut line)).await;
        let addresses: Value = serde_json::from_str(&line).unwrap_or_else(|_| {
            let errors = Self::errors(folder);
            panic!("a node does not start ({read:?}, {line:?}): {errors}")
        });
        let address = crate::crash::address(&addresses);
        Self { child, address, _output: output }
    }

    /// Returns what the nodes with this directory have written to standard error.
    pub(super) fn errors(folder: &Path) -> String {
        std::fs::read_to_string(folder.join(ERRORS)).unwrap_or_default()
    }

    /// Returns the address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn process(&self) -> u32 {
        self.child.id().expect("a running node has an id")
    }

    /// Has it drain, and waits for its end.
    pub async fn terminate(&mut self) {
        super::signal(self.process(), rustix::process::Signal::TERM);
        let ended = within("a node to drain", self.child.wait()).await;
        let ended = ended.expect("a node can be waited for");
        assert!(ended.success(), "a node has ended with {ended}");
    }

    /// Kills it without warning.
    pub async fn kill(&mut self) {
        self.child.kill().await.expect("a node can be killed");
    }
}

/// Sends a request of 2026-07-28. None if the node goes away before its reply is complete.
pub(super) async fn post(address: SocketAddr, method: &str, mut params: Value) -> Option<Value> {
    params["_meta"] = stateless_meta();
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let request = Request::post("/mcp", &message)
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", method);
    let stream = TcpStream::connect(address).await.ok()?;
    let mut connection = Connection::over(stream);
    connection.write(&request.bytes()).await;
    let mut response = connection.try_response().await?;
    if response.header("content-type") == Some("text/event-stream") {
        return response.message().await;
    }
    serde_json::from_slice(&response.bytes().await).ok()
}

const ERRORS: &str = "errors";
