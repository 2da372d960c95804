//! Client of the interaction protocol, `interaction.*`.
//!
//! [`Client::run_flow`] runs a flow to its end; the [`Host`](crate::Host) answers its prompts.
//! [`Client::start_session`] starts a session to be driven step by step. With servers that lack the
//! protocol, the arguments are asked for up front and sent with one `tools/call`.

mod prompt;
mod pushed;
mod run;
mod session;
mod upfront;

pub use mcp_flow_session::InvalidAnswer;
pub use mcp_flow_session::prompt::{
    AnswerRules, ChoiceOption, FlowProgress, Prompt, PromptType, RangeBound,
};
pub use prompt::{PendingPrompt, PromptAnswer};
pub(crate) use pushed::{OpenSessions, pushed};
pub use run::explain;
pub use session::{InteractionSession, NextStep, ResponseOutcome, SessionResult};

use mcp_flow_proto::Raw;
use serde_json::{Map, Value, json};

use crate::calls::request::Request;
use crate::client::Client;
use crate::error::Error;

/// The server's support for the interaction protocol (INT-091).
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct InteractionSupport {
    /// True if the server supports it.
    pub interactive: bool,
    /// Version of the interaction protocol.
    pub version: String,
    /// Optional features.
    pub features: InteractionFeatures,
}

/// Optional features of the interaction protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(clippy::struct_excessive_bools, reason = "five flags are what the protocol has")]
pub struct InteractionFeatures {
    /// The server stores the sessions.
    pub stateful_sessions: bool,
    /// Prompts carry progress.
    pub progress_tracking: bool,
    /// Prompts carry validation rules.
    pub validation: bool,
    /// All seven prompt types may occur.
    pub multiple_prompt_types: bool,
    /// Sessions survive a restart of the server.
    pub session_persistence: bool,
}

impl Client {
    /// The server's support for the interaction protocol; `None` if it has none (INT-092, INT-093,
    /// C-10).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), mcp_flow_client::Error> {
    /// # let server = mcp_flow_testkit_fixture::Fixture::interactive().server;
    /// # let connector = mcp_flow_stdio::client::in_process(&server);
    /// # let client = mcp_flow_client::Client::builder().connect(connector).await?;
    /// let support = client.interaction_support().await?;
    /// assert!(support.is_some_and(|support| support.features.validation));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn interaction_support(&self) -> Result<Option<InteractionSupport>, Error> {
        let declared = self.server().await?.interaction().cloned();
        let declared = match declared {
            Some(declared) if declared.get("interactive").is_some_and(Value::is_boolean) => {
                declared
            }
            // Nothing is declared, or only that the request `capabilities` is available.
            declared => {
                let asked = self.interaction("capabilities", Map::new()).repeatable();
                let limit = self.inner.options.probe_timeout;
                let asked = if declared.is_none() { asked.timeout(limit) } else { asked };
                match asked.await {
                    Ok(result) => result,
                    // Any error means no support.
                    Err(Error::Server(_)) => return Ok(None),
                    // Some servers ignore unknown requests.
                    Err(Error::Timeout { .. }) if declared.is_none() => return Ok(None),
                    Err(error) => return Err(error),
                }
            }
        };
        let support: Option<InteractionSupport> = serde_json::from_value(declared).ok();
        Ok(support.filter(|support| support.interactive))
    }

    /// Lists the caller's sessions: one page, and the cursor of the next.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), mcp_flow_client::Error> {
    /// # use serde_json::Map;
    /// # let server = mcp_flow_testkit_fixture::Fixture::interactive().server;
    /// # let connector = mcp_flow_stdio::client::in_process(&server);
    /// # let client = mcp_flow_client::Client::builder().connect(connector).await?;
    /// client.start_session("wizard", Map::new()).await?;
    /// let (sessions, next) = client.list_sessions(None).await?;
    /// assert_eq!(sessions.len(), 1);
    /// assert!(next.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn list_sessions(
        &self,
        cursor: Option<&str>,
    ) -> Result<(Vec<Value>, Option<String>), Error> {
        let params = cursor.map(|cursor| ("cursor".to_owned(), json!(cursor)));
        let result = self.interaction("interaction.list", params.into_iter().collect());
        let mut result = result.repeatable().await?;
        let sessions = result.get_mut("sessions").map(Value::take);
        let Some(Value::Array(sessions)) = sessions else {
            return Err(Error::Protocol("interaction.list returned no sessions".to_owned()));
        };
        let next = result.get("nextCursor").and_then(Value::as_str).map(str::to_owned);
        Ok((sessions, next))
    }

    /// Gets the state of a session (`interaction.getState`).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), mcp_flow_client::Error> {
    /// # use serde_json::Map;
    /// # let server = mcp_flow_testkit_fixture::Fixture::interactive().server;
    /// # let connector = mcp_flow_stdio::client::in_process(&server);
    /// # let client = mcp_flow_client::Client::builder().connect(connector).await?;
    /// let session = client.start_session("wizard", Map::new()).await?;
    /// let state = client.session_state(session.id()).await?;
    /// assert_eq!(state["state"], "waiting_user");
    /// # Ok(())
    /// # }
    /// ```
    pub fn session_state(&self, session: &str) -> Request<Map<String, Value>, Value> {
        self.interaction("interaction.getState", by_session(session)).repeatable()
    }

    /// Cancels a session.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), mcp_flow_client::Error> {
    /// # use serde_json::Map;
    /// # let server = mcp_flow_testkit_fixture::Fixture::interactive().server;
    /// # let connector = mcp_flow_stdio::client::in_process(&server);
    /// # let client = mcp_flow_client::Client::builder().connect(connector).await?;
    /// let session = client.start_session("wizard", Map::new()).await?;
    /// client.cancel_session(session.id(), Some("no longer needed")).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn cancel_session(&self, session: &str, reason: Option<&str>) -> Result<(), Error> {
        let mut params = by_session(session);
        params.extend(reason.map(|reason| ("reason".to_owned(), json!(reason))));
        self.interaction("interaction.cancel", params).await.map(|_| ())
    }

    fn interaction(
        &self,
        method: &'static str,
        params: Map<String, Value>,
    ) -> Request<Map<String, Value>, Value> {
        Request::new(self, method.into(), params, |raw: Raw<'_>| Ok(raw.decode()?))
    }
}

fn by_session(session: &str) -> Map<String, Value> {
    Map::from_iter([("sessionId".to_owned(), json!(session))])
}
