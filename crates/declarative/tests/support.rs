//! A server with tool files, and calls of its tools.

pub(crate) mod mock;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mcp_flow_declarative::{ToolLibrary, Trust};
use mcp_flow_interaction::Interaction;
use mcp_flow_server::permissions::{AccessRule, Permissions};
use mcp_flow_server::{ConnectionInfo, Principal, Server, ServerBuilder};
use mcp_flow_session::Store;
use serde_json::{Value, json};
use tempfile::TempDir;

/// A server with the tools of a directory.
pub(crate) struct Tools {
    pub(crate) folder: TempDir,
    pub(crate) library: ToolLibrary,
    pub(crate) server: Server,
    pub(crate) flows: Interaction,
}

impl Tools {
    /// Serves one file.
    pub(crate) fn of(yaml: &str) -> Self {
        Self::with(&[("tools.yaml", yaml)], Trust::System)
    }

    pub(crate) fn with(files: &[(&str, &str)], trust: Trust) -> Self {
        let folder = TempDir::new().unwrap();
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        Self::open(folder, trust, None)
    }

    /// Serves a directory, with sessions in a store.
    pub(crate) fn open(folder: TempDir, trust: Trust, store: Option<Arc<dyn Store>>) -> Self {
        Self::built(folder, trust, store, |server| server)
    }

    /// Serves one file, for those that the rules permit.
    pub(crate) fn permitted(yaml: &str, rules: Vec<AccessRule>) -> Self {
        let folder = TempDir::new().unwrap();
        std::fs::write(folder.path().join("tools.yaml"), yaml).unwrap();
        let permissions = Permissions::new(rules);
        Self::built(folder, Trust::System, None, |server| server.permissions(permissions))
    }

    fn built(
        folder: TempDir,
        trust: Trust,
        store: Option<Arc<dyn Store>>,
        change: impl FnOnce(ServerBuilder) -> ServerBuilder,
    ) -> Self {
        let library = ToolLibrary::open([folder.path().to_owned()], None, trust).unwrap();
        let recorded = library.clone();
        let flows = Interaction::builder().engine(move |engine| {
            engine.recorded_flows(move |name, events| recorded.recorded_definition(name, events))
        });
        let flows = match store {
            Some(store) => flows.store(store),
            None => flows,
        };
        let flows = flows.build();
        let server = flows.add_to(change(Server::builder("files", "1.0.0"))).build().unwrap();
        library.attach(&server, &flows);
        Self { folder, library, server, flows }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Calls a tool; returns the result and the messages of its progress.
    pub(crate) async fn call(&self, name: &str, arguments: Value) -> (Value, Vec<String>) {
        let params = json!({"name": name, "arguments": arguments, "_meta": {"progressToken": 7}});
        self.request("tools/call", params).await
    }

    /// Calls a tool that succeeds; returns its text.
    pub(crate) async fn text(&self, name: &str, arguments: Value) -> String {
        let (result, _) = self.call(name, arguments.clone()).await;
        assert_ne!(result["isError"], true, "{name} {arguments}: {result}");
        result["content"][0]["text"].as_str().unwrap_or_default().to_owned()
    }

    /// Calls a tool that fails; returns its message.
    pub(crate) async fn failure(&self, name: &str, arguments: Value) -> String {
        let (result, _) = self.call(name, arguments.clone()).await;
        assert_eq!(result["isError"], true, "{name} {arguments}: {result}");
        result["content"][0]["text"].as_str().unwrap_or_default().to_owned()
    }

    /// Sends a request; returns its result or error, and the messages of its progress.
    pub(crate) async fn request(&self, method: &str, params: Value) -> (Value, Vec<String>) {
        self.request_by(Principal::local(), method, params).await
    }

    /// Sends a request in the name of a principal.
    pub(crate) async fn request_by(
        &self,
        principal: Principal,
        method: &str,
        mut params: Value,
    ) -> (Value, Vec<String>) {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let members = meta.as_object().unwrap().clone();
        match params.get_mut("_meta") {
            Some(Value::Object(existing)) => existing.extend(members),
            _ => params["_meta"] = members.into(),
        }
        let mut info = ConnectionInfo::new("test");
        info.principal = principal;
        let connection = self.server.connect(info).unwrap();
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        connection.receive(request.to_string().as_bytes());
        let mut progress = Vec::new();
        let answered = async {
            loop {
                let segment = connection.output().await.expect("the connection stays open");
                for line in segment.lines().split(|byte| *byte == b'\n') {
                    let Ok(message) = serde_json::from_slice::<Value>(line) else { continue };
                    if message["method"] == "notifications/progress" {
                        let text = message["params"]["message"].as_str().unwrap_or_default();
                        progress.push(text.to_owned());
                    } else if message["id"] == 1 {
                        let result = message.get("result").or(message.get("error"));
                        return result.cloned().unwrap_or_default();
                    }
                }
            }
        };
        let result = tokio::time::timeout(Duration::from_secs(60), answered).await;
        (result.unwrap_or_else(|_| panic!("{method} was not answered")), progress)
    }

    /// Names of the listed tools.
    pub(crate) async fn listed(&self) -> Vec<String> {
        let (result, _) = self.request("tools/list", json!({})).await;
        let tools = result["tools"].as_array().cloned().unwrap_or_default();
        let name = |tool: &Value| tool["name"].as_str().unwrap_or_default().to_owned();
        let mut names: Vec<_> = tools.iter().map(name).collect();
        names.sort();
        names
    }
}

/// Waits until a condition holds.
pub(crate) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let waited = tokio::time::timeout(Duration::from_secs(30), async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    waited.await.unwrap_or_else(|_| panic!("waited in vain: {what}"));
}
