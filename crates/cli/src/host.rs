//! The person at the terminal, as servers reach them.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use mcp_flow::client::Host;
use mcp_flow::client::host::{Asker as Server, ElicitAnswer, Elicitation};
use mcp_flow::client::model::{ClientCapabilities, ElicitationCapability};
use mcp_flow::session::prompt::{Prompt, PromptType};
use serde_json::{Map, Value};
use tokio::sync::Notify;

use crate::ask::question::Question;
use crate::ask::{Asked, Asker, schema};
use crate::meter::Meter;
use crate::show::neutral;

/// Answers a server's questions in the terminal.
///
/// A call that was typed needs no further approval, so nothing is asked about it.
#[derive(Clone)]
pub(crate) struct Person {
    pub(crate) asker: Asker,
    pub(crate) meter: Meter,
    /// Told when a question was answered by ctrl-c.
    pub(crate) interrupted: Arc<Notify>,
}

impl Person {
    pub(crate) fn new(asker: Asker, meter: Meter) -> Self {
        Self { asker, meter, interrupted: Arc::default() }
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
                eprintln!("mcp-flow: {error:#}");
                Err(ElicitAnswer::Cancel)
            }
        }
    }

    async fn fill(
        &self,
        server: &Server,
        message: &str,
        form: &Value,
    ) -> Result<Map<String, Value>, ElicitAnswer> {
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

impl Host for Person {
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities {
            elicitation: Some(ElicitationCapability { form: true, url: true }),
            inline_interaction: true,
            ..ClientCapabilities::default()
        }
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
}

/// Nobody, who still wants to hear of conversations in results and not by requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inline;

impl Host for Inline {
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities { inline_interaction: true, ..ClientCapabilities::default() }
    }
}
