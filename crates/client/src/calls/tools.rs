//! `tools/list` and `tools/call`, with the host's approval of each call.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use mcp_flow_proto::model::{Meta, ToolDefinition};
use mcp_flow_proto::{Raw, method};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::header_arguments;
use crate::calls::content::{ContentBlock, texts};
use crate::calls::listed_tools::ListedTool;
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
    /// [`ToolOutcome::into_result`]. Structured content that violates the tool's output schema is
    /// [`Error::InvalidOutput`]; the tools are listed before the first call for that.
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
        let is_needed =
            self.inner.needs_headers(&connection) || self.inner.checks_output(&connection);
        if is_needed && self.listed_tool(tool).is_none() {
            // The definition marks arguments to send as headers, and has the output schema. If it
            // cannot be listed, no headers are sent and the output is not checked.
            self.list_once().await;
        }
        let definition = self.listed_tool(tool);
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
        self.inner.tools.find(name).map(|tool| tool.definition.clone())
    }

    /// Validates the result of a tool call against the tool's output schema.
    pub(crate) async fn check_output(
        &self,
        connection: &Connection,
        tool: &str,
        result: Raw<'_>,
    ) -> Result<(), Error> {
        if !self.inner.checks_output(connection) {
            return Ok(());
        }
        let fault = |listed: Arc<ListedTool>| listed.output_fault(result);
        if self.inner.tools.find(tool).and_then(fault).is_none() {
            return Ok(());
        }
        // The server may have changed the schema since the tool was listed.
        self.inner.forget_tools();
        self.list_once().await;
        match self.inner.tools.find(tool).and_then(fault) {
            Some(reason) => Err(Error::InvalidOutput { tool: tool.to_owned(), reason }),
            None => Ok(()),
        }
    }

    /// Lists the tools, unless that was done since they last changed. Boxed, because listing is a
    /// request, which calls `prepare_call`.
    fn list_once(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let tools = &self.inner.tools;
            let _listing = tools.listing.lock().await;
            let generation = tools.generation();
            if !tools.is_complete() && self.tools().all().await.is_ok() {
                tools.complete(generation);
            }
        })
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

    /// Returns whether results of tools are validated on this connection.
    fn checks_output(&self, connection: &Connection) -> bool {
        self.options.validate_output
            && connection.revision().features().structured_content
            && connection.info().is_some_and(|info| info.capabilities.tools.is_some())
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
        self.tools.add(tool, self.options.max_entries);
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
