//! Conversations with flows, held in the terminal: the client asks what comes next, and the person
//! here answers.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::BoxFuture;
use mcp_flow::client::host::Asker as Server;
use mcp_flow::client::interaction::{Finished, PromptAnswer, Question as Prompted};
use mcp_flow::client::model::ClientCapabilities;
use mcp_flow::client::{Client, Error, Host, Progress};
use serde_json::{Value, json};

use crate::ask::question::Question;
use crate::ask::{Asked, Asker, complaint};
use crate::exit::{Exit, Failure};
use crate::fault::explain;
use crate::host::Inline;
use crate::interrupt::interrupted;
use crate::meter::Meter;
use crate::show::neutral;

/// Answers the questions of a conversation, and knows what to say when it is left before its end.
/// Cheap to clone; clones share what they know.
#[derive(Clone)]
pub(crate) struct Talk {
    asker: Asker,
    meter: Meter,
    open: Arc<Mutex<Open>>,
}

/// The conversation under way.
struct Open {
    resumption: Resumption,
    /// Its session, as soon as it has asked something.
    session: Option<String>,
    /// Number of answers rejected in a row.
    rejected: usize,
    /// Reason it was left.
    left: Option<anyhow::Error>,
}

/// Outcome of a conversation that is left before its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Resumption {
    /// This command, with the session's name behind it, takes it up again.
    By(String),
    /// The same, at a running server of our kind: one whose questions name their turn.
    Running(String),
    /// It ends with its server, which was started for this command.
    Ends,
    /// The server keeps no sessions.
    NotKept,
    /// The server keeps it; how it is taken up again is its own affair.
    Unknown,
}

impl Talk {
    pub(crate) fn new(asker: Asker, meter: Meter, resumption: Resumption) -> Self {
        let open = Open { resumption, session: None, rejected: 0, left: None };
        Self { asker, meter, open: Arc::new(Mutex::new(open)) }
    }

    /// Says what becomes of conversations that are left.
    pub(crate) fn set_resumption(&self, resumption: Resumption) {
        self.open().resumption = resumption;
    }

    /// Takes up a conversation that waits for an answer.
    pub(crate) async fn take_up(&self, client: &Client, session: &str) -> anyhow::Result<Value> {
        self.ended(client.hold(client.resume(session)).await)
    }

    /// The end of a conversation as programs read it, or why there is none.
    pub(crate) fn ended(&self, held: Result<Finished, Error>) -> anyhow::Result<Value> {
        self.meter.clear();
        let mut open = self.open();
        let session = open.session.take();
        match (held, open.left.take()) {
            (Ok(finished), _) => {
                let session = finished.session.or(session);
                let mut result = json!({"success": finished.success, "data": finished.data});
                if let Some(error) = finished.error {
                    result["error"] = error;
                }
                Ok(json!({"sessionId": session, "result": result, "summary": finished.summary}))
            }
            (Err(_), Some(left)) => Err(left),
            (Err(error), None) => Err(explain(error)),
        }
    }

    /// What ctrl-c ends in, where it is a signal and no key.
    pub(crate) fn interrupted(&self) -> anyhow::Error {
        let open = self.open();
        match &open.session {
            Some(session) => open.leave(session, Exit::Interrupted, "interrupted").into(),
            None => interrupted(),
        }
    }

    /// Has a question answered. The error says what becomes of the session that asks.
    pub(crate) async fn answer(&self, session: &str, question: Question) -> anyhow::Result<Value> {
        self.open().session = Some(session.to_owned());
        self.meter.clear();
        let key = question.key.clone();
        let (exit, why) = match self.asker.ask(question).await? {
            Asked::Answer(value) => return Ok(value),
            Asked::Interrupted => (Exit::Interrupted, "interrupted".to_owned()),
            Asked::Declined => (Exit::Denied, "not answered".to_owned()),
            Asked::NoMore if key == NAMELESS => {
                let why = "nobody answers the question; answer it on standard input".to_owned();
                (Exit::Usage, why)
            }
            Asked::NoMore => {
                let why = format!(
                    "`{key}` is asked for and nobody answers; give it as {key}=VALUE or by --answers"
                );
                (Exit::Usage, why)
            }
        };
        Err(self.open().leave(session, exit, &why).into())
    }

    /// Answers what the client asks in the course of a conversation.
    async fn reply(&self, asked: &Prompted) -> PromptAnswer {
        let session = asked.session.as_deref().unwrap_or_default();
        if let Err(left) = self.check_rejections(session, asked) {
            self.open().left = Some(left.into());
            return PromptAnswer::Leave;
        }
        let key = asked.key.as_deref().unwrap_or(NAMELESS);
        let question = Question::of_prompt(key, asked.prompt.clone());
        match self.answer(session, question).await {
            Ok(value) => {
                if let Some(progress) = &asked.progress {
                    self.meter.report(&Progress {
                        progress: progress.current,
                        total: Some(progress.total),
                        message: progress.message.clone(),
                    });
                }
                PromptAnswer::Value(value)
            }
            Err(left) => {
                self.open().left = Some(left);
                PromptAnswer::Leave
            }
        }
    }

    /// Tells why the last answer was rejected. Where nobody types, the next one will be the same.
    fn check_rejections(&self, session: &str, asked: &Prompted) -> Result<(), Failure> {
        let mut open = self.open();
        if asked.turn.is_none() && matches!(open.resumption, Resumption::Running(_)) {
            open.resumption = Resumption::Unknown;
        }
        let Some(violation) = &asked.rejection else {
            open.rejected = 0;
            return Ok(());
        };
        self.meter.clear();
        eprintln!("Not accepted: {}", complaint(violation));
        open.rejected += 1;
        if open.rejected < MOST_REJECTED || Asker::is_interactive() {
            return Ok(());
        }
        let why = format!("{} answers were not accepted", open.rejected);
        Err(open.leave(session, Exit::Failed, &why))
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    /// What a conversation ends in for now.
    fn leave(&self, session: &str, exit: Exit, why: &str) -> Failure {
        let session = neutral(session);
        let fate = match &self.resumption {
            Resumption::By(command) | Resumption::Running(command) => {
                format!("The conversation waits; take it up again with\n  {command} {session}")
            }
            Resumption::Ends => {
                "The conversation ends with its server, which was started for this command and \
                 keeps it in memory"
                    .to_owned()
            }
            Resumption::NotKept => {
                "The server keeps no sessions, so the conversation cannot be taken up again"
                    .to_owned()
            }
            Resumption::Unknown => {
                format!("The conversation waits at the server as {session} until it expires")
            }
        };
        Failure::new(exit, format!("{why}. {fate}"))
    }
}

impl Host for Talk {
    fn capabilities(&self) -> ClientCapabilities {
        Inline.capabilities()
    }

    fn answer<'a>(&'a self, _: &'a Server, asked: &'a Prompted) -> BoxFuture<'a, PromptAnswer> {
        Box::pin(self.reply(asked))
    }
}

/// The key of a question whose server gives it none.
const NAMELESS: &str = "answer";

/// Limit on answers rejected in a row where no person gives them.
const MOST_REJECTED: usize = 20;
