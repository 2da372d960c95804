//! Conversations: `interaction.*` from the client's end, and what stands in for it with servers
//! that have no such thing.
//!
//! [`Client::converse`] holds a whole conversation, its questions answered by the
//! [`Host`](crate::Host). [`Client::begin`] gives a [`Conversation`] to be held step by step.

mod conversation;
mod converse;
mod pushed;
mod question;
mod upfront;

pub use conversation::{Conversation, Finished, Turn, Verdict};
pub use converse::explain;
pub use mcp_flow_session::Violation;
pub use mcp_flow_session::prompt::{Bound, Choice, Progress, Prompt, PromptType, Rules};
pub(crate) use pushed::{Conversations, pushed};
pub use question::{PromptAnswer, Question};

use mcp_flow_proto::Raw;
use serde_json::{Map, Value, json};

use crate::client::Client;
use crate::error::Error;
use crate::request::Request;

/// What a server can do in conversations (INT-091).
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct Support {
    /// Whether there are conversations at all.
    pub interactive: bool,
    /// The version of the interaction protocol.
    pub version: String,
    /// What they have.
    pub features: Features,
}

/// What the conversations of a server have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(clippy::struct_excessive_bools, reason = "five flags are what the protocol has")]
pub struct Features {
    /// The server keeps their state.
    pub stateful_sessions: bool,
    /// They tell how far they have come.
    pub progress_tracking: bool,
    /// Questions carry rules that can be checked before an answer is sent.
    pub validation: bool,
    /// There are questions of all seven types.
    pub multiple_prompt_types: bool,
    /// They survive a restart of the server.
    pub session_persistence: bool,
}

impl Client {
    /// What the server can do in conversations; `None` if it knows nothing of them (INT-092,
    /// INT-093, C-10).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), mcp_flow_client::Error> {
    /// # let server = mcp_flow_testkit::fixture::Fixture::conversing().server;
    /// # let connector = mcp_flow_stdio::client::in_process(&server);
    /// # let client = mcp_flow_client::Client::builder().connect(connector).await?;
    /// let support = client.interaction_support().await?;
    /// assert!(support.is_some_and(|support| support.features.validation));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn interaction_support(&self) -> Result<Option<Support>, Error> {
        let declared = self.server().await?.interaction().cloned();
        let declared = match declared {
            Some(declared) if declared.get("interactive").is_some_and(Value::is_boolean) => {
                declared
            }
            // Nothing is declared, or only that there is something to ask for.
            declared => {
                let asked = self.interaction("capabilities", Map::new()).repeatable();
                let limit = self.shared.options.probe_limit;
                let asked = if declared.is_none() { asked.limit(limit) } else { asked };
                match asked.await {
                    Ok(result) => result,
                    // Whatever it means by it, it does not mean conversations.
                    Err(Error::Server(_)) => return Ok(None),
                    // Some servers ignore what they do not know.
                    Err(Error::Timeout { .. }) if declared.is_none() => return Ok(None),
                    Err(error) => return Err(error),
                }
            }
        };
        let support: Option<Support> = serde_json::from_value(declared).ok();
        Ok(support.filter(|support| support.interactive))
    }

    /// The caller's own conversations on the server, a page at a time: the sessions, and where the
    /// next page begins.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), mcp_flow_client::Error> {
    /// # use serde_json::Map;
    /// # let server = mcp_flow_testkit::fixture::Fixture::conversing().server;
    /// # let connector = mcp_flow_stdio::client::in_process(&server);
    /// # let client = mcp_flow_client::Client::builder().connect(connector).await?;
    /// client.begin("wizard", Map::new()).await?;
    /// let (sessions, next) = client.interactions(None).await?;
    /// assert_eq!(sessions.len(), 1);
    /// assert!(next.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn interactions(
        &self,
        cursor: Option<&str>,
    ) -> Result<(Vec<Value>, Option<String>), Error> {
        let params = cursor.map(|cursor| ("cursor".to_owned(), json!(cursor)));
        let result = self.interaction("interaction.list", params.into_iter().collect());
        let mut result = result.repeatable().await?;
        let sessions = result.get_mut("sessions").map(Value::take);
        let Some(Value::Array(sessions)) = sessions else {
            return Err(Error::Protocol("interaction.list gives no list of sessions".to_owned()));
        };
        let next = result.get("nextCursor").and_then(Value::as_str).map(str::to_owned);
        Ok((sessions, next))
    }

    /// The whole state of a conversation, as the server tells it.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), mcp_flow_client::Error> {
    /// # use serde_json::Map;
    /// # let server = mcp_flow_testkit::fixture::Fixture::conversing().server;
    /// # let connector = mcp_flow_stdio::client::in_process(&server);
    /// # let client = mcp_flow_client::Client::builder().connect(connector).await?;
    /// let conversation = client.begin("wizard", Map::new()).await?;
    /// let state = client.interaction_state(conversation.session()).await?;
    /// assert_eq!(state["state"], "waiting_user");
    /// # Ok(())
    /// # }
    /// ```
    pub fn interaction_state(&self, session: &str) -> Request<Map<String, Value>, Value> {
        self.interaction("interaction.getState", by_session(session)).repeatable()
    }

    /// Ends a conversation from outside.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), mcp_flow_client::Error> {
    /// # use serde_json::Map;
    /// # let server = mcp_flow_testkit::fixture::Fixture::conversing().server;
    /// # let connector = mcp_flow_stdio::client::in_process(&server);
    /// # let client = mcp_flow_client::Client::builder().connect(connector).await?;
    /// let conversation = client.begin("wizard", Map::new()).await?;
    /// client.cancel_interaction(conversation.session(), Some("no longer needed")).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn cancel_interaction(
        &self,
        session: &str,
        reason: Option<&str>,
    ) -> Result<(), Error> {
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
