//! A server on a free port, for the duration of a test.

use std::net::SocketAddr;

use mcp_flow_http::{Bound, Options, bind};
use mcp_flow_server::Server;
use mcp_flow_testkit::http::{Request, Response};
use mcp_flow_testkit::wait::within;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// A running server.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<()>,
}

pub(crate) async fn start(server: &Server) -> Running {
    start_with(server, |bound| bound).await
}

pub(crate) async fn start_with_options(server: &Server, options: Options) -> Running {
    start_with(server, |bound| bound.options(options)).await
}

pub(crate) async fn start_with(server: &Server, set_up: impl FnOnce(Bound) -> Bound) -> Running {
    let bound = set_up(bind("127.0.0.1:0".parse().unwrap()).await.unwrap());
    let address = bound.address();
    let (stop, stopped) = oneshot::channel();
    let server = server.clone();
    let serving = tokio::spawn(async move {
        bound.serve(&server, async { drop(stopped.await) }).await;
    });
    Running { address, stop, serving }
}

impl Running {
    /// Stops the server and waits for its end.
    pub(crate) async fn stop(self) {
        let _ = self.stop.send(());
        within("the server to end", self.serving).await.unwrap();
    }

    pub(crate) async fn send(&self, request: Request) -> Response {
        request.send(self.address).await
    }

    /// Opens a session and returns its id.
    pub(crate) async fn open_session(&self, version: &str) -> String {
        let mut answer = self.send(initialize(version)).await;
        let id = answer.header("mcp-session-id").expect("a session has an id").to_owned();
        assert_eq!(answer.json().await["result"]["protocolVersion"], version);
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(self.send(in_session(&id, ready)).await.status, 202);
        id
    }

    /// Returns the value of a metric.
    pub(crate) async fn metric(&self, name: &str) -> i64 {
        self.metric_as(name, |request| request).await
    }

    async fn metric_as(&self, name: &str, sign: impl Fn(Request) -> Request) -> i64 {
        let text = self.send(sign(Request::new("GET", "/metrics"))).await.text().await;
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{name} is not in {text}")).parse().unwrap()
    }

    /// Waits until a metric has a value: cleanup happens after the response.
    pub(crate) async fn until_metric(&self, name: &str, value: i64) {
        self.until_metric_as(name, value, |request| request).await;
    }

    /// Like [`until_metric`](Self::until_metric), with requests that have a credential.
    pub(crate) async fn until_metric_as(
        &self,
        name: &str,
        value: i64,
        sign: impl Fn(Request) -> Request,
    ) {
        let reached = async {
            while self.metric_as(name, &sign).await != value {
                tokio::task::yield_now().await;
            }
        };
        let waited = tokio::time::timeout(std::time::Duration::from_secs(30), reached).await;
        assert!(waited.is_ok(), "{name} is {}, not {value}", self.metric_as(name, &sign).await);
    }
}

pub(crate) fn initialize(version: &str) -> Request {
    initialize_as(version, json!({}))
}

/// Builds an `initialize` of the newest revision with capabilities.
pub(crate) fn initialize_with(capabilities: Value) -> Request {
    initialize_as("2025-11-25", capabilities)
}

fn initialize_as(version: &str, capabilities: Value) -> Request {
    Request::post(
        "/mcp",
        json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": version, "capabilities": capabilities,
            "clientInfo": {"name": "by hand", "version": "1"},
        }}),
    )
}

pub(crate) fn in_session(id: &str, message: Value) -> Request {
    Request::post("/mcp", message).header("mcp-session-id", id)
}

/// Builds a tool call.
pub(crate) fn call(id: impl Into<Value>, tool: &str, arguments: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "method": "tools/call",
        "params": {"name": tool, "arguments": arguments}})
}

/// Builds a stateless POST with its mirrored headers.
pub(crate) fn stateless_post(method: &str, params: Value) -> Request {
    let mut params = params;
    params["_meta"] = match params.get("_meta") {
        Some(meta) => meta.clone(),
        None => mcp_flow_testkit::stateless_meta(),
    };
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let request = Request::post("/mcp", &message)
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", method);
    match params["name"].as_str().or_else(|| params["uri"].as_str()) {
        Some(name) => request.header("mcp-name", name),
        None => request,
    }
}
