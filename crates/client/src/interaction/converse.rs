//! A whole conversation, answered by the host.

use serde_json::{Map, Value, json};

use super::conversation::{Conversation, Finished, Turn, Verdict};
use super::question::{PromptAnswer, Question};
use crate::client::Client;
use crate::error::{Error, ServerError};
use crate::event::Event;

impl Client {
    /// Holds a conversation with a tool, its questions answered by the host.
    ///
    /// Does what [`try_converse`](Self::try_converse) does. With a server that has no conversations,
    /// or a tool that asks nothing, everything the tool takes is asked for upfront, and sent with one
    /// `tools/call` (INT-099).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), mcp_flow_client::Error> {
    /// use futures_util::future::BoxFuture;
    /// use mcp_flow_client::host::{Asker, Host};
    /// use mcp_flow_client::interaction::{PromptAnswer, Question};
    /// use mcp_flow_client::Client;
    /// # use serde_json::{Map, json};
    ///
    /// /// Who answers by what is asked.
    /// struct Ada;
    ///
    /// impl Host for Ada {
    ///     fn answer<'a>(
    ///         &'a self,
    ///         _: &'a Asker,
    ///         question: &'a Question,
    ///     ) -> BoxFuture<'a, PromptAnswer> {
    ///         let answer = match question.key.as_deref() {
    ///             Some("name") => json!("Ada"),
    ///             _ => json!("ada@a.example"),
    ///         };
    ///         Box::pin(async { PromptAnswer::Value(answer) })
    ///     }
    /// }
    ///
    /// # let server = mcp_flow_testkit::fixture::Fixture::conversing().server;
    /// # let connector = mcp_flow_stdio::client::in_process(&server);
    /// let client = Client::builder().host(Ada).connect(connector).await?;
    /// let finished = client.converse("wizard", Map::new()).await?;
    /// assert_eq!(finished.data["name"], "Ada");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn converse(
        &self,
        tool: &str,
        initial: Map<String, Value>,
    ) -> Result<Finished, Error> {
        match self.try_converse(tool, initial.clone()).await? {
            Some(finished) => Ok(finished),
            None => self.call_upfront(tool, initial).await,
        }
    }

    /// Holds a conversation with a tool, its questions answered by the host; `None` if the server
    /// holds none, or not with this tool, which is then to be called with everything upfront (C-44).
    ///
    /// Answers are checked here before they are sent, and asked for again when they are wrong
    /// (INT-087, INT-096). A session that expires is begun anew, once, with what was answered so far
    /// (INT-088).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), mcp_flow_client::Error> {
    /// # let server = mcp_flow_testkit::fixture::Fixture::conversing().server;
    /// # let connector = mcp_flow_stdio::client::in_process(&server);
    /// # let client = mcp_flow_client::Client::builder().connect(connector).await?;
    /// // A tool that asks nothing.
    /// let finished = client.try_converse("math.add", serde_json::Map::new()).await?;
    /// assert!(finished.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn try_converse(
        &self,
        tool: &str,
        initial: Map<String, Value>,
    ) -> Result<Option<Finished>, Error> {
        if self.interaction_support().await?.is_none() {
            return Ok(None);
        }
        let mut known = initial;
        let mut again = false;
        loop {
            let conversation = match self.begin(tool, known.clone()).await {
                Err(Error::Server(error)) if means_upfront(&error) && !again => return Ok(None),
                begun => begun?,
            };
            match self.hold_noting(conversation, &mut known).await {
                Err(Error::Server(error)) if is_gone(&error) && !again => {
                    again = true;
                    let what = "the session has expired; the conversation begins anew";
                    self.shared.tell(Event::Warning(what.to_owned()));
                }
                held => return held.map(Some),
            }
        }
    }

    /// Goes on with a conversation, its questions answered by the host.
    pub async fn hold(&self, conversation: Conversation) -> Result<Finished, Error> {
        self.hold_noting(conversation, &mut Map::new()).await
    }

    /// Goes on with a conversation, and notes what is answered under its key.
    async fn hold_noting(
        &self,
        mut conversation: Conversation,
        known: &mut Map<String, Value>,
    ) -> Result<Finished, Error> {
        let mut wrong = 0;
        'turns: loop {
            let mut question = match conversation.next().await? {
                Turn::Finished(finished) => return Ok(finished),
                Turn::Question(question) => question,
            };
            let answer = loop {
                if wrong >= MOST_WRONG {
                    let _ = conversation.cancel(Some("no good answer")).await;
                    return Err(Error::Denied("no good answer was given".to_owned()));
                }
                let answered = tokio::select! {
                    biased;
                    () = conversation.moved_on() => continue 'turns,
                    answered = self.ask_host(&question) => answered?,
                };
                let value = match answered {
                    PromptAnswer::Value(value) => value,
                    PromptAnswer::Cancel(reason) => {
                        // Whether the server hears of it changes nothing here.
                        let _ = conversation.cancel(reason.as_deref()).await;
                        let reason = reason.unwrap_or_else(|| "cancelled".to_owned());
                        return Err(Error::Denied(reason));
                    }
                    PromptAnswer::Leave => {
                        let session = conversation.session();
                        return Err(Error::Denied(format!("left; take it up again as {session}")));
                    }
                };
                match question.prompt.check(&value) {
                    Ok(_) => break value,
                    Err(violation) => question.rejection = Some(violation),
                }
                wrong += 1;
            };
            match conversation.answer(answer.clone()).await? {
                Verdict::Accepted => known.extend(question.key.map(|key| (key, answer))),
                Verdict::Rejected(_) => wrong += 1,
                Verdict::Outdated => {}
            }
        }
    }

    pub(super) async fn ask_host(&self, question: &Question) -> Result<PromptAnswer, Error> {
        let link = self.shared.link().await?;
        let asker = self.shared.asker(&link);
        Ok(self.shared.host.answer(&asker, question).await)
    }
}

/// Whether a tool is to be called with everything upfront instead.
fn means_upfront(error: &ServerError) -> bool {
    is(error, -7, "NOT_INTERACTIVE") || error.code == -32601
}

/// Returns whether the server does not know the session any more, by its limits or by a restart.
fn is_gone(error: &ServerError) -> bool {
    is(error, -2, "SESSION_EXPIRED") || is(error, -1, "SESSION_NOT_FOUND")
}

/// Whether this is an error of the interaction protocol, by its name or else by its number.
fn is(error: &ServerError, number: i64, name: &str) -> bool {
    match error.name() {
        Some(found) => found == name,
        None => [-32000 + number, -31000 + number].contains(&error.code),
    }
}

/// What an error of the interaction protocol means to a person; `None` for any other error
/// (INT-090).
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
        (-1, "SESSION_NOT_FOUND", "the server knows no such session; it may have been erased"),
        (-2, "SESSION_EXPIRED", "the session has expired; start it again"),
        (-3, "INVALID_STATE_TRANSITION", "the session stands where this cannot be done"),
        (
            -4,
            "VALIDATION_FAILED",
            "a value breaks its rules, and there is no question to go back to",
        ),
        (-5, "TIMEOUT", "the server took too long over this step; try again"),
        (-6, "ALREADY_CANCELLED", "the session was cancelled before"),
        (-7, "NOT_INTERACTIVE", "this tool asks nothing; call it with all its parameters"),
    ];
    known.into_iter().find(|(number, name, _)| is(error, *number, name)).map(|(_, _, text)| text)
}

impl Finished {
    /// The end of a conversation that was no more than a call.
    pub(super) fn of_call(outcome: crate::ToolOutcome) -> Result<Self, Error> {
        let outcome = outcome.into_result()?;
        let text = outcome.text();
        let data = outcome.structured.unwrap_or_else(|| json!({"text": text}));
        Ok(Self { session: None, success: true, data, summary: Some(text), error: None })
    }
}

/// How many wrong answers are taken from a host before it is given up on.
const MOST_WRONG: usize = 50;
