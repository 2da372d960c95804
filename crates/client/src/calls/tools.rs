//! `tools/list` and `tools/call`, with the host's approval of each call.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use mcp_flow_proto::model::{Meta, ToolDefinition};
use mcp_flow_proto::{Raw, method};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::header_arguments;
use crate::calls::content::{ContentBlock, texts};
use crate::calls::pages::PagedList;
use crate::calls::request::{Request, RequestParams};
use crate::client::{Client, ClientInner};
use crate::connection::Connection;
use crate::error::Error;
use crate::event::ClientEvent;
use crate::host::ProposedCall;

impl Client {
    /// Lists the server's tools, fetching pages as needed.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), mcp_flow_client::Error> {
    /// # let server = mcp_flow_testkit_fixture::Fixture::new().server;
    /// # let connector = mcp_flow_stdio::client::in_process(&server);
    /// # let client = mcp_flow_client::Client::builder().connect(connector).await?;
    /// let tools = client.tools().all().await?;
    /// assert!(tools.iter().any(|tool| tool.name == "math.add"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn tools(&self) -> PagedList<ToolDefinition> {
        let inner = Arc::downgrade(&self.inner);
        PagedList::new(self, method::TOOLS_LIST, "tools")
            .retain(move |tool| inner.upgrade().is_none_or(|inner| inner.notes(tool)))
    }

    /// Finds a tool by name, listing the tools if needed. `None` if the server has no such tool.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), mcp_flow_client::Error> {
    /// # let server = mcp_flow_testkit_fixture::Fixture::new().server;
    /// # let connector = mcp_flow_stdio::client::in_process(&server);
    /// # let client = mcp_flow_client::Client::builder().connect(connector).await?;
    /// let tool = client.tool("math.add").await?;
    /// assert!(tool.is_some_and(|tool| tool.description.as_deref() == Some("Adds")));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn tool(&self, name: &str) -> Result<Option<Arc<ToolDefinition>>, Error> {
        if let Some(tool) = self.listed_tool(name) {
            return Ok(Some(tool));
        }
        self.tools().all().await?;
        Ok(self.listed_tool(name))
    }

    /// Calls a tool. A tool that fails gives an outcome with `is_error`, not an error; see
    /// [`ToolOutcome::into_result`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), mcp_flow_client::Error> {
    /// # use serde_json::json;
    /// # let server = mcp_flow_testkit_fixture::Fixture::new().server;
    /// # let connector = mcp_flow_stdio::client::in_process(&server);
    /// # let client = mcp_flow_client::Client::builder().connect(connector).await?;
    /// let outcome = client.call_tool("math.add", json!({"a": 1, "b": 1})).await?;
    /// assert_eq!(outcome.text(), "2");
    ///
    /// let outcome = client.call_tool("fail", json!({})).await?;
    /// assert!(outcome.is_error);
    /// # Ok(())
    /// # }
    /// ```
    pub fn call_tool(&self, name: &str, arguments: Value) -> Request<CallToolParams, ToolOutcome> {
        let params = CallToolParams { name: name.to_owned(), arguments };
        Request::new(self, method::TOOLS_CALL.into(), params, ToolOutcome::read).about(name)
    }
}

impl Client {
    /// Asks the host to approve a call. Returns the arguments to repeat as HTTP headers.
    pub(crate) async fn prepare_call(
        &self,
        tool: &str,
        arguments: &Value,
    ) -> Result<Vec<(String, String)>, Error> {
        let nothing = Map::new();
        let arguments = match arguments {
            Value::Object(arguments) => arguments,
            Value::Null => &nothing,
            _ => return Err(Error::Usage("tool arguments must be an object".to_owned())),
        };
        let connection = self.inner.connection().await?;
        let definition = match self.inner.needs_headers(&connection) {
            // The definition marks the arguments. If it cannot be listed, no headers are sent.
            true => self.tool_boxed(tool).await.unwrap_or_default(),
            false => self.listed_tool(tool),
        };
        let call = ProposedCall { tool, arguments, definition: definition.as_deref() };
        self.inner.approve(&connection, &call).await?;
        match definition {
            Some(tool) if self.inner.needs_headers(&connection) => {
                header_arguments::values(&tool, arguments).map_err(Error::Protocol)
            }
            _ => Ok(Vec::new()),
        }
    }

    /// Finds a tool among those listed before.
    pub(crate) fn listed_tool(&self, name: &str) -> Option<Arc<ToolDefinition>> {
        let tools = self.inner.tools.lock();
        tools.get(name).cloned()
    }

    /// [`tool`](Self::tool) in a box, because listing is a request, which calls `prepare_call`.
    fn tool_boxed<'a>(
        &'a self,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<Arc<ToolDefinition>>, Error>> {
        Box::pin(self.tool(name))
    }
}

impl ClientInner {
    /// Asks the host to approve a call.
    pub(crate) async fn approve(
        &self,
        connection: &Connection,
        call: &ProposedCall<'_>,
    ) -> Result<(), Error> {
        self.host.approve(&self.server_identity(connection), call).await.map_err(Error::Denied)
    }

    fn needs_headers(&self, connection: &Connection) -> bool {
        connection.revision().is_stateless()
            && connection.transport().is_some_and(|transport| transport.needs_headers())
    }

    /// Caches a listed tool. Returns false if it must not be used over HTTP.
    fn notes(&self, tool: &ToolDefinition) -> bool {
        if self.current().is_some_and(|connection| self.needs_headers(&connection))
            && let Some(fault) = header_arguments::fault(tool)
        {
            let name = crate::sanitize::shorten(&tool.name, 100);
            self.emit(ClientEvent::Warning(format!("ignoring tool {name}: {fault}")));
            return false;
        }
        let mut tools = self.tools.lock();
        if tools.len() < self.options.max_entries {
            tools.insert(tool.name.clone(), Arc::new(tool.clone()));
        }
        true
    }
}

/// Params of `tools/call`.
#[derive(Clone, Debug, Serialize)]
pub struct CallToolParams {
    name: String,
    #[serde(skip_serializing_if = "Value::is_null")]
    arguments: Value,
}

impl RequestParams for CallToolParams {
    fn proposal(&self) -> Option<(&str, &Value)> {
        Some((&self.name, &self.arguments))
    }
}

/// Result of `tools/call`.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ToolOutcome {
    /// Content blocks.
    pub content: Vec<ContentBlock>,
    /// Structured content, if the tool returned any.
    pub structured: Option<Value>,
    /// True if the tool failed.
    pub is_error: bool,
    /// Error message of a failed tool, from `errorMessage` (C-24).
    pub error_message: Option<String>,
    /// Members of `_meta`.
    pub meta: Meta,
}

impl ToolOutcome {
    /// The text blocks, joined with line feeds.
    pub fn text(&self) -> String {
        texts(&self.content)
    }

    /// The error text of a failed tool: its text content, or else its error message.
    pub fn error_text(&self) -> String {
        match (self.text(), &self.error_message) {
            (text, Some(message)) if text.is_empty() => message.clone(),
            (text, None) if text.is_empty() => "no reason given".to_owned(),
            (text, _) => text,
        }
    }

    /// Turns the outcome of a failed tool into [`Error::Tool`].
    pub fn into_result(self) -> Result<Self, Error> {
        if self.is_error { Err(Error::Tool(Box::new(self))) } else { Ok(self) }
    }

    fn read(raw: Raw<'_>) -> Result<Self, Error> {
        let wire: Wire = raw.decode()?;
        let meta = wire.meta.unwrap_or_default();
        let in_meta = meta.get("errorMessage").and_then(Value::as_str).map(str::to_owned);
        Ok(Self {
            content: wire.content.unwrap_or_default(),
            structured: wire.structured_content,
            is_error: wire.is_error.unwrap_or_default(),
            error_message: wire.error_message.or(in_meta),
            meta,
        })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wire {
    #[serde(default)]
    content: Option<Vec<ContentBlock>>,
    #[serde(default)]
    structured_content: Option<Value>,
    #[serde(default)]
    is_error: Option<bool>,
    #[serde(default)]
    error_message: Option<String>,
    #[serde(rename = "_meta", default)]
    meta: Option<Map<String, Value>>,
}
