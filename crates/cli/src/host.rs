//! The person at the terminal, as servers reach them.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use mcp_flow::client::Host;
use mcp_flow::client::guard::{self, Review};
use mcp_flow::client::host::{Asker as Server, ElicitAnswer, Elicitation, ProposedCall};
use mcp_flow::client::interaction::{PromptAnswer, Question as Prompted};
use mcp_flow::client::model::{
    ClientCapabilities, CreateMessage, ElicitationCapability, SampleResult,
};
use mcp_flow::session::prompt::{Prompt, PromptType};
use serde_json::{Map, Value};
use tokio::sync::{Mutex, Notify};

use crate::ask::question::Question;
use crate::ask::{Asked, Asker, schema};
use crate::conversation::{Resumption, Talk};
use crate::meter::Meter;
use crate::show::neutral;

/// Answers a server's questions in the terminal, and decides what the policies leave to a person.
#[derive(Clone)]
pub(crate) struct Person {
    pub(crate) asker: Asker,
    pub(crate) meter: Meter,
    /// Answers in conversations.
    pub(crate) talk: Talk,
    /// Told when a question was answered by ctrl-c.
    pub(crate) interrupted: Arc<Notify>,
    /// Held by the form that is filled in: a server may send several at once.
    pub(crate) turn: Arc<Mutex<()>>,
}

impl Person {
    pub(crate) fn new(asker: Asker, meter: Meter) -> Self {
        let talk = Talk::new(asker.clone(), meter.clone(), Resumption::Unknown);
        Self { asker, meter, talk, interrupted: Arc::default(), turn: Arc::default() }
    }

    /// Asks, with nothing else on the screen. What cannot be asked counts as left undecided.
    async fn ask(&self, question: Question) -> Result<Value, ElicitAnswer> {
        self.meter.clear();
        match self.asker.ask(question).await {
            Ok(Asked::Answer(value)) => Ok(value),
            Ok(Asked::Declined) => Err(ElicitAnswer::Decline),
            Ok(Asked::Interrupted) => {
                self.interrupted.notify_one();
                Err(ElicitAnswer::Cancel)
            }
            Ok(Asked::NoMore) => Err(ElicitAnswer::Cancel),
            Err(error) => {
                eprintln!("mcp-flow: {}", neutral(&format!("{error:#}")));
                Err(ElicitAnswer::Cancel)
            }
        }
    }

    /// Shows something and has it decided, or says why it was not.
    async fn decide(&self, shown: &str, question: &str) -> Result<(), String> {
        let _turn = self.turn.lock().await;
        self.meter.clear();
        eprintln!("{shown}");
        match self.asker.decide(question).await {
            Ok(Asked::Answer(Value::Bool(true))) => Ok(()),
            Ok(Asked::Interrupted) => Err(self.leave()),
            Ok(Asked::Answer(_) | Asked::Declined) => Err("the person said no".to_owned()),
            Ok(Asked::NoMore) => Err("nobody is there to allow it".to_owned()),
            Err(error) => Err(format!("it could not be asked: {error:#}")),
        }
    }

    /// Ends the command, and gives the reason for whoever waits for an answer.
    pub(crate) fn leave(&self) -> String {
        self.interrupted.notify_one();
        "the person has left".to_owned()
    }

    async fn fill(
        &self,
        server: &Server,
        message: &str,
        form: &Value,
    ) -> Result<Map<String, Value>, ElicitAnswer> {
        let _turn = self.turn.lock().await;
        self.meter.clear();
        eprintln!("{} asks: {}", neutral(&server.name), neutral(message));
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

    async fn visit(&self, server: &Server, message: &str, url: &str) -> Result<(), ElicitAnswer> {
        let _turn = self.turn.lock().await;
        self.meter.clear();
        eprintln!("{} asks: {}", neutral(&server.name), neutral(message));
        eprintln!("Open this address yourself if you trust it:\n  {}", neutral(url));
        let mut prompt = Prompt::new(PromptType::Confirm, "Have you opened it?");
        prompt.default_value = Some(false.into());
        match self.ask(Question::of_prompt("url", prompt)).await? {
            Value::Bool(true) => Ok(()),
            _ => Err(ElicitAnswer::Decline),
        }
    }
}

impl guard::Person for Person {
    fn is_there(&self) -> bool {
        // Whether anybody reads what is asked shows when it is asked.
        true
    }

    fn shows(&self) -> Option<ElicitationCapability> {
        Some(ElicitationCapability { form: true, url: true })
    }

    fn review_call<'a>(
        &'a self,
        server: &'a Server,
        call: &'a ProposedCall<'a>,
    ) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            let arguments = neutral(&Value::Object(call.arguments.clone()).to_string());
            let shown = format!("{} would get:\n  {arguments}", neutral(call.tool));
            let question = format!("Call this tool of {}?", neutral(&server.target));
            self.decide(&shown, &question).await.is_ok()
        })
    }

    fn review_request<'a>(
        &'a self,
        server: &'a Server,
        model: &'a str,
        request: CreateMessage,
    ) -> BoxFuture<'a, Review<CreateMessage>> {
        Box::pin(async move {
            let (server, model) = (neutral(&server.target), neutral(model));
            let title = format!("{server} wants the model {model} to read this:");
            self.review(&title, "Allow the model to answer?", request).await
        })
    }

    fn review_answer<'a>(
        &'a self,
        server: &'a Server,
        answer: SampleResult,
    ) -> BoxFuture<'a, Review<SampleResult>> {
        Box::pin(async move {
            let title = format!("{} answered:", neutral(&answer.model));
            let question = format!("Give this answer to {}?", neutral(&server.target));
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
                    self.fill(server, &message, &schema).await.map(ElicitAnswer::Accept)
                }
                Elicitation::Url { message, url, .. } => {
                    let visited = self.visit(server, &message, &url).await;
                    visited.map(|()| ElicitAnswer::Accept(Map::new()))
                }
                _ => Err(ElicitAnswer::Cancel),
            };
            answered.unwrap_or_else(|undecided| undecided)
        })
    }

    fn answer<'a>(
        &'a self,
        server: &'a Server,
        question: &'a Prompted,
    ) -> BoxFuture<'a, PromptAnswer> {
        Host::answer(&self.talk, server, question)
    }
}

/// Nobody, who still wants to hear of conversations in results and not by requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inline;

impl Host for Inline {
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities { inline_interaction: true, ..ClientCapabilities::default() }
    }
}
