//! The server's log messages: `logging/setLevel` and `notifications/message`.

use std::sync::{Arc, PoisonError};

use mcp_flow_proto::model::LogLevel;
use mcp_flow_proto::{Params, Raw, method};
use serde_json::{Map, Value, json};

use crate::client::{Client, Shared};
use crate::error::Error;
use crate::event::Event;
use crate::link::{Beside, Link};
use crate::request::Request;

impl Client {
    /// Sets the minimum level of the server's log messages, for this and later connections. They
    /// arrive as [`Event::Log`]. Under 2026-07-28 every request carries the level.
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
        *self.shared.log_level.lock().unwrap_or_else(PoisonError::into_inner) = Some(level);
        if self.shared.link().await?.revision().is_stateless() {
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

impl Shared {
    /// The `_meta` member of a stateless request that sets the log level.
    pub(crate) fn log_level_member(&self, stateless: bool) -> Option<String> {
        if !stateless {
            return None;
        }
        let level = *self.log_level.lock().unwrap_or_else(PoisonError::into_inner);
        level.map(|level| format!("\"io.modelcontextprotocol/logLevel\":\"{level}\""))
    }
}

/// Sets the log level on a new connection. Errors are ignored.
pub(crate) async fn restore(shared: &Shared, link: &Arc<Link>) {
    let level = *shared.log_level.lock().unwrap_or_else(PoisonError::into_inner);
    let can = link.info().is_some_and(|info| info.capabilities.logging.is_some());
    let Some(level) = level.filter(|_| can && !link.revision().is_stateless()) else { return };
    let params = json!({"level": level});
    let asked = link.request(method::LOGGING_SET_LEVEL.into(), &params, &Beside::default());
    if let Ok(mut exchange) = asked {
        let _ = tokio::time::timeout(shared.options.request_limit, exchange.reply()).await;
    }
}

/// Reads `notifications/message`.
pub(crate) fn read(params: Params<'_>) -> Option<Event> {
    let mut members: Map<String, Value> = params.decode().ok()?;
    let level = serde_json::from_value(members.remove("level")?).ok()?;
    let logger = members.get("logger").and_then(Value::as_str).map(str::to_owned);
    Some(Event::Log { level, logger, data: members.remove("data").unwrap_or_default() })
}
