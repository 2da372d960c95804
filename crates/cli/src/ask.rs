//! Asking the person at the terminal, or whoever answers in their place.

mod lines;
mod path;
pub(crate) mod question;
pub(crate) mod schema;
mod terminal;

use std::io::IsTerminal;
use std::path::Path;
use std::sync::{Arc, Mutex};

use anyhow::Context as _;
use mcp_flow::session::InvalidAnswer;
use mcp_flow::session::prompt::{Prompt, PromptType};
use serde_json::{Map, Value};
use tokio::sync::Mutex as Turn;

use crate::exit::{Exit, Failure};
use crate::show::neutral;
use question::Question;

/// What became of a question.
#[derive(Debug, PartialEq)]
pub(crate) enum Asked {
    /// This answer, which fits the question.
    Answer(Value),
    /// No answer: the person will not say.
    Declined,
    /// ctrl-c.
    Interrupted,
    /// Nobody is there to answer.
    NoMore,
}

/// Decision of a person about something that is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    Approve,
    Edit,
    Deny,
    /// ctrl-c.
    Interrupted,
    /// Nobody is there to decide.
    Nobody,
}

/// Asks: from a file of answers first, then the person. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asker {
    answers: Arc<Mutex<Map<String, Value>>>,
    /// Held by the question that is on the screen: a server may ask several at once, and one that is
    /// withdrawn stays there until the person is done with it.
    screen: Arc<Turn<()>>,
}

impl Asker {
    /// With the answers of a file: a JSON object from key to value.
    pub(crate) fn new(answers: Option<&Path>) -> anyhow::Result<Self> {
        let Some(path) = answers else { return Ok(Self::default()) };
        let text = std::fs::read_to_string(path);
        let text = text.with_context(|| format!("{} cannot be read", path.display()))?;
        let answers: Map<String, Value> = serde_json::from_str(&text).map_err(|error| {
            let message = format!(
                "{} is no file of answers: {error}; it holds one JSON object, such as \
                 {{\"name\": \"Ada\"}}",
                path.display()
            );
            Failure::new(Exit::Usage, message)
        })?;
        Ok(Self { answers: Arc::new(Mutex::new(answers)), ..Self::default() })
    }

    /// Whether there is a person who can be shown widgets.
    pub(crate) fn is_interactive() -> bool {
        std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
    }

    /// Asks, waiting for as long as it takes.
    ///
    /// A prepared answer is used once: if it does not fit, giving it again would not help.
    pub(crate) async fn ask(&self, question: Question) -> anyhow::Result<Asked> {
        if let Some(value) = self.prepared(&question.key) {
            let fits = match (&value, question.check(&value)) {
                (_, Ok(value)) => Ok(value),
                // A file written by hand may hold the text a person would type.
                (Value::String(text), Err(violation)) => question.read(text).map_err(|_| violation),
                (_, Err(violation)) => Err(violation),
            };
            return fits.map(Asked::Answer).map_err(|violation| {
                let message = format!(
                    "the answer to `{}` in the file of answers is not taken: {}",
                    question.key,
                    complaint(&violation)
                );
                Failure::new(Exit::Usage, message).into()
            });
        }
        self.ask_person(question).await
    }

    /// Has something decided that is shown already, by the person alone: a file of answers is
    /// written for the server's questions and not for ours.
    pub(crate) async fn decide(&self, message: &str) -> anyhow::Result<Asked> {
        let mut prompt = Prompt::new(PromptType::Confirm, message);
        prompt.default_value = Some(false.into());
        self.ask_person(Question::of_prompt("decision", prompt)).await
    }

    /// Has something decided that is shown already and can be edited first.
    pub(crate) async fn review(&self, message: &str) -> anyhow::Result<Decision> {
        Ok(match self.ask_person(Question::decision(message)).await? {
            Asked::Answer(value) if value == question::YES => Decision::Approve,
            Asked::Answer(value) if value == question::EDIT => Decision::Edit,
            Asked::Answer(_) | Asked::Declined => Decision::Deny,
            Asked::Interrupted => Decision::Interrupted,
            Asked::NoMore => Decision::Nobody,
        })
    }

    /// Asks the person, whatever a file of answers says.
    pub(crate) async fn ask_person(&self, question: Question) -> anyhow::Result<Asked> {
        let screen = self.screen.clone().lock_owned().await;
        // Widgets and standard input cannot be waited for any other way.
        let asked = tokio::task::spawn_blocking(move || {
            let _screen = screen;
            match Self::is_interactive() {
                true => Ok(terminal::ask(&question)?),
                false => {
                    // Not locked while it waits: others have something to say on standard error.
                    let (input, mut output) = (std::io::stdin(), std::io::stderr());
                    anyhow::Ok(lines::ask(&question, &mut input.lock(), &mut output)?)
                }
            }
        });
        asked.await.context("the question could not be asked")?
    }

    fn prepared(&self, key: &str) -> Option<Value> {
        let mut answers = self.answers.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        answers.remove(key)
    }

    /// The answers that are left, for arguments given up front.
    pub(crate) fn take(&self, key: &str) -> Option<Value> {
        self.prepared(key)
    }
}

/// What was wrong with an answer, in a line.
pub(crate) fn complaint(violation: &InvalidAnswer) -> String {
    match &violation.suggestion {
        Some(suggestion) => format!("{}. {}", shown(&violation.error), shown(suggestion)),
        None => shown(&violation.error),
    }
}

/// A text of the server's, made harmless and short enough for a question.
fn shown(text: &str) -> String {
    let text = text.trim();
    match text.char_indices().nth(LONGEST_SHOWN) {
        Some((end, _)) => format!("{}…", neutral(&text[..end])),
        None => neutral(text),
    }
}

/// How many characters of a question are shown; the rest is no question.
const LONGEST_SHOWN: usize = 10_000;
