//! Questions to the person at the terminal, answered there, from a file or from standard input.

mod keyboard;
mod lines;
mod path_completion;
pub(crate) mod question;
pub(crate) mod schema;
mod widgets;

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

use crate::client::interrupt::is_interrupted;
use crate::configuration::json_problem;
use crate::exit::{Exit, Failure};
use crate::terminal::output::{is_dumb_terminal, sanitize};
use keyboard::Withdrawal;
use lines::Lines;
use question::Question;

/// Reply to a question.
#[derive(Debug, PartialEq)]
pub(crate) enum Reply {
    /// A valid answer.
    Answer(Value),
    /// The person declined to answer.
    Declined,
    /// ctrl-c.
    Interrupted,
    /// Standard input has ended.
    EndOfInput,
}

/// Decision about something that was shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    Approve,
    Edit,
    Deny,
    /// ctrl-c.
    Interrupted,
    /// Standard input has ended.
    NoUser,
}

/// Source of answers: a file first, then the person. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct UserInput {
    answers: Arc<Mutex<Map<String, Value>>>,
    /// Locked by the open question, since a server may ask several at once. Without a terminal it
    /// holds the reader of standard input, which outlives a withdrawn question.
    input: Arc<Turn<Option<Lines>>>,
    /// Set if the end of input answers no question, not even by its default.
    needs_lines: bool,
}

impl UserInput {
    /// Reads a file of answers: a JSON object from key to value.
    pub(crate) fn new(answers: Option<&Path>) -> anyhow::Result<Self> {
        let Some(path) = answers else { return Ok(Self::default()) };
        let text = std::fs::read_to_string(path);
        let text = text.with_context(|| format!("cannot read {}", path.display()))?;
        let answers: Map<String, Value> = serde_json::from_str(&text).map_err(|error| {
            let message = format!(
                "{}: {}; the file must contain an object such as {{\"name\": \"Ada\"}}",
                path.display(),
                json_problem(&error)
            );
            Failure::new(Exit::Usage, message)
        })?;
        Ok(Self { answers: Arc::new(Mutex::new(answers)), ..Self::default() })
    }

    /// Creates a source for questions that may be left open: the end of input answers none of them,
    /// not even by its default.
    pub(crate) fn without_defaults() -> Self {
        Self { needs_lines: true, ..Self::default() }
    }

    /// Returns whether standard input and standard error are a terminal.
    pub(crate) fn is_interactive() -> bool {
        std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
    }

    /// Asks and waits for the reply, without a time limit.
    ///
    /// An answer from the file is used once: if it is invalid, it would be invalid again.
    pub(crate) async fn ask(&self, question: Question) -> anyhow::Result<Reply> {
        if let Some(value) = self.take(&question.key) {
            let checked = match (&value, question.check(&value)) {
                (_, Ok(value)) => Ok(value),
                // A file written by hand may hold the text a person would type.
                (Value::String(text), Err(violation)) => {
                    question.parse(text).map_err(|_| violation)
                }
                (_, Err(violation)) => Err(violation),
            };
            return checked.map(Reply::Answer).map_err(|violation| {
                let message = format!(
                    "the file of answers has an invalid answer to `{}`: {}",
                    question.key,
                    violation_text(&violation)
                );
                Failure::new(Exit::Usage, message).into()
            });
        }
        self.ask_user(question).await
    }

    /// Asks for yes or no. A file of answers is for the server's questions and is not used.
    pub(crate) async fn confirm(&self, message: &str) -> anyhow::Result<Reply> {
        let mut prompt = Prompt::new(PromptType::Confirm, message);
        prompt.default_value = Some(false.into());
        self.ask_user(Question::of_prompt("decision", prompt)).await
    }

    /// Asks whether to approve, edit or deny what was shown.
    pub(crate) async fn review(&self, message: &str) -> anyhow::Result<Decision> {
        Ok(match self.ask_user(Question::decision(message)).await? {
            Reply::Answer(value) if value == question::YES => Decision::Approve,
            Reply::Answer(value) if value == question::EDIT => Decision::Edit,
            Reply::Answer(_) | Reply::Declined => Decision::Deny,
            Reply::Interrupted => Decision::Interrupted,
            Reply::EndOfInput => Decision::NoUser,
        })
    }

    /// Asks the person, without a look at the file of answers.
    ///
    /// Dropping the future withdraws the question: the terminal is restored, and the next question
    /// gets what is typed next.
    pub(crate) async fn ask_user(&self, question: Question) -> anyhow::Result<Reply> {
        let input = self.input.clone().lock_owned().await;
        match Self::is_interactive() && !is_dumb_terminal() {
            true => ask_in_terminal(question, input).await,
            false => ask_by_lines(&question, input, self.needs_lines).await,
        }
    }

    /// Takes an answer out of the file of answers.
    pub(crate) fn take(&self, key: &str) -> Option<Value> {
        self.answers.lock().remove(key)
    }
}

/// Shows a widget on a thread of its own, since widgets block.
async fn ask_in_terminal(
    question: Question,
    input: OwnedMutexGuard<Option<Lines>>,
) -> anyhow::Result<Reply> {
    let (ended, end) = mpsc::channel::<()>();
    let open = Open { withdrawal: Arc::default(), end };
    let withdrawal = open.withdrawal.clone();
    let asked = tokio::task::spawn_blocking(move || {
        let _until_closed = (input, ended);
        widgets::ask(&question, &withdrawal)
    });
    let asked = asked.await.context("cannot ask the question")?;
    drop(open);
    Ok(asked?)
}

/// Open question in the terminal, withdrawn on drop unless it was answered.
struct Open {
    withdrawal: Arc<Withdrawal>,
    /// Disconnected when the widget is gone.
    end: mpsc::Receiver<()>,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.withdrawal.withdraw();
        // The process may exit next, and must not leave the terminal in raw mode.
        let _ = self.end.recv_timeout(TO_RESTORE);
    }
}

async fn ask_by_lines(
    question: &Question,
    mut input: OwnedMutexGuard<Option<Lines>>,
    needs_lines: bool,
) -> anyhow::Result<Reply> {
    let lines = input.get_or_insert_with(Lines::of_stdin);
    let mut open = OpenLine { is_over: false };
    let asked = lines::ask(question, lines, &mut std::io::stderr()).await;
    open.is_over = true;
    let is_unanswered = needs_lines && lines.has_ended;
    asked.map(|reply| if is_unanswered { Reply::EndOfInput } else { reply }).map_err(Into::into)
}

/// Open question on standard error, with a message on drop unless it was answered.
struct OpenLine {
    is_over: bool,
}

impl Drop for OpenLine {
    fn drop(&mut self) {
        if !self.is_over {
            report_withdrawn();
        }
    }
}

/// Describes why an answer is invalid, on one line.
pub(crate) fn violation_text(violation: &InvalidAnswer) -> String {
    match &violation.suggestion {
        Some(suggestion) => format!("{}. {}", shown(&violation.error), shown(suggestion)),
        None => shown(&violation.error),
    }
}

/// Says that the server has withdrawn a question, unless the command ends by a signal.
fn report_withdrawn() {
    if !is_interrupted() {
        eprintln!("The question was withdrawn.");
    }
}

/// Sanitizes a text of the server and limits its length.
fn shown(text: &str) -> String {
    let text = text.trim();
    match text.char_indices().nth(MAX_SHOWN_LENGTH) {
        Some((end, _)) => format!("{}…", sanitize(&text[..end])),
        None => sanitize(text),
    }
}

/// Number of characters of a question that are shown.
const MAX_SHOWN_LENGTH: usize = 10_000;

/// Time limit for a widget to restore the terminal.
const TO_RESTORE: Duration = Duration::from_secs(1);
