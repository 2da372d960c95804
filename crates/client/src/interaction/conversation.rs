//! A conversation, held step by step.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use mcp_flow_session::Violation;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use super::pushed::{Pushed, Registration, Starting};
use super::question::Question;
use crate::client::Client;
use crate::error::Error;
use crate::host::ProposedCall;

/// A conversation with a tool, under way on the server. Dropped, it stays there, and can be taken
/// up again by [`Client::resume`].
#[derive(Debug)]
pub struct Conversation {
    client: Client,
    session: String,
    /// What stands for the session where the server keeps none.
    token: Option<String>,
    next: Next,
    /// The last turn whose answer was accepted, where the server names turns.
    answered: Option<u64>,
    /// The rejected question was shown again before the server repeated it, which it still may.
    is_retry_due: bool,
    /// The server cannot be asked what is next, only how the session stands.
    lacks_continue: bool,
    pushed: mpsc::Receiver<Pushed>,
    _registration: Registration,
}

#[derive(Clone, Debug)]
enum Next {
    /// Nobody has said yet.
    Unknown,
    Question(Box<Question>),
    /// The answer to it was rejected. The server may ask again in words of its own (C-09).
    Rejected(Box<Question>),
    Finished(Finished),
}

/// What comes next in a conversation.
#[derive(Clone, Debug, PartialEq)]
pub enum Turn {
    /// This is asked.
    Question(Box<Question>),
    /// It is over.
    Finished(Finished),
}

/// How a conversation ended.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Finished {
    /// The session it was; none for a call that took everything upfront.
    pub session: Option<String>,
    /// Whether it led to what it was for.
    pub success: bool,
    /// What it led to.
    pub data: Value,
    /// The same for people.
    pub summary: Option<String>,
    /// What went wrong, if something did.
    pub error: Option<Value>,
}

/// What the server says to an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// It was taken.
    Accepted,
    /// It was not, for this reason; the question stands.
    Rejected(Violation),
    /// It was not sent: the conversation had ended or asked something else meanwhile.
    Outdated,
}

impl Client {
    /// Begins a conversation with a tool.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), mcp_flow_client::Error> {
    /// use mcp_flow_client::interaction::{Turn, Verdict};
    /// # use serde_json::{Map, json};
    /// # let server = mcp_flow_testkit::fixture::Fixture::conversing().server;
    /// # let connector = mcp_flow_stdio::client::in_process(&server);
    /// # let client = mcp_flow_client::Client::builder().connect(connector).await?;
    ///
    /// let mut conversation = client.begin("wizard", Map::new()).await?;
    /// for answer in ["Ada", "not an address", "ada@a.example"] {
    ///     let Turn::Question(question) = conversation.next().await? else { break };
    ///     match conversation.answer(json!(answer)).await? {
    ///         Verdict::Accepted => {}
    ///         Verdict::Rejected(_) => assert_eq!(question.prompt.message, "Enter email"),
    ///         Verdict::Outdated => panic!("nobody else takes part"),
    ///     }
    /// }
    /// let Turn::Finished(finished) = conversation.next().await? else { panic!("it asks on") };
    /// assert_eq!(finished.data["name"], "Ada");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn begin(
        &self,
        tool: &str,
        initial: Map<String, Value>,
    ) -> Result<Conversation, Error> {
        let link = self.shared.link().await?;
        let definition = self.listed_tool(tool);
        let call = ProposedCall { tool, arguments: &initial, definition: definition.as_deref() };
        self.shared.approve(&link, &call).await?;
        // Questions may be sent before the result that names the session has been looked at.
        let starting = self.shared.conversations.starting();
        let params = Map::from_iter([
            ("toolName".to_owned(), json!(tool)),
            ("initialParams".to_owned(), Value::Object(initial)),
        ]);
        let result = self.interaction("interaction.start", params).await?;
        let Some(session) = result.get("sessionId").and_then(Value::as_str) else {
            return Err(Error::Protocol("interaction.start gives no sessionId".to_owned()));
        };
        let mut conversation = Conversation::new(self, session, starting);
        conversation.take(&result);
        if matches!(conversation.next, Next::Unknown)
            && let Some(prompt) = result.get("initialPrompt").filter(|prompt| prompt.is_object())
        {
            let question = Question::read(prompt.clone(), result.get("progress"));
            conversation.next = Next::Question(Box::new(question));
        }
        Ok(conversation)
    }

    /// Takes a conversation up again that was left, here or elsewhere.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), mcp_flow_client::Error> {
    /// # use mcp_flow_client::interaction::Turn;
    /// # use serde_json::Map;
    /// # let server = mcp_flow_testkit::fixture::Fixture::conversing().server;
    /// # let connector = mcp_flow_stdio::client::in_process(&server);
    /// # let client = mcp_flow_client::Client::builder().connect(connector).await?;
    /// let session = client.begin("wizard", Map::new()).await?.session().to_owned();
    /// // Later, perhaps by another client of the same person.
    /// let Turn::Question(question) = client.resume(&session).next().await? else { panic!("it is over") };
    /// assert_eq!(question.prompt.message, "Enter name");
    /// # Ok(())
    /// # }
    /// ```
    pub fn resume(&self, session: &str) -> Conversation {
        Conversation::new(self, session, self.shared.conversations.starting())
    }
}

impl Conversation {
    fn new(client: &Client, session: &str, starting: Starting) -> Self {
        let (registration, pushed) = starting.register(&client.shared, session);
        Self {
            client: client.clone(),
            session: session.to_owned(),
            token: None,
            next: Next::Unknown,
            answered: None,
            is_retry_due: false,
            lacks_continue: false,
            pushed,
            _registration: registration,
        }
    }

    /// The name of the session, by which it can be taken up again.
    pub fn session(&self) -> &str {
        &self.session
    }

    /// What comes next, waiting for it as long as the server says that it is at work.
    pub async fn next(&mut self) -> Result<Turn, Error> {
        let limit = self.client.shared.options.total_limit;
        let begun = Instant::now();
        while begun.elapsed() < limit {
            self.heed_pushed();
            match &self.next {
                Next::Question(question) => {
                    let session = Some(self.session.clone());
                    return Ok(Turn::Question(Box::new(Question { session, ..*question.clone() })));
                }
                Next::Finished(finished) => {
                    let session = Some(self.session.clone());
                    return Ok(Turn::Finished(Finished { session, ..finished.clone() }));
                }
                Next::Unknown | Next::Rejected(_) => {}
            }
            // A server that sends what is next has mostly sent it by now.
            match tokio::time::timeout(POLL, self.pushed.recv()).await {
                Ok(Some(pushed)) => {
                    self.heed(pushed);
                }
                Ok(None) | Err(_) => self.look().await?,
            }
        }
        Err(Error::Timeout { what: "the next question".to_owned(), limit })
    }

    /// Answers the question.
    pub async fn answer(&mut self, value: Value) -> Result<Verdict, Error> {
        if self.heed_pushed() || matches!(self.next, Next::Finished(_)) {
            return Ok(Verdict::Outdated);
        }
        let turn = match &self.next {
            Next::Question(question) | Next::Rejected(question) => question.turn,
            Next::Unknown | Next::Finished(_) => None,
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
            // An answer that names its turn is taken once, however often it comes.
            request = request.repeatable();
        }
        let result = request.await?;
        self.take_token(&result);
        self.is_retry_due = false;
        if result.get("accepted").and_then(Value::as_bool) == Some(true) {
            self.answered = turn.or(self.answered);
            self.next = Next::Unknown;
            self.take(&result);
            return Ok(Verdict::Accepted);
        }
        let violation = rejection(&result);
        if let Next::Question(question) | Next::Rejected(question) = &self.next {
            let rejection = Some(violation.clone());
            let rejected = Box::new(Question { rejection, ..*question.clone() });
            self.next = Next::Rejected(rejected);
        }
        if let Some(next) = result.get("next")
            && let Some(prompt) = next.get("prompt").filter(|prompt| prompt.is_object())
        {
            let question = Question::read(prompt.clone(), next.get("progress"));
            self.heed(Pushed::Question(Box::new(question)));
        }
        Ok(Verdict::Rejected(violation))
    }

    /// Ends the conversation.
    pub async fn cancel(self, reason: Option<&str>) -> Result<(), Error> {
        let mut params = self.params();
        params.extend(reason.map(|reason| ("reason".to_owned(), json!(reason))));
        self.client.interaction("interaction.cancel", params).await.map(|_| ())
    }

    /// Finishes the conversation before its end, with what there is, if the tool can do that.
    pub async fn finish(self) -> Result<Value, Error> {
        let params = self.params();
        let result = self.client.interaction("interaction.complete", params).await?;
        Ok(result.get("finalResult").cloned().unwrap_or_default())
    }

    fn params(&self) -> Map<String, Value> {
        let mut params = super::by_session(&self.session);
        params.extend(self.token.as_ref().map(|token| ("sessionToken".to_owned(), json!(token))));
        params
    }

    /// Completes when an answer to the open question would come too late: the conversation has
    /// ended, or asks something else.
    pub(super) async fn moved_on(&mut self) {
        loop {
            match self.pushed.recv().await {
                Some(pushed) => {
                    if self.heed(pushed) {
                        return;
                    }
                }
                None => std::future::pending().await,
            }
        }
    }

    /// Takes in everything the server has sent so far; returns whether it makes the open question
    /// obsolete.
    fn heed_pushed(&mut self) -> bool {
        let mut is_obsolete = false;
        while let Ok(pushed) = self.pushed.try_recv() {
            is_obsolete |= self.heed(pushed);
        }
        is_obsolete
    }

    /// Takes in what the server has sent; returns whether it makes the open question obsolete.
    fn heed(&mut self, pushed: Pushed) -> bool {
        match (pushed, &self.next) {
            (Pushed::Progress, _) | (_, Next::Finished(_)) => false,
            (Pushed::Finished(finished), _) => {
                self.next = Next::Finished(finished);
                true
            }
            (Pushed::Question(question), _) if self.is_answered(&question) => false,
            (Pushed::Question(question), Next::Question(open))
                if is_same(open, &question, self.is_retry_due) =>
            {
                self.is_retry_due = false;
                false
            }
            (Pushed::Question(mut question), Next::Rejected(rejected)) => {
                if question.rejection.is_none() {
                    question.rejection = rejected.rejection.clone();
                }
                self.next = Next::Question(question);
                false
            }
            (Pushed::Question(question), before) => {
                let is_obsolete = matches!(before, Next::Question(_));
                self.next = Next::Question(question);
                is_obsolete
            }
        }
    }

    fn is_answered(&self, question: &Question) -> bool {
        matches!((question.turn, self.answered), (Some(turn), Some(answered)) if turn <= answered)
    }

    /// Finds out what is next from a server that has not sent it: the rejected question stands, and
    /// anything else is asked for.
    async fn look(&mut self) -> Result<(), Error> {
        if let Next::Rejected(question) = &self.next {
            self.next = Next::Question(question.clone());
            self.is_retry_due = true;
            return Ok(());
        }
        if !self.lacks_continue {
            let asked = self.client.interaction("interaction.continue", self.params());
            match asked.repeatable().await {
                // Only some servers can be asked; all of them tell how a session stands.
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

    /// Takes what is next out of a result that says so.
    fn take(&mut self, result: &Value) {
        self.take_token(result);
        let Some(next) = result.get("next") else { return };
        if let Some(prompt) = next.get("prompt").filter(|prompt| prompt.is_object()) {
            let question = Question::read(prompt.clone(), next.get("progress"));
            self.next = Next::Question(Box::new(question));
        } else if let Some(complete) = next.get("complete") {
            self.next = Next::Finished(Finished::read(complete));
        }
    }

    /// Takes what is next out of the state of a session.
    fn take_state(&mut self, result: &Value) {
        self.take(result);
        if !matches!(self.next, Next::Unknown) {
            return;
        }
        if let Some(prompt) = result.get("currentPrompt").filter(|prompt| prompt.is_object()) {
            self.next = Next::Question(Box::new(Question::read(prompt.clone(), None)));
            return;
        }
        let state = result.get("state").and_then(Value::as_str);
        if matches!(state, Some("completed" | "cancelled" | "error"))
            && result.get("next").is_none()
        {
            let mut finished = Finished::read(result);
            if result.get("result").is_none() {
                // Seed 000 tells the state and what was gathered, and no result.
                finished.success = true;
                finished.data = result.get("accumulatedData").cloned().unwrap_or_default();
            }
            finished.success &= state == Some("completed");
            self.next = Next::Finished(finished);
        }
    }
}

impl Finished {
    /// Reads `{result, summary}`.
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

/// Returns whether a question is the open one again: by its turn, or else as the repetition that
/// follows a rejection, or word for word.
fn is_same(open: &Question, pushed: &Question, is_retry_due: bool) -> bool {
    match (open.turn, pushed.turn) {
        (None, None) => is_retry_due || open.prompt == pushed.prompt,
        (open, pushed) => open == pushed,
    }
}

/// Reads why an answer was rejected.
fn rejection(result: &Value) -> Violation {
    let said = |name: &str| {
        let validation = result.get("validation")?;
        validation.get(name)?.as_str().map(str::to_owned)
    };
    let error = said("error").unwrap_or_else(|| "the answer was not accepted".to_owned());
    match said("suggestion") {
        Some(suggestion) => Violation::new(error).suggest(suggestion),
        None => Violation::new(error),
    }
}

/// How long a server may take to send what is next before it is asked.
const POLL: Duration = Duration::from_millis(200);
