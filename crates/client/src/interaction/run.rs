//! Running a session to its end, with the host answering its prompts.

use serde_json::{Map, Value, json};

use super::prompt::{PendingPrompt, PromptAnswer};
use super::session::{InteractionSession, NextStep, ResponseOutcome, SessionResult};
use crate::client::Client;
use crate::error::{Error, ServerError};
use crate::event::ClientEvent;

impl Client {
    /// Runs a flow; the host answers its prompts.
    ///
    /// Like [`try_run_flow`](Self::try_run_flow), but if the server lacks the interaction protocol
    /// or the tool is not interactive, the host is asked for the arguments up front, which are sent
    /// with one `tools/call` (INT-099).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), mcp_flow_client::Error> {
    /// use futures_util::future::BoxFuture;
    /// use mcp_flow_client::host::{ServerIdentity, Host};
    /// use mcp_flow_client::interaction::{PromptAnswer, PendingPrompt};
    /// use mcp_flow_client::Client;
    /// # use serde_json::{Map, json};
    ///
    /// /// Answers by the key of the prompt.
    /// struct Ada;
    ///
    /// impl Host for Ada {
    ///     fn answer_prompt<'a>(
    ///         &'a self,
    ///         _: &'a ServerIdentity,
    ///         question: &'a PendingPrompt,
    ///     ) -> BoxFuture<'a, PromptAnswer> {
    ///         let answer = match question.key.as_deref() {
    ///             Some("name") => json!("Ada"),
    ///             _ => json!("ada@a.example"),
    ///         };
    ///         Box::pin(async { PromptAnswer::Value(answer) })
    ///     }
    /// }
    ///
    /// # let server = mcp_flow_testkit_fixture::Fixture::interactive().server;
    /// # let connector = mcp_flow_stdio::client::in_process(&server);
    /// let client = Client::builder().host(Ada).connect(connector).await?;
    /// let finished = client.run_flow("wizard", Map::new()).await?;
    /// assert_eq!(finished.data["name"], "Ada");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run_flow(
        &self,
        tool: &str,
        initial: Map<String, Value>,
    ) -> Result<SessionResult, Error> {
        match self.try_run_flow(tool, initial.clone()).await? {
            Some(finished) => Ok(finished),
            None => self.call_upfront(tool, initial).await,
        }
    }

    /// Runs a flow; the host answers its prompts. `None` if the server lacks the interaction
    /// protocol or the tool is not interactive: call it with all arguments (C-44).
    ///
    /// Answers are validated before they are sent, and asked for again if invalid (INT-087,
    /// INT-096). A session that expires is restarted once, with the answers so far (INT-088).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), mcp_flow_client::Error> {
    /// # let server = mcp_flow_testkit_fixture::Fixture::interactive().server;
    /// # let connector = mcp_flow_stdio::client::in_process(&server);
    /// # let client = mcp_flow_client::Client::builder().connect(connector).await?;
    /// // A tool that is not interactive.
    /// let finished = client.try_run_flow("math.add", serde_json::Map::new()).await?;
    /// assert!(finished.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn try_run_flow(
        &self,
        tool: &str,
        initial: Map<String, Value>,
    ) -> Result<Option<SessionResult>, Error> {
        match self.interaction_support().await? {
            Some(_) => self.run_supported_flow(tool, initial).await,
            None => Ok(None),
        }
    }

    /// Like [`try_run_flow`](Self::try_run_flow), for callers that have checked
    /// [`interaction_support`](Self::interaction_support).
    pub async fn run_supported_flow(
        &self,
        tool: &str,
        initial: Map<String, Value>,
    ) -> Result<Option<SessionResult>, Error> {
        let mut known = initial;
        let mut again = false;
        loop {
            let session = match self.start_session(tool, known.clone()).await {
                Err(Error::Server(error)) if means_upfront(&error) && !again => return Ok(None),
                begun => begun?,
            };
            match self.run_recording(session, &mut known).await {
                Err(Error::Server(error)) if is_gone(&error) && !again => {
                    again = true;
                    let what = "the session has expired; starting it again";
                    self.inner.emit(ClientEvent::Warning(what.to_owned()));
                }
                held => return held.map(Some),
            }
        }
    }

    /// Runs a session to its end; the host answers its prompts.
    pub async fn run_session(&self, session: InteractionSession) -> Result<SessionResult, Error> {
        self.run_recording(session, &mut Map::new()).await
    }

    /// Runs a session to its end, and records the accepted answers by key.
    async fn run_recording(
        &self,
        mut session: InteractionSession,
        known: &mut Map<String, Value>,
    ) -> Result<SessionResult, Error> {
        let mut wrong = 0;
        'turns: loop {
            let mut question = match session.next().await? {
                NextStep::Finished(finished) => return Ok(finished),
                NextStep::Prompt(question) => question,
            };
            let answer = loop {
                if wrong >= MAX_WRONG {
                    let _ = session.cancel(Some("too many invalid answers")).await;
                    return Err(Error::Denied("too many invalid answers".to_owned()));
                }
                let answered = tokio::select! {
                    biased;
                    () = session.superseded() => continue 'turns,
                    answered = self.ask_host(&question) => answered?,
                };
                let value = match answered {
                    PromptAnswer::Value(value) => value,
                    PromptAnswer::Cancel(reason) => {
                        // The outcome is the same if the server cannot be reached.
                        let _ = session.cancel(reason.as_deref()).await;
                        let reason = reason.unwrap_or_else(|| "cancelled".to_owned());
                        return Err(Error::Denied(reason));
                    }
                    PromptAnswer::Leave => {
                        let session = session.id();
                        return Err(Error::Denied(format!("left open; resume session {session}")));
                    }
                };
                match question.prompt.check(&value) {
                    Ok(_) => break value,
                    Err(violation) => question.rejection = Some(violation),
                }
                wrong += 1;
            };
            match session.answer(answer.clone()).await? {
                ResponseOutcome::Accepted => known.extend(question.key.map(|key| (key, answer))),
                ResponseOutcome::Rejected(_) => wrong += 1,
                ResponseOutcome::Superseded => {}
            }
        }
    }

    pub(super) async fn ask_host(&self, question: &PendingPrompt) -> Result<PromptAnswer, Error> {
        let connection = self.inner.connection().await?;
        let server = self.inner.server_identity(&connection);
        Ok(self.inner.host.answer_prompt(&server, question).await)
    }
}

/// Returns whether the tool has to be called with all arguments instead.
fn means_upfront(error: &ServerError) -> bool {
    is(error, -7, "NOT_INTERACTIVE") || error.code == -32601
}

/// Returns whether the session has expired or is unknown to the server.
fn is_gone(error: &ServerError) -> bool {
    is(error, -2, "SESSION_EXPIRED") || is(error, -1, "SESSION_NOT_FOUND")
}

/// Returns whether this is the given error of the interaction protocol, by name or else by code.
fn is(error: &ServerError, number: i64, name: &str) -> bool {
    match error.name() {
        Some(found) => found == name,
        None => [-32000 + number, -31000 + number].contains(&error.code),
    }
}

/// Explains an error of the interaction protocol to a user; `None` for any other error (INT-090).
///
/// ```
/// use mcp_flow_client::ServerError;
/// use mcp_flow_client::interaction::explain;
///
/// let error = ServerError { code: -32002, message: String::new(), data: Default::default() };
/// assert_eq!(explain(&error), Some("the session has expired; start it again"));
/// ```
pub fn explain(error: &ServerError) -> Option<&'static str> {
    let known = [
        (-1, "SESSION_NOT_FOUND", "the session does not exist; it may have been removed"),
        (-2, "SESSION_EXPIRED", "the session has expired; start it again"),
        (-3, "INVALID_STATE_TRANSITION", "this is not possible in the session's current state"),
        (-4, "VALIDATION_FAILED", "a value violates its validation rules"),
        (-5, "TIMEOUT", "the server timed out; try again"),
        (-6, "ALREADY_CANCELLED", "the session is already cancelled"),
        (-7, "NOT_INTERACTIVE", "the tool is not interactive; call it with all its arguments"),
        (-8, "FLOW_CHANGED", "the flow has changed; the session goes on when code that fits runs"),
    ];
    known.into_iter().find(|(number, name, _)| is(error, *number, name)).map(|(_, _, text)| text)
}

impl SessionResult {
    /// Converts the outcome of a tool call.
    pub(super) fn of_call(outcome: crate::ToolOutcome) -> Result<Self, Error> {
        let outcome = outcome.into_result()?;
        let text = outcome.text();
        let data = outcome.structured.unwrap_or_else(|| json!({"text": text}));
        Ok(Self { session: None, success: true, data, summary: Some(text), error: None })
    }
}

/// Maximum number of invalid answers in one session.
const MAX_WRONG: usize = 50;
