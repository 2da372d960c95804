//! Asking the person at the terminal, or whoever answers in their place.

mod keyboard;
mod lines;
mod path;
pub(crate) mod question;
pub(crate) mod schema;
mod terminal;

use std::io::IsTerminal;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use anyhow::Context as _;
use mcp_flow::session::InvalidAnswer;
use mcp_flow::session::prompt::{Prompt, PromptType};
use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio::sync::{Mutex as Turn, OwnedMutexGuard};

use crate::exit::{Exit, Failure};
use crate::show::neutral;
use keyboard::Withdrawal;
use lines::Lines;
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
    /// Held by the question that is open, since a server may ask several at once. Without a terminal
    /// it has the reader of standard input, which outlives a question that is withdrawn.
    input: Arc<Turn<Option<Lines>>>,
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
    ///
    /// Dropped before the answer, it withdraws the question: the terminal is as it was, and what is
    /// typed next is for the next question.
    pub(crate) async fn ask_person(&self, question: Question) -> anyhow::Result<Asked> {
        let input = self.input.clone().lock_owned().await;
        match Self::is_interactive() {
            true => ask_in_terminal(question, input).await,
            false => ask_by_lines(&question, input).await,
        }
    }

    fn prepared(&self, key: &str) -> Option<Value> {
        self.answers.lock().remove(key)
    }

    /// The answers that are left, for arguments given up front.
    pub(crate) fn take(&self, key: &str) -> Option<Value> {
        self.prepared(key)
    }
}

/// Shows a widget on a thread of its own, since widgets block.
async fn ask_in_terminal(
    question: Question,
    input: OwnedMutexGuard<Option<Lines>>,
) -> anyhow::Result<Asked> {
    let (ended, end) = mpsc::channel::<()>();
    let open = Open { withdrawal: Arc::default(), end };
    let withdrawal = open.withdrawal.clone();
    let asked = tokio::task::spawn_blocking(move || {
        let _held = (input, ended);
        terminal::ask(&question, &withdrawal)
    });
    let asked = asked.await.context("the question could not be asked")?;
    drop(open);
    Ok(asked?)
}

/// A question in the terminal, withdrawn on drop unless it has ended.
struct Open {
    withdrawal: Arc<Withdrawal>,
    /// Closed when the widget is gone.
    end: mpsc::Receiver<()>,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.withdrawal.withdraw();
        // The process may end next, and must not leave the terminal in raw mode. This takes about a
        // millisecond, and nothing at all once the question has been answered.
        let _ = self.end.recv_timeout(TO_RESTORE);
    }
}

async fn ask_by_lines(
    question: &Question,
    mut input: OwnedMutexGuard<Option<Lines>>,
) -> anyhow::Result<Asked> {
    let lines = input.get_or_insert_with(Lines::of_stdin);
    let mut open = OpenLine { is_over: false };
    let asked = lines::ask(question, lines, &mut std::io::stderr()).await;
    open.is_over = true;
    Ok(asked?)
}

/// A question on a line of its own, which says so when it is withdrawn.
struct OpenLine {
    is_over: bool,
}

impl Drop for OpenLine {
    fn drop(&mut self) {
        if !self.is_over {
            eprintln!("{WITHDRAWN}");
        }
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

/// What is shown in place of an answer that is not wanted any more.
const WITHDRAWN: &str = "The question was withdrawn.";

/// Time limit for a widget to restore the terminal.
const TO_RESTORE: Duration = Duration::from_secs(1);
