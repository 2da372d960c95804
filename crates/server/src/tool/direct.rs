//! Tools called as methods (C-18): the arguments are the params, the output is the result.
//!
//! Apart from that such a call is like `tools/call`: permissions, argument check, execution and
//! observation are the same.

use std::collections::BTreeSet;
use std::sync::Arc;

use mcp_flow_proto::error::TOOL_FAILED;
use mcp_flow_proto::model::Content;
use mcp_flow_proto::{DecodeError, OwnedRaw, Params, RpcError};
use serde_json::{Map, Value};

use super::{Tool, ToolOutput};
use crate::context::Context;
use crate::handler::Reply;
use crate::server::ServerBuilder;

/// The tools that can be called as methods.
#[derive(Clone, Debug, Default)]
pub(crate) struct Direct {
    all: bool,
    named: BTreeSet<String>,
}

impl Direct {
    /// Returns whether a tool is included.
    pub(crate) fn includes(&self, tool: &Tool) -> bool {
        self.all || self.named.contains(&tool.definition().name)
    }

    /// Returns whether there are none, so that no lookup is needed.
    pub(crate) fn is_empty(&self) -> bool {
        !self.all && self.named.is_empty()
    }
}

impl ServerBuilder {
    /// Lets these tools be called as methods too: the arguments are the params, and the result is
    /// the tool's structured output, or the result of `tools/call` if it has none. A failed tool is
    /// an error. Methods of the protocol take precedence.
    ///
    /// ```
    /// use mcp_flow_server::{Context, Server, Tool};
    /// use serde_json::Value;
    ///
    /// let server = Server::builder("short", "1.0.0")
    ///     .tools(Tool::builder("hello").quick(|_: &Context, _: Value| "Hello!"))
    ///     .direct_methods(["hello"])
    ///     .build()
    ///     .unwrap();
    /// assert!(server.find_tool("hello").is_some());
    /// ```
    pub fn direct_methods<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.direct.named.extend(names.into_iter().map(Into::into));
        self
    }

    /// Lets every tool be called as a method, including those added later; see
    /// [`direct_methods`](Self::direct_methods).
    pub fn all_direct_methods(mut self) -> Self {
        self.direct.all = true;
        self
    }
}

/// Calls a tool with the params of a method of its name.
pub(crate) fn call(context: &Context, tool: Arc<Tool>, params: Params<'_>) -> Reply {
    match arguments(params) {
        Ok(None) => context.call_tool_directly(tool, params.object()),
        Ok(Some(arguments)) => context.call_tool_directly(tool, arguments.as_raw()),
        Err(error) => {
            let details = format!("the params cannot be decoded: {error}");
            Reply::Ready(Err(RpcError::invalid_params(details)))
        }
    }
}

/// The arguments, if they differ from the params: all members but `_meta` (C-54).
fn arguments(params: Params<'_>) -> Result<Option<OwnedRaw>, DecodeError> {
    let given = params.object();
    let [meta] = given.members(["_meta"])?;
    if meta.is_none() {
        return Ok(None);
    }
    let mut members: Map<String, Value> = given.decode()?;
    members.remove("_meta");
    Ok(Some(OwnedRaw::Json(Value::Object(members).to_string().into())))
}

/// A tool's failure as an error with a code to branch on (C-19).
pub(crate) fn failure(output: &ToolOutput) -> RpcError {
    let texts = output.content.iter().filter_map(|content| match content {
        Content::Text { text, .. } => Some(text.as_str()),
        _ => None,
    });
    RpcError::new(TOOL_FAILED).details(texts.collect::<Vec<_>>().join("\n"))
}
