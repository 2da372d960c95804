//! `mcp-flow serve` with tool files, on a free port.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use mcp_flow_testkit::http::Request;
use mcp_flow_testkit::stateless_meta;
use mcp_flow_testkit::wait::Deadline;
use serde_json::Value;

use super::PROGRAM;

/// A server that is killed on drop.
pub(super) struct Served {
    child: Child,
    address: SocketAddr,
    _deadline: Deadline,
}

impl Served {
    pub(super) fn start(options: &[&str]) -> Self {
        let mut child = Command::new(PROGRAM)
            .args(["serve", "--listen", "127.0.0.1:0", "--json"])
            .args(options)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let deadline = Deadline::of(&child);
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let ready: Value = serde_json::from_str(&line).unwrap();
        let url = ready["http"].as_str().unwrap();
        let address = url.trim_start_matches("http://").trim_end_matches('/').parse().unwrap();
        Self { child, address, _deadline: deadline }
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sends a request of 2026-07-28; returns the response.
    pub(super) async fn request(&self, method: &str, name: &str, mut params: Value) -> Value {
        params["_meta"] = stateless_meta();
        let message = serde_json::json!(
            {"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let request = Request::post("/mcp", &message)
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", method)
            .header("mcp-name", name);
        let mut response = request.send(self.address).await;
        match response.header("content-type") {
            Some("text/event-stream") => response.message().await.unwrap(),
            _ => response.json().await,
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
