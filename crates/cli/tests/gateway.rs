//! `serve --gateway` and `stdio --gateway`: the contract, and crashes in the middle of a
//! question.

mod contract;
mod crash;
mod logins;
mod nodes;
mod reload;

use std::path::{Path, PathBuf};

use mcp_flow_testkit::stateless_meta;
use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_mcp-flow");

/// Writes the file of a host, with one server named `up`.
fn servers(folder: &Path, up: &Value) -> PathBuf {
    let file = folder.join("servers.json");
    std::fs::write(&file, json!({"mcpServers": {"up": up}}).to_string()).unwrap();
    file
}

/// A server of an earlier revision with the tool `greet`, which asks for a name, and notes each call
/// in the file `calls`.
fn earlier_upstream(folder: &Path) -> Value {
    let script = r#"
id() { printf '%s' "$1" | sed 's/.*"id":\([0-9]*\).*/\1/'; }
while read -r line; do
  case "$line" in
    *'"id":"q"'*)
      name=$(printf '%s' "$line" | sed -n 's/.*"name":"\([^"]*\)".*/\1/p')
      printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"Hello, %s!"}]}}\n' "$call" "$name";;
    *server/discover*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}\n' "$(id "$line")";;
    *'"initialize"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}\n' "$(id "$line")";;
    *tools/list*) printf '{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"greet","description":"%s","inputSchema":{"type":"object"}}]}}\n' "$(id "$line")" "$ABOUT";;
    *tools/call*)
      call=$(id "$line"); echo called >> "$CALLS"
      printf '{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"Who are you?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}}}\n';;
  esac
done"#;
    let calls = folder.join("calls").display().to_string();
    json!({"command": "sh", "args": ["-c", script], "env": {"CALLS": calls, "ABOUT": "Greets"}})
}

/// A server of 2026-07-28 with the flow `register`, whose sessions its clients carry.
fn stateless_upstream(folder: &Path) -> Value {
    let store = format!("redb:{}", folder.join("upstream.redb").display());
    json!({"command": PROGRAM, "args": ["stdio", "--stateless", "--store", store]})
}

/// Params of a stateless request by a client that can be asked.
fn stateless(mut params: Value) -> Value {
    let mut meta = stateless_meta();
    meta["io.modelcontextprotocol/clientCapabilities"] = json!({"elicitation": {"form": {}}});
    params["_meta"] = meta;
    params
}
