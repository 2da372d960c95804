//! The server's log messages: `logging/setLevel` and `notifications/message`.

use std::sync::Arc;

use mcp_flow_proto::model::LogLevel;
use mcp_flow_proto::{Params, Raw, method};
use serde_json::{Map, Value, json};

use crate::calls::request::Request;
use crate::client::{Client, ClientInner};
use crate::connection::{Connection, RequestExtras};
use crate::error::Error;
use crate::event::ClientEvent;

impl Client {
    /// Sets the minimum level of the server's log messages, for this and later connections. They
    /// arrive as [`ClientEvent::Log`]. Under 2026-07-28 every request carries the level.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), mcp_flow_client::Error> {
    /// # let server = mcp_flow_testkit_fixture::Fixture::new().server;
    /// # let connector = mcp_flow_stdio::client::in_process(&server);
    /// # let client = mcp_flow_client::Client::builder().connect(connector).await?;
    /// use mcp_flow_client::model::LogLevel;
    ///
    /// client.set_log_level(LogLevel::Warning).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn set_log_level(&self, level: LogLevel) -> Result<(), Error> {
        *self.inner.log_level.lock() = Some(level);
        if self.inner.connection().await?.revision().is_stateless() {
            return Ok(());
        }
        let params = json!({"level": level});
        let request = Request::new(self, method::LOGGING_SET_LEVEL.into(), params, ignore);
        request.repeatable().await
    }
}

fn ignore(_: Raw<'_>) -> Result<(), Error> {
    Ok(())
}

impl ClientInner {
    /// The `_meta` member of a stateless request that sets the log level.
    pub(crate) fn log_level_member(&self, stateless: bool) -> Option<String> {
        if !stateless {
            return None;
        }
        let level = *self.log_level.lock();
        level.map(|level| format!("\"io.modelcontextprotocol/logLevel\":\"{level}\""))
    }
}

/// Sets the log level on a new connection. Errors are ignored. Returns whether there was one to set.
pub(crate) async fn restore(inner: &ClientInner, connection: &Arc<Connection>) -> bool {
    let level = *inner.log_level.lock();
    let can = connection.info().is_some_and(|info| info.capabilities.logging.is_some());
    let Some(level) = level.filter(|_| can && !connection.revision().is_stateless()) else {
        return false;
    };
    let params = json!({"level": level});
    let asked =
        connection.request(method::LOGGING_SET_LEVEL.into(), &params, &RequestExtras::default());
    if let Ok(mut exchange) = asked {
        let _ = tokio::time::timeout(inner.options.request_timeout, exchange.reply()).await;
    }
    true
}

/// Reads `notifications/message`.
pub(crate) fn read(params: Params<'_>) -> Option<ClientEvent> {
    let mut members: Map<String, Value> = params.decode().ok()?;
    let level = serde_json::from_value(members.remove("level")?).ok()?;
    let logger = members.get("logger").and_then(Value::as_str).map(str::to_owned);
    Some(ClientEvent::Log { level, logger, data: members.remove("data").unwrap_or_default() })
}
