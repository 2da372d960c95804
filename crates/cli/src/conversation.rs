//! A conversation with a flow, held in the terminal.

use mcp_flow::client::interaction::{Conversation, Finished, Turn, Verdict};
use mcp_flow::client::{Client, Error, Progress, ServerError};
use serde_json::{Map, Value, json};

use crate::ask::question::Question;
use crate::ask::{Asked, Asker, complaint};
use crate::exit::{Exit, Failure};
use crate::fault::explain;
use crate::meter::Meter;

/// Who answers, and what they are told when they leave before the end.
pub(crate) struct Talk<'a> {
    pub(crate) asker: &'a Asker,
    pub(crate) meter: &'a Meter,
    /// What is typed to take up a conversation again; the session's name comes last.
    pub(crate) resume: String,
}

/// Why a conversation did not go on.
enum Broken {
    /// The server does not know the session any more.
    Expired(Error),
    Failed(anyhow::Error),
}

impl From<anyhow::Error> for Broken {
    fn from(error: anyhow::Error) -> Self {
        Self::Failed(error)
    }
}

impl From<Error> for Broken {
    fn from(error: Error) -> Self {
        match error.server().is_some_and(is_gone) {
            true => Self::Expired(error),
            false => Self::Failed(explain(error)),
        }
    }
}

/// Returns whether the session has expired. Other servers may say so by the error code alone.
fn is_gone(error: &ServerError) -> bool {
    match error.name() {
        Some(name) => matches!(name, "SESSION_EXPIRED" | "SESSION_NOT_FOUND"),
        None => matches!(error.code, -32001 | -32002 | -31001 | -31002),
    }
}

impl Broken {
    fn into_error(self) -> anyhow::Error {
        match self {
            Self::Expired(error) => explain(error),
            Self::Failed(error) => error,
        }
    }
}

impl Talk<'_> {
    /// Starts a flow and answers its questions until it ends. One that expires meanwhile is begun
    /// again with what was answered so far (INT-088).
    pub(crate) async fn hold(
        &self,
        client: &Client,
        flow: &str,
        given: Map<String, Value>,
    ) -> anyhow::Result<Value> {
        let mut known = given;
        let mut starts = 1;
        loop {
            let mut conversation = client.begin(flow, known.clone()).await.map_err(explain)?;
            match self.go_on(&mut conversation, &mut known).await {
                Ok(finished) => return Ok(end(conversation.session(), &finished)),
                Err(Broken::Expired(_)) if starts < MOST_STARTS => {
                    starts += 1;
                    eprintln!("The conversation has expired; it is begun again.");
                }
                Err(broken) => return Err(broken.into_error()),
            }
        }
    }

    /// Takes up a conversation that waits for an answer.
    pub(crate) async fn take_up(&self, client: &Client, session: &str) -> anyhow::Result<Value> {
        let mut conversation = client.resume(session);
        let finished = self.go_on(&mut conversation, &mut Map::new()).await;
        finished.map(|finished| end(session, &finished)).map_err(Broken::into_error)
    }

    async fn go_on(
        &self,
        conversation: &mut Conversation,
        known: &mut Map<String, Value>,
    ) -> Result<Finished, Broken> {
        let mut rejected = 0;
        loop {
            let asked = match conversation.next().await? {
                Turn::Finished(finished) => {
                    self.meter.clear();
                    return Ok(finished);
                }
                Turn::Question(asked) => asked,
            };
            let key = asked.key.as_deref().unwrap_or("answer");
            let question = Question::of_prompt(key, asked.prompt.clone());
            let value = self.answer(conversation.session(), question).await?;
            if let Some(progress) = &asked.progress {
                self.meter.report(&Progress {
                    progress: progress.current,
                    total: Some(progress.total),
                    message: progress.message.clone(),
                });
            }
            match conversation.answer(value.clone()).await? {
                Verdict::Accepted => {
                    rejected = 0;
                    known.insert(key.to_owned(), value);
                }
                Verdict::Rejected(violation) => {
                    self.meter.clear();
                    eprintln!("Not accepted: {}", complaint(&violation));
                    rejected += 1;
                    // Where nobody types, the next answer will be the same.
                    if rejected >= MOST_REJECTED && !Asker::is_interactive() {
                        let why = format!("{rejected} answers were not accepted");
                        let left = self.left(conversation.session(), Exit::Failed, &why);
                        return Err(Broken::Failed(left.into()));
                    }
                }
            }
        }
    }

    /// Has a question answered. Whoever leaves finds everything later as it was left.
    pub(crate) async fn answer(&self, session: &str, question: Question) -> anyhow::Result<Value> {
        self.meter.clear();
        let key = question.key.clone();
        let (exit, why) = match self.asker.ask(question).await? {
            Asked::Answer(value) => return Ok(value),
            Asked::Interrupted => (Exit::Interrupted, "interrupted".to_owned()),
            Asked::Declined => (Exit::Denied, "not answered".to_owned()),
            Asked::NoMore => {
                let why = format!(
                    "`{key}` is asked for and nobody answers; give it as {key}=VALUE or by --answers"
                );
                (Exit::Usage, why)
            }
        };
        Err(self.left(session, exit, &why).into())
    }

    /// What ends a conversation that goes on later.
    fn left(&self, session: &str, exit: Exit, why: &str) -> Failure {
        let message = format!(
            "{why}. The conversation waits; take it up again with\n  {} {}",
            self.resume,
            crate::show::neutral(session)
        );
        Failure::new(exit, message)
    }
}

/// How a conversation ended, as programs read it.
fn end(session: &str, finished: &Finished) -> Value {
    let Finished { success, data, summary, error, .. } = finished;
    let mut result = json!({"success": success, "data": data});
    if let Some(error) = error {
        result["error"] = error.clone();
    }
    json!({"sessionId": session, "result": result, "summary": summary})
}

const MOST_STARTS: usize = 3;

/// How many answers in a row may be refused where no person gives them.
const MOST_REJECTED: usize = 20;
