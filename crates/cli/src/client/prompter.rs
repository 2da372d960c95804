//! Answers the prompts of a session in the terminal, and says how to resume a session that is left
//! before its end.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use mcp_flow::client::host::ServerIdentity as Server;
use mcp_flow::client::interaction::{
    PendingPrompt as SessionQuestion, PromptAnswer, SessionResult,
};
use mcp_flow::client::model::ClientCapabilities;
use mcp_flow::client::{Client, Error, Host, RequestProgress};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::client::error::explain;
use crate::client::interrupt::interrupted;
use crate::client::user::InlineHost;
use crate::exit::{Exit, Failure};
use crate::terminal::ask::question::{Question, without_pattern};
use crate::terminal::ask::{Reply, UserInput, violation_text};
use crate::terminal::output::sanitize;
use crate::terminal::progress::ProgressDisplay;

/// Answers the prompts of a session. Cheap to clone; clones share their state.
#[derive(Clone)]
pub(crate) struct Prompter {
    input: UserInput,
    progress: ProgressDisplay,
    state: Arc<Mutex<State>>,
}

/// State of the session in progress.
struct State {
    resumption: Resumption,
    /// Id of the session, known from its first prompt on.
    session: Option<String>,
    /// Number of answers rejected in a row.
    rejected: usize,
    /// Reason the person left the session.
    left: Option<anyhow::Error>,
}

/// Way to resume a session that is left before its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Resumption {
    /// This command, followed by the session's id, resumes it.
    Command(String),
    /// Like `Command`, if the server turns out to be mcp-flow: it sends a turn id with its prompts.
    RunningServer(String),
    /// The session ends with its server, which was started for this command.
    EndsWithServer,
    /// The server, which was started for this command, keeps the session where only it knows.
    KeptByProgram,
    /// The server keeps no sessions.
    NotKept,
    /// The server keeps the session, and does not say how to resume it.
    Unknown,
}

impl Prompter {
    pub(crate) fn new(input: UserInput, progress: ProgressDisplay, resumption: Resumption) -> Self {
        let state = State { resumption, session: None, rejected: 0, left: None };
        Self { input, progress, state: Arc::new(Mutex::new(state)) }
    }

    /// Sets the way to resume sessions that are left.
    pub(crate) fn set_resumption(&self, resumption: Resumption) {
        self.state.lock().resumption = resumption;
    }

    /// Resumes a session that waits for an answer, until it ends.
    pub(crate) async fn resume(&self, client: &Client, session: &str) -> anyhow::Result<Value> {
        self.finish(client.run_session(client.resume_session(session)).await)
    }

    /// Converts the end of a session to JSON; an error if the session was left or failed.
    pub(crate) fn finish(&self, ended: Result<SessionResult, Error>) -> anyhow::Result<Value> {
        self.progress.clear();
        let mut state = self.state.lock();
        let session = state.session.take();
        match (ended, state.left.take()) {
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

    /// Error for ctrl-c as a signal rather than a key.
    pub(crate) fn interrupted(&self) -> anyhow::Error {
        let state = self.state.lock();
        match &state.session {
            Some(session) => state.leave(session, Exit::Interrupted, "interrupted").into(),
            None => interrupted(),
        }
    }

    /// Asks the person. The error says how to resume the session.
    pub(crate) async fn answer_prompt(
        &self,
        session: &str,
        question: Question,
    ) -> anyhow::Result<Value> {
        self.state.lock().session = Some(session.to_owned());
        self.progress.clear();
        let (key, is_approval) = (question.key.clone(), question.rules.is_approval());
        let (exit, reason) = match self.input.ask(question).await? {
            Reply::Answer(value) => return Ok(value),
            Reply::Interrupted => (Exit::Interrupted, "interrupted".to_owned()),
            Reply::Declined => (Exit::Denied, "not answered".to_owned()),
            Reply::EndOfInput if key == DEFAULT_KEY => {
                let reason = "no answer to the question; pass one on standard input".to_owned();
                (Exit::Usage, reason)
            }
            Reply::EndOfInput if is_approval => {
                // No argument approves.
                let reason =
                    format!("no answer to the question `{key}`; pass a file with --answers");
                (Exit::Usage, reason)
            }
            Reply::EndOfInput => {
                let reason = format!(
                    "no answer to the question `{key}`; pass {key}=VALUE, or a file with --answers"
                );
                (Exit::Usage, reason)
            }
        };
        Err(self.state.lock().leave(session, exit, &reason).into())
    }

    async fn answer_question(&self, asked: &SessionQuestion) -> PromptAnswer {
        let session = asked.session.as_deref().unwrap_or_default();
        if let Err(left) = self.check_rejections(session, asked) {
            self.state.lock().left = Some(left.into());
            return PromptAnswer::Leave;
        }
        let key = asked.key.as_deref().unwrap_or(DEFAULT_KEY);
        let question = Question::of_prompt(key, asked.prompt.clone());
        match self.answer_prompt(session, question).await {
            Ok(value) => {
                if let Some(progress) = &asked.progress {
                    self.progress.report(&RequestProgress {
                        progress: progress.current,
                        total: Some(progress.total),
                        message: progress.message.clone(),
                    });
                }
                PromptAnswer::Value(value)
            }
            Err(left) => {
                self.state.lock().left = Some(left);
                PromptAnswer::Leave
            }
        }
    }

    /// Shows why the last answer was rejected. Fails after too many rejections where no person
    /// types, since the next answer will be the same.
    fn check_rejections(&self, session: &str, asked: &SessionQuestion) -> Result<(), Failure> {
        let mut state = self.state.lock();
        if asked.turn.is_none() && matches!(state.resumption, Resumption::RunningServer(_)) {
            state.resumption = Resumption::Unknown;
        }
        let Some(violation) = &asked.rejection else {
            state.rejected = 0;
            return Ok(());
        };
        self.progress.clear();
        let violation = without_pattern(violation.clone(), &asked.prompt);
        eprintln!("Not accepted: {}", violation_text(&violation));
        state.rejected += 1;
        if state.rejected < MAX_REJECTED || UserInput::is_interactive() {
            return Ok(());
        }
        let reason = format!("{} answers were not accepted", state.rejected);
        Err(state.leave(session, Exit::Failed, &reason))
    }
}

impl State {
    /// Error for a session that is left before its end.
    fn leave(&self, session: &str, exit: Exit, reason: &str) -> Failure {
        let session = sanitize(session);
        let next = match &self.resumption {
            Resumption::Command(command) | Resumption::RunningServer(command) => {
                format!("The session waits for an answer; resume it with\n  {command} {session}")
            }
            Resumption::EndsWithServer => {
                "The session ends with its server, which was started for this command and keeps \
                 sessions in memory"
                    .to_owned()
            }
            Resumption::KeptByProgram => format!(
                "The server, which was started for this command, has stored the session as \
                 {session}; it goes on when a server with this store runs"
            ),
            Resumption::NotKept => {
                "The server keeps no sessions, so this one cannot be resumed".to_owned()
            }
            Resumption::Unknown => {
                format!("The session waits at the server as {session} until it expires")
            }
        };
        Failure::new(exit, format!("{reason}. {next}"))
    }
}

impl Host for Prompter {
    fn capabilities(&self) -> ClientCapabilities {
        InlineHost.capabilities()
    }

    fn answer_prompt<'a>(
        &'a self,
        _: &'a Server,
        asked: &'a SessionQuestion,
    ) -> BoxFuture<'a, PromptAnswer> {
        Box::pin(self.answer_question(asked))
    }
}

/// Key of a prompt whose server gives it none.
const DEFAULT_KEY: &str = "answer";

/// Limit on answers rejected in a row where no person gives them.
const MAX_REJECTED: usize = 20;
