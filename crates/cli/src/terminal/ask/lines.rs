//! Questions without a terminal: one line out, one line in.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::sync::mpsc;

use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::Reply;
use super::question::{Question, Widget};

/// Asks on standard error and reads lines until an answer fits.
pub(super) async fn ask(
    question: &Question,
    lines: &mut Lines,
    output: &mut (impl Write + Send),
) -> io::Result<Reply> {
    loop {
        writeln!(output, "{}", heading(question))?;
        output.flush()?;
        let Some(line) = lines.next().await? else {
            lines.has_ended = true;
            // An optional question is answered by the end of input.
            let empty = question.check(&Value::Null);
            return Ok(empty.map_or(Reply::EndOfInput, Reply::Answer));
        };
        match question.parse(&line) {
            Ok(value) => return Ok(Reply::Answer(value)),
            Err(violation) => writeln!(output, "{}", super::violation_text(&violation))?,
        }
    }
}

/// Reads lines of an input on a thread of its own, on request.
///
/// A line that arrives after its question was withdrawn goes to the next question.
#[derive(Debug)]
pub(super) struct Lines {
    requests: mpsc::Sender<()>,
    lines: UnboundedReceiver<io::Result<Option<String>>>,
    is_requested: bool,
    /// Set when the last question was asked after the end of input.
    pub(super) has_ended: bool,
}

impl Lines {
    pub(super) fn of_stdin() -> Self {
        Self::new(BufReader::new(io::stdin()))
    }

    fn new(mut input: impl BufRead + Send + 'static) -> Self {
        let (requests, requested) = mpsc::channel();
        let (sender, lines) = unbounded_channel();
        std::thread::spawn(move || {
            while requested.recv().is_ok() {
                let mut line = String::new();
                let read = Read::take(&mut input, MAX_LINE_LENGTH).read_line(&mut line);
                let line = line.trim_end_matches(['\r', '\n']).to_owned();
                if sender.send(read.map(|count| (count > 0).then_some(line))).is_err() {
                    return;
                }
            }
        });
        Self { requests, lines, is_requested: false, has_ended: false }
    }

    /// Reads the next line; none at the end of the input. Cancel safe.
    async fn next(&mut self) -> io::Result<Option<String>> {
        if !self.is_requested {
            // The thread runs as long as this sender exists.
            let _ = self.requests.send(());
            self.is_requested = true;
        }
        let line = self.lines.recv().await;
        self.is_requested = false;
        line.unwrap_or(Ok(None))
    }
}

/// Formats a question with its default and choices.
fn heading(question: &Question) -> String {
    let mut text = super::shown(&question.message);
    if let Some(help) = &question.help {
        text = format!("{text} ({})", super::shown(help));
    }
    if let Some(default) = question.default.as_ref().filter(|default| **default != Value::Null) {
        let default = match default {
            Value::Bool(true) => "yes".to_owned(),
            Value::Bool(false) => "no".to_owned(),
            default => super::shown(&super::question::value_text(default)),
        };
        text = format!("{text} [{default}]");
    }
    let choices = match &question.widget {
        Widget::Choice(choices) | Widget::Choices(choices) => choices.as_slice(),
        Widget::Confirm => return format!("{text} (yes/no)"),
        Widget::Decision => return format!("{text} (yes/edit/no)"),
        Widget::Date { .. } => return format!("{text} (YYYY-MM-DD)"),
        _ => &[],
    };
    for (index, choice) in choices.iter().enumerate() {
        text = format!("{text}\n  {}) {}", index + 1, super::shown(&choice.label));
    }
    text
}

const MAX_LINE_LENGTH: u64 = 1024 * 1024;

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Write};

    use futures_util::FutureExt as _;
    use mcp_flow::session::prompt::Prompt;
    use serde_json::{Value, json};

    use super::super::Reply;
    use super::{Lines, Question, ask};

    fn question(key: &str, prompt: Value) -> Question {
        let prompt: Prompt = serde_json::from_value(prompt).unwrap();
        Question::of_prompt(key, prompt)
    }

    /// INT-087: an invalid answer is explained and asked for again; the end of input is noticed.
    #[tokio::test]
    async fn invalid_answers_are_asked_for_again() {
        let many = question(
            "many",
            json!({"type": "number", "message": "How\u{1b}[31m many?",
            "validation": {"required": true, "min": 1}}),
        );
        let mut output = Vec::new();
        let mut lines = Lines::new(&b"none\n0\r\n4\n"[..]);
        let asked = ask(&many, &mut lines, &mut output).await.unwrap();
        assert_eq!(asked, Reply::Answer(json!(4)));
        let output = String::from_utf8(output).unwrap();
        assert_eq!(output.matches("many?").count(), 3);
        assert!(output.contains("at least 1") && !output.contains('\u{1b}'), "{output}");
        let ended = ask(&many, &mut lines, &mut Vec::new()).await.unwrap();
        assert_eq!(ended, Reply::EndOfInput);
        let it = question("it", json!({"type": "number", "message": "?", "defaultValue": 3}));
        let ended = ask(&it, &mut lines, &mut Vec::new()).await.unwrap();
        assert_eq!(ended, Reply::Answer(json!(3)));
    }

    /// A line that comes after its question was withdrawn answers the next question.
    #[tokio::test]
    async fn a_withdrawn_question_takes_no_line() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let mut lines = Lines::new(BufReader::new(reader));
        let [first, second] = ["First?", "Second?"]
            .map(|message| question("it", json!({"type": "text", "message": message})));
        assert!(ask(&first, &mut lines, &mut Vec::new()).now_or_never().is_none());
        writer.write_all(b"for the second\n").unwrap();
        let asked = ask(&second, &mut lines, &mut Vec::new()).await.unwrap();
        assert_eq!(asked, Reply::Answer(json!("for the second")));
    }
}
