//! Calls of tools by flows.

use mcp_flow_interaction::CallDepth;
use mcp_flow_proto::model::Content;
use mcp_flow_proto::{Raw, Revision};
use mcp_flow_server::{Connection, ConnectionInfo, Principal, Server, ToolOutput};
use mcp_flow_session::Owner;
use serde_json::{Map, Value, json};
use tokio::task::JoinSet;

use super::{Attached, ToolLibrary};
use crate::model::DeclaredTool;
use crate::output::Produced;

/// Session that calls a tool.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) owner: Owner,
    /// Scopes that the owner had at the start.
    pub(crate) scopes: Vec<String>,
    /// Number of sessions whose calls led to this one.
    pub(crate) depth: u32,
}

impl ToolLibrary {
    /// Calls a tool for the owner of a flow. Tools of files are called as they are declared, also
    /// internal ones; all others through the server, by its rules for this owner.
    pub(crate) async fn call(
        &self,
        caller: &Caller,
        name: &str,
        arguments: Map<String, Value>,
    ) -> Result<Value, String> {
        if let Some(tool) = self.find(name) {
            return self.call_declared(&tool, arguments).await;
        }
        let server = self.inner.attached.get().and_then(|Attached { server, .. }| server.upgrade());
        let server = server.ok_or("the server is not running")?;
        let connection = connect(&server, caller, name)?;
        let name = name.to_owned();
        // In a task of its own, since sessions may lead to others.
        let mut calls = JoinSet::new();
        calls.spawn(async move { call_server(&connection, &name, arguments).await });
        let called = calls.join_next().await.transpose().map_err(|error| error.to_string())?;
        called.unwrap_or_else(|| Err("the call has ended".to_owned()))
    }

    /// Calls a tool as it is declared.
    pub(crate) async fn call_declared(
        &self,
        tool: &DeclaredTool,
        arguments: Map<String, Value>,
    ) -> Result<Value, String> {
        check_arguments(tool.closed_input(), &arguments)?;
        match self.run(tool, arguments, &|_, _| {}).await {
            Ok(Produced::Output(output)) => value_of(output),
            Ok(Produced::Bulk(bulk)) => read_bulk(bulk).await,
            Err(failure) => Err(failure.message().to_owned()),
        }
    }
}

fn check_arguments(
    schema: Map<String, Value>,
    arguments: &Map<String, Value>,
) -> Result<(), String> {
    let schema = mcp_flow_schema::Schema::compile(&Value::Object(schema))?;
    let text = serde_json::to_string(arguments).map_err(|error| error.to_string())?;
    schema.check(Raw::Json(&text)).map_err(|error| match error {
        mcp_flow_schema::CheckError::Unreadable(error) => error.to_string(),
        mcp_flow_schema::CheckError::Violations(violations) => {
            let sentences: Vec<_> = violations.into_iter().map(|one| one.sentence).collect();
            sentences.join("; ")
        }
    })
}

/// Connects to the server as a client of the caller's owner, without one that can be asked.
fn connect(server: &Server, caller: &Caller, name: &str) -> Result<Connection, String> {
    if caller.depth >= MAX_DEPTH {
        return Err(format!("{name}: sessions call each other more than {MAX_DEPTH} levels deep"));
    }
    let mut info = ConnectionInfo::new("flow");
    info.principal = Principal::named(caller.owner.name()).scoped(&caller.scopes);
    info.extensions.insert(CallDepth(caller.depth + 1));
    server.connect(info).map_err(|veto| veto.to_string())
}

/// Calls a tool of the server.
async fn call_server(
    connection: &Connection,
    name: &str,
    arguments: Map<String, Value>,
) -> Result<Value, String> {
    let request = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {
            "name": name,
            "arguments": arguments,
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": Revision::V2026_07_28.name(),
                "io.modelcontextprotocol/clientInfo": {"name": "mcp-flow", "version": VERSION},
                "io.modelcontextprotocol/clientCapabilities": {},
            },
        },
    });
    connection.receive(request.to_string().as_bytes());
    while let Some(segment) = connection.output().await {
        for line in segment.lines().split(|byte| *byte == b'\n') {
            let Ok(message) = serde_json::from_slice::<Value>(line) else { continue };
            if message.get("id") != Some(&json!(1)) || message.get("method").is_some() {
                continue;
            }
            if let Some(error) = message.get("error") {
                let details = error["data"]["details"].as_str();
                let text = details.or(error["message"].as_str()).unwrap_or("the call failed");
                return Err(format!("{name}: {text}"));
            }
            return result_value(name, &message["result"]);
        }
    }
    Err(format!("{name}: the server ended before the call"))
}

/// Value of a result: its structured content, or its text.
fn result_value(name: &str, result: &Value) -> Result<Value, String> {
    let content = result["content"].as_array().cloned().unwrap_or_default();
    let texts: Vec<_> = content.iter().filter_map(|item| item["text"].as_str()).collect();
    let text = texts.join("\n");
    if result["isError"] == true {
        return Err(if text.is_empty() { format!("{name} failed") } else { text });
    }
    if result["resultType"] == "input_required" {
        return Err(format!("{name} asks for more than its arguments"));
    }
    Ok(match result.get("structuredContent") {
        Some(structured) => structured.clone(),
        None if texts.len() == content.len() => text.into(),
        None => Value::Array(content),
    })
}

fn value_of(output: ToolOutput) -> Result<Value, String> {
    let texts: Vec<_> = output
        .content
        .iter()
        .filter_map(|item| match item {
            Content::Text { text, .. } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    let text = texts.join("\n");
    match (output.is_error, output.structured) {
        (true, _) => Err(text),
        (false, Some(structured)) => Ok(structured),
        (false, None) => Ok(text.into()),
    }
}

/// Reads a payload as a text; a flow has no use for one that is larger.
async fn read_bulk(bulk: mcp_flow_server::bulk::Bulk) -> Result<Value, String> {
    use futures_util::StreamExt;
    let mut reader = bulk.into_reader();
    let mut bytes = Vec::new();
    while let Some(piece) = reader.next().await {
        bytes.extend_from_slice(&piece.map_err(|error| error.to_string())?);
        if bytes.len() > MAX_BYTES {
            return Err(format!("the output is longer than {MAX_BYTES} bytes"));
        }
    }
    String::from_utf8(bytes).map(Value::from).map_err(|_| "the output is not text".to_owned())
}

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Limit on the depth of sessions that call each other through the server.
const MAX_DEPTH: u32 = 8;

const MAX_BYTES: usize = 1024 * 1024;
