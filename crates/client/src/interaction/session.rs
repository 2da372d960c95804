//! Handle of an interaction session: the next prompt, answering it, cancelling.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use mcp_flow_session::InvalidAnswer;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use super::prompt::PendingPrompt;
use super::pushed::{PendingStart, Pushed, Registration};
use crate::client::Client;
use crate::error::{Error, ServerError};
use crate::host::ProposedCall;

/// Handle of a session on the server. Dropping it leaves the session open;
/// [`Client::resume_session`] continues it.
#[derive(Debug)]
pub struct InteractionSession {
    client: Client,
    session: String,
    /// The session itself, as a token, if the server is stateless.
    token: Option<String>,
    next: Next,
    /// The caller has seen the open question, or the one that it repeats.
    is_seen: bool,
    /// `turnId` of the last accepted answer.
    answered: Option<u64>,
    /// The rejected question was shown again; the server may still repeat it.
    is_retry_due: bool,
    /// The server lacks `interaction.continue`; `interaction.getState` is used instead.
    lacks_continue: bool,
    pushed: mpsc::Receiver<Pushed>,
    _registration: Registration,
}

#[derive(Clone, Debug)]
enum Next {
    /// Not known yet.
    Unknown,
    Prompt(Box<PendingPrompt>),
    /// Its answer was rejected. The server may repeat it with another message (C-09).
    Rejected(Box<PendingPrompt>),
    Finished(SessionResult),
    /// The server ended the session, as by its expiry.
    Failed(Box<ServerError>),
}

/// Next step of a session.
#[derive(Clone, Debug, PartialEq)]
pub enum NextStep {
    /// A prompt to answer.
    Prompt(Box<PendingPrompt>),
    /// The session has ended.
    Finished(SessionResult),
}

/// Result of a session.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SessionResult {
    /// Id of the session; `None` for a plain tool call.
    pub session: Option<String>,
    /// True if it succeeded.
    pub success: bool,
    /// Result for programs.
    pub data: Value,
    /// Result for users.
    pub summary: Option<String>,
    /// Error, if it failed.
    pub error: Option<Value>,
}

/// The server's response to an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum ResponseOutcome {
    /// Accepted.
    Accepted,
    /// Rejected by validation; the question stays open.
    Rejected(InvalidAnswer),
    /// Not sent: the session has ended, or asks another question than the one that
    /// [`next`](InteractionSession::next) returned. Call `next` for the open one.
    Superseded,
}

impl Client {
    /// Starts a session of a flow. `initial` answers prompts in advance, by key.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), mcp_flow_client::Error> {
    /// use mcp_flow_client::interaction::{NextStep, ResponseOutcome};
    /// # use serde_json::{Map, json};
    /// # let server = mcp_flow_testkit_fixture::Fixture::interactive().server;
    /// # let connector = mcp_flow_stdio::client::in_process(&server);
    /// # let client = mcp_flow_client::Client::builder().connect(connector).await?;
    ///
    /// let mut session = client.start_session("wizard", Map::new()).await?;
    /// for answer in ["Ada", "not an address", "ada@a.example"] {
    ///     let NextStep::Prompt(question) = session.next().await? else { break };
    ///     match session.answer(json!(answer)).await? {
    ///         ResponseOutcome::Accepted => {}
    ///         ResponseOutcome::Rejected(_) => assert_eq!(question.prompt.message, "Enter email"),
    ///         ResponseOutcome::Superseded => panic!("no other client answers"),
    ///     }
    /// }
    /// let NextStep::Finished(finished) = session.next().await? else { panic!("it asks on") };
    /// assert_eq!(finished.data["name"], "Ada");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn start_session(
        &self,
        tool: &str,
        initial: Map<String, Value>,
    ) -> Result<InteractionSession, Error> {
        let connection = self.inner.connection().await?;
        let definition = self.listed_tool(tool);
        let call = ProposedCall { tool, arguments: &initial, definition: definition.as_deref() };
        self.inner.approve(&connection, &call).await?;
        // Prompts may be pushed before the result with the session id is processed.
        let starting = self.inner.sessions.starting();
        let params = Map::from_iter([
            ("toolName".to_owned(), json!(tool)),
            ("initialParams".to_owned(), Value::Object(initial)),
        ]);
        let result = self.interaction("interaction.start", params).await?;
        let Some(session) = result.get("sessionId").and_then(Value::as_str) else {
            return Err(Error::Protocol("interaction.start returned no sessionId".to_owned()));
        };
        let mut session = InteractionSession::new(self, session, starting);
        session.take(&result);
        if matches!(session.next, Next::Unknown)
            && let Some(prompt) = result.get("initialPrompt").filter(|prompt| prompt.is_object())
        {
            let question = PendingPrompt::read(prompt.clone(), result.get("progress"));
            session.next = Next::Prompt(Box::new(question));
        }
        Ok(session)
    }

    /// Resumes a session that was left open, by this client or another one of the same user.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), mcp_flow_client::Error> {
    /// # use mcp_flow_client::interaction::NextStep;
    /// # use serde_json::Map;
    /// # let server = mcp_flow_testkit_fixture::Fixture::interactive().server;
    /// # let connector = mcp_flow_stdio::client::in_process(&server);
    /// # let client = mcp_flow_client::Client::builder().connect(connector).await?;
    /// let session = client.start_session("wizard", Map::new()).await?.id().to_owned();
    /// // Later, perhaps by another client of the same user.
    /// let NextStep::Prompt(question) = client.resume_session(&session).next().await? else { panic!("it is over") };
    /// assert_eq!(question.prompt.message, "Enter name");
    /// # Ok(())
    /// # }
    /// ```
    pub fn resume_session(&self, session: &str) -> InteractionSession {
        InteractionSession::new(self, session, self.inner.sessions.starting())
    }
}

impl InteractionSession {
    fn new(client: &Client, session: &str, starting: PendingStart) -> Self {
        let (registration, pushed) = starting.register(&client.inner, session);
        Self {
            client: client.clone(),
            session: session.to_owned(),
            token: None,
            next: Next::Unknown,
            is_seen: false,
            answered: None,
            is_retry_due: false,
            lacks_continue: false,
            pushed,
            _registration: registration,
        }
    }

    /// Id of the session.
    pub fn id(&self) -> &str {
        &self.session
    }

    /// Waits for the next question or the end of the session, as long as the server reports that it
    /// is at work. A session that expires meanwhile fails at once with the server's error
    /// `SESSION_EXPIRED`, whose data names the limit.
    pub async fn next(&mut self) -> Result<NextStep, Error> {
        let limit = self.client.inner.options.total_timeout;
        let begun = Instant::now();
        while begun.elapsed() < limit {
            self.apply_pushed();
            match &self.next {
                Next::Prompt(question) => {
                    self.is_seen = true;
                    let session = Some(self.session.clone());
                    return Ok(NextStep::Prompt(Box::new(PendingPrompt {
                        session,
                        ..*question.clone()
                    })));
                }
                Next::Finished(finished) => {
                    let session = Some(self.session.clone());
                    return Ok(NextStep::Finished(SessionResult { session, ..finished.clone() }));
                }
                Next::Failed(error) => return Err(Error::Server(*error.clone())),
                Next::Unknown | Next::Rejected(_) => {}
            }
            // A server that pushes has usually done so within this time.
            match tokio::time::timeout(POLL, self.pushed.recv()).await {
                Ok(Some(pushed)) => {
                    self.apply(pushed);
                }
                Ok(None) | Err(_) => self.poll().await?,
            }
        }
        Err(Error::Timeout { what: "the next question".to_owned(), limit })
    }

    /// Answers the question that [`next`](Self::next) returned last. An answer to any other
    /// question is not sent.
    pub async fn answer(&mut self, value: Value) -> Result<ResponseOutcome, Error> {
        self.apply_pushed();
        let turn = match &self.next {
            Next::Prompt(question) | Next::Rejected(question) if self.is_seen => question.turn,
            Next::Failed(error) => return Err(Error::Server(*error.clone())),
            Next::Unknown => {
                let what = "no question is open; call `next` before `answer`";
                return Err(Error::Usage(what.to_owned()));
            }
            Next::Prompt(_) | Next::Rejected(_) | Next::Finished(_) => {
                return Ok(ResponseOutcome::Superseded);
            }
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let mut response = json!({"value": value, "timestamp": u64::try_from(now).unwrap_or(0)});
        if let Some(turn) = turn {
            response["turnId"] = turn.into();
        }
        let mut params = self.params();
        params.insert("response".to_owned(), response);
        let mut request = self.client.interaction("interaction.respond", params);
        if turn.is_some() {
            // With a turn id the answer is idempotent.
            request = request.repeatable();
        }
        let result = request.await?;
        self.take_token(&result);
        self.is_retry_due = false;
        if result.get("accepted").and_then(Value::as_bool) == Some(true) {
            self.answered = turn.or(self.answered);
            self.next = Next::Unknown;
            self.is_seen = false;
            self.take(&result);
            return Ok(ResponseOutcome::Accepted);
        }
        let violation = rejection(&result);
        if let Next::Prompt(question) | Next::Rejected(question) = &self.next {
            let rejection = Some(violation.clone());
            let rejected = Box::new(PendingPrompt { rejection, ..*question.clone() });
            self.next = Next::Rejected(rejected);
        }
        if let Some(next) = result.get("next")
            && let Some(prompt) = next.get("prompt").filter(|prompt| prompt.is_object())
        {
            let question = PendingPrompt::read(prompt.clone(), next.get("progress"));
            self.apply(Pushed::Prompt(Box::new(question)));
        }
        Ok(ResponseOutcome::Rejected(violation))
    }

    /// Sends a signal to the flow, which gets the value where it waits for one of this name. Returns
    /// whether the signal is kept, since the flow does not wait for it yet.
    pub async fn signal(&mut self, name: &str, value: Value) -> Result<bool, Error> {
        let mut params = self.params();
        params.extend([("name".to_owned(), json!(name)), ("value".to_owned(), value)]);
        let result = self.client.interaction("interaction.signal", params).await?;
        let is_kept = result.get("kept").and_then(Value::as_bool) == Some(true);
        if !is_kept {
            self.take(&result);
        }
        Ok(is_kept)
    }

    /// Cancels the session.
    pub async fn cancel(self, reason: Option<&str>) -> Result<(), Error> {
        let mut params = self.params();
        params.extend(reason.map(|reason| ("reason".to_owned(), json!(reason))));
        self.client.interaction("interaction.cancel", params).await.map(|_| ())
    }

    /// Completes the session early with the answers so far, if the flow allows that.
    pub async fn complete(self) -> Result<Value, Error> {
        let params = self.params();
        let result = self.client.interaction("interaction.complete", params).await?;
        Ok(result.get("finalResult").cloned().unwrap_or_default())
    }

    fn params(&self) -> Map<String, Value> {
        let mut params = super::by_session(&self.session);
        params.extend(self.token.as_ref().map(|token| ("sessionToken".to_owned(), json!(token))));
        params
    }

    /// Waits until the open question is obsolete: the session has ended, or asks another one.
    pub(super) async fn superseded(&mut self) {
        loop {
            match self.pushed.recv().await {
                Some(pushed) => {
                    if self.apply(pushed) {
                        return;
                    }
                }
                None => std::future::pending().await,
            }
        }
    }

    /// Applies everything that the server has pushed so far.
    fn apply_pushed(&mut self) {
        while let Ok(pushed) = self.pushed.try_recv() {
            self.apply(pushed);
        }
    }

    /// Applies a pushed message; returns whether it makes the open question obsolete.
    fn apply(&mut self, pushed: Pushed) -> bool {
        match (pushed, &self.next) {
            (Pushed::Progress, _) | (_, Next::Finished(_) | Next::Failed(_)) => false,
            (Pushed::Expired(error), _) => {
                self.next = Next::Failed(error);
                true
            }
            (Pushed::Finished(finished), _) => {
                self.next = Next::Finished(finished);
                true
            }
            (Pushed::Prompt(question), _) if self.is_answered(&question) => false,
            (Pushed::Prompt(question), Next::Prompt(open))
                if is_same(open, &question, self.is_retry_due) =>
            {
                self.is_retry_due = false;
                false
            }
            (Pushed::Prompt(mut question), Next::Rejected(rejected)) => {
                // The first prompt after a rejection repeats the question, unless its turn differs.
                self.is_seen &= is_same(rejected, &question, true);
                if question.rejection.is_none() {
                    question.rejection = rejected.rejection.clone();
                }
                self.next = Next::Prompt(question);
                false
            }
            (Pushed::Prompt(question), before) => {
                let is_obsolete = matches!(before, Next::Prompt(_));
                self.is_seen = false;
                self.next = Next::Prompt(question);
                is_obsolete
            }
        }
    }

    fn is_answered(&self, question: &PendingPrompt) -> bool {
        matches!((question.turn, self.answered), (Some(turn), Some(answered)) if turn <= answered)
    }

    /// Polls a server that has not pushed the next step. A rejected question stays open without
    /// polling.
    async fn poll(&mut self) -> Result<(), Error> {
        if let Next::Rejected(question) = &self.next {
            self.next = Next::Prompt(question.clone());
            self.is_retry_due = true;
            return Ok(());
        }
        if !self.lacks_continue {
            let asked = self.client.interaction("interaction.continue", self.params());
            match asked.repeatable().await {
                // Not all servers have it; all have `interaction.getState`.
                Err(Error::Server(error)) if error.code == -32601 => self.lacks_continue = true,
                result => {
                    self.take_state(&result?);
                    return Ok(());
                }
            }
        }
        let asked = self.client.interaction("interaction.getState", self.params());
        let result = asked.repeatable().await?;
        self.take_state(&result);
        Ok(())
    }

    fn take_token(&mut self, result: &Value) {
        if let Some(token) = result.get("sessionToken").and_then(Value::as_str) {
            self.token = Some(token.to_owned());
        }
    }

    /// Reads the token and the next step from a result.
    fn take(&mut self, result: &Value) {
        self.take_token(result);
        let Some(next) = result.get("next") else { return };
        if let Some(prompt) = next.get("prompt").filter(|prompt| prompt.is_object()) {
            let question = PendingPrompt::read(prompt.clone(), next.get("progress"));
            self.next = Next::Prompt(Box::new(question));
        } else if let Some(complete) = next.get("complete") {
            self.next = Next::Finished(SessionResult::read(complete));
        }
    }

    /// Reads the next step from the state of a session.
    fn take_state(&mut self, result: &Value) {
        self.take(result);
        if !matches!(self.next, Next::Unknown) {
            return;
        }
        if let Some(prompt) = result.get("currentPrompt").filter(|prompt| prompt.is_object()) {
            self.next = Next::Prompt(Box::new(PendingPrompt::read(prompt.clone(), None)));
            return;
        }
        let state = result.get("state").and_then(Value::as_str);
        if matches!(state, Some("completed" | "cancelled" | "error"))
            && result.get("next").is_none()
        {
            let mut finished = SessionResult::read(result);
            if result.get("result").is_none() {
                // Seed 000 has the state and the accumulated data, and no result.
                finished.success = true;
                finished.data = result.get("accumulatedData").cloned().unwrap_or_default();
            }
            finished.success &= state == Some("completed");
            self.next = Next::Finished(finished);
        }
    }
}

impl SessionResult {
    /// Decodes `{result, summary}`.
    pub(super) fn read(complete: &Value) -> Self {
        let result = complete.get("result");
        let member = |name: &str| result.and_then(|result| result.get(name)).cloned();
        Self {
            session: None,
            success: member("success").and_then(|flag| flag.as_bool()).unwrap_or_default(),
            data: member("data").unwrap_or_default(),
            summary: complete.get("summary").and_then(Value::as_str).map(str::to_owned),
            error: member("error"),
        }
    }
}

/// Returns whether a pushed question repeats the open one: by its turn, or else as the repetition
/// after a rejection, or by equality.
fn is_same(open: &PendingPrompt, pushed: &PendingPrompt, is_retry_due: bool) -> bool {
    match (open.turn, pushed.turn) {
        (None, None) => is_retry_due || open.prompt == pushed.prompt,
        (open, pushed) => open == pushed,
    }
}

/// Decodes the validation error of a rejected answer.
fn rejection(result: &Value) -> InvalidAnswer {
    let said = |name: &str| {
        let validation = result.get("validation")?;
        validation.get(name)?.as_str().map(str::to_owned)
    };
    let error = said("error").unwrap_or_else(|| "the answer was not accepted".to_owned());
    match said("suggestion") {
        Some(suggestion) => InvalidAnswer::new(error).suggest(suggestion),
        None => InvalidAnswer::new(error),
    }
}

/// Time to wait for a pushed message before polling.
const POLL: Duration = Duration::from_millis(200);
