//! The person at the terminal, as the host of a client: answers questions and decides what
//! policies leave to a person.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use mcp_flow::client::Host;
use mcp_flow::client::approval::{self, Review};
use mcp_flow::client::host::{ElicitAnswer, Elicitation, ProposedCall, ServerIdentity as Server};
use mcp_flow::client::interaction::{PendingPrompt as SessionQuestion, PromptAnswer};
use mcp_flow::client::model::{
    ClientCapabilities, CreateMessage, ElicitationCapability, SampleResult,
};
use mcp_flow::session::prompt::{Prompt, PromptType};
use serde_json::{Map, Value};
use tokio::sync::{Mutex, Notify};

use crate::client::prompter::{Prompter, Resumption};
use crate::terminal::ask::question::Question;
use crate::terminal::ask::{Reply, UserInput, schema};
use crate::terminal::output::sanitize;
use crate::terminal::progress::ProgressDisplay;

/// The person at the terminal.
#[derive(Clone)]
pub(crate) struct TerminalUser {
    pub(crate) input: UserInput,
    pub(crate) progress: ProgressDisplay,
    /// Answers the prompts of sessions.
    pub(crate) prompter: Prompter,
    /// Notified when the person answers a question with ctrl-c.
    pub(crate) interrupted: Arc<Notify>,
    /// Notified when nobody is there to answer a question.
    pub(crate) unanswered: Arc<Notify>,
    /// Held while a form is filled in: a server may send several at once.
    pub(crate) turn: Arc<Mutex<()>>,
    /// True if a question that nobody answers is to stay open.
    leaves_open: bool,
    /// True if the server is to leave its questions to a task.
    is_detached: bool,
}

impl TerminalUser {
    pub(crate) fn new(input: UserInput, progress: ProgressDisplay) -> Self {
        let prompter = Prompter::new(input.clone(), progress.clone(), Resumption::Unknown);
        let (interrupted, unanswered, turn) = Default::default();
        let (leaves_open, is_detached) = (false, false);
        Self { input, progress, prompter, interrupted, unanswered, turn, leaves_open, is_detached }
    }

    /// Leaves a question open if nobody answers it: the server gets no answer at all.
    pub(crate) fn leave_open(mut self) -> Self {
        self.leaves_open = true;
        self
    }

    /// Declares no elicitation: a server that supports tasks then asks by a task.
    pub(crate) fn detach(mut self) -> Self {
        self.is_detached = true;
        self
    }

    /// Asks one question of a form, without progress bars on the screen. Failing to ask cancels.
    async fn ask(&self, question: Question) -> Result<Value, ElicitAnswer> {
        self.progress.clear();
        match self.input.ask(question).await {
            Ok(Reply::Answer(value)) => Ok(value),
            Ok(Reply::Declined) => Err(ElicitAnswer::Decline),
            Ok(Reply::Interrupted) => {
                self.interrupted.notify_one();
                Err(self.cancel().await)
            }
            Ok(Reply::EndOfInput) => {
                self.unanswered.notify_one();
                Err(self.cancel().await)
            }
            Err(error) => {
                eprintln!("mcp-flow: {}", sanitize(&format!("{error:#}")));
                Err(ElicitAnswer::Cancel)
            }
        }
    }

    /// Cancels a question, unless it is to stay open: then whoever was notified ends the wait.
    async fn cancel(&self) -> ElicitAnswer {
        if self.leaves_open {
            std::future::pending::<()>().await;
        }
        ElicitAnswer::Cancel
    }

    /// Shows something and asks whether to allow it; the error is the reason for a denial.
    async fn confirm(&self, shown: &str, question: &str) -> Result<(), String> {
        let _turn = self.turn.lock().await;
        self.progress.clear();
        eprintln!("{shown}");
        match self.input.confirm(question).await {
            Ok(Reply::Answer(Value::Bool(true))) => Ok(()),
            Ok(Reply::Interrupted) => Err(self.leave()),
            Ok(Reply::Answer(_) | Reply::Declined) => Err("the user denied it".to_owned()),
            Ok(Reply::EndOfInput) => Err("no user is available to allow it".to_owned()),
            Err(error) => Err(format!("the user could not be asked: {error:#}")),
        }
    }

    /// Ends the command; returns the reason for the server that waits for an answer.
    pub(crate) fn leave(&self) -> String {
        self.interrupted.notify_one();
        "the user interrupted the command".to_owned()
    }

    async fn fill_form(
        &self,
        server: &Server,
        message: &str,
        form: &Value,
    ) -> Result<Map<String, Value>, ElicitAnswer> {
        let _turn = self.turn.lock().await;
        self.progress.clear();
        eprintln!("{} asks: {}", sanitize(&server.name), sanitize(message));
        let mut answers = Map::new();
        for question in schema::questions(form) {
            let key = question.key.clone();
            match self.ask(question).await? {
                Value::Null => {}
                value => {
                    answers.insert(key, value);
                }
            }
        }
        Ok(answers)
    }

    async fn open_url(
        &self,
        server: &Server,
        message: &str,
        url: &str,
    ) -> Result<(), ElicitAnswer> {
        let _turn = self.turn.lock().await;
        self.progress.clear();
        eprintln!("{} asks: {}", sanitize(&server.name), sanitize(message));
        eprintln!("Open this URL in a browser if you trust it:\n  {}", sanitize(url));
        let mut prompt = Prompt::new(PromptType::Confirm, "Have you opened it?");
        prompt.default_value = Some(false.into());
        match self.ask(Question::of_prompt("url", prompt)).await? {
            Value::Bool(true) => Ok(()),
            _ => Err(ElicitAnswer::Decline),
        }
    }
}

impl approval::Approver for TerminalUser {
    fn is_present(&self) -> bool {
        // Only asking shows whether somebody reads the question.
        true
    }

    fn elicitation_modes(&self) -> Option<ElicitationCapability> {
        (!self.is_detached).then_some(ElicitationCapability { form: true, url: true })
    }

    fn review_call<'a>(
        &'a self,
        server: &'a Server,
        call: &'a ProposedCall<'a>,
    ) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            let arguments = sanitize(&Value::Object(call.arguments.clone()).to_string());
            let shown = format!("Arguments for {}:\n  {arguments}", sanitize(call.tool));
            let question = format!("Call this tool of {}?", sanitize(&server.target));
            self.confirm(&shown, &question).await.is_ok()
        })
    }

    fn review_request<'a>(
        &'a self,
        server: &'a Server,
        model: &'a str,
        request: CreateMessage,
    ) -> BoxFuture<'a, Review<CreateMessage>> {
        Box::pin(async move {
            let (server, model) = (sanitize(&server.target), sanitize(model));
            let title = format!("{server} requests a completion from the model {model}:");
            self.review(&title, "Allow this request?", request).await
        })
    }

    fn review_answer<'a>(
        &'a self,
        server: &'a Server,
        answer: SampleResult,
    ) -> BoxFuture<'a, Review<SampleResult>> {
        Box::pin(async move {
            let title = format!("{} answered:", sanitize(&answer.model));
            let question = format!("Send this answer to {}?", sanitize(&server.target));
            self.review(&title, &question, answer).await
        })
    }

    fn elicit<'a>(
        &'a self,
        server: &'a Server,
        question: Elicitation,
    ) -> BoxFuture<'a, ElicitAnswer> {
        Box::pin(async move {
            let answered = match question {
                Elicitation::Form { message, schema, .. } => {
                    self.fill_form(server, &message, &schema).await.map(ElicitAnswer::Accept)
                }
                Elicitation::Url { message, url, .. } => {
                    let visited = self.open_url(server, &message, &url).await;
                    visited.map(|()| ElicitAnswer::Accept(Map::new()))
                }
                _ => Err(ElicitAnswer::Cancel),
            };
            answered.unwrap_or_else(|undecided| undecided)
        })
    }

    fn answer_prompt<'a>(
        &'a self,
        server: &'a Server,
        question: &'a SessionQuestion,
    ) -> BoxFuture<'a, PromptAnswer> {
        Host::answer_prompt(&self.prompter, server, question)
    }
}

/// Host without a person, whose server puts prompts in results rather than in requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InlineHost;

impl Host for InlineHost {
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities { inline_interaction: true, ..ClientCapabilities::default() }
    }
}
