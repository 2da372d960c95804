//! Questions where there is no terminal: a line out, a line in.

use std::io::{BufRead, Read, Write};

use serde_json::Value;

use super::Asked;
use super::question::{Question, Widget};

/// Asks on one stream and reads from the other until an answer fits.
pub(super) fn ask(
    question: &Question,
    input: &mut impl BufRead,
    output: &mut impl Write,
) -> std::io::Result<Asked> {
    loop {
        writeln!(output, "{}", heading(question))?;
        output.flush()?;
        let mut line = String::new();
        let count = Read::take(&mut *input, LONGEST_LINE).read_line(&mut line)?;
        if count == 0 {
            // Where nothing need be said, nothing more is an answer.
            let silence = question.check(&Value::Null);
            return Ok(silence.map_or(Asked::NoMore, Asked::Answer));
        }
        match question.read(line.trim_end_matches(['\r', '\n'])) {
            Ok(value) => return Ok(Asked::Answer(value)),
            Err(violation) => writeln!(output, "{}", super::complaint(&violation))?,
        }
    }
}

/// The question with what can be answered, since nothing else shows it.
fn heading(question: &Question) -> String {
    let mut text = super::shown(&question.message);
    if let Some(help) = &question.help {
        text = format!("{text} ({})", super::shown(help));
    }
    if let Some(default) = question.default.as_ref().filter(|default| **default != Value::Null) {
        let default = match default {
            Value::Bool(true) => "yes".to_owned(),
            Value::Bool(false) => "no".to_owned(),
            default => super::shown(&super::question::spelled(default)),
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
    for (place, choice) in choices.iter().enumerate() {
        text = format!("{text}\n  {}) {}", place + 1, super::shown(&choice.label));
    }
    text
}

const LONGEST_LINE: u64 = 1024 * 1024;

#[cfg(test)]
mod tests {
    use mcp_flow::session::prompt::Prompt;
    use serde_json::json;

    use super::super::Asked;
    use super::Question;

    /// INT-087: a wrong answer is explained and asked for again; the end of input is noticed.
    #[test]
    fn a_wrong_answer_is_asked_for_again() {
        let prompt = json!({"type": "number", "message": "How\u{1b}[31m many?",
            "validation": {"required": true, "min": 1}});
        let prompt: Prompt = serde_json::from_value(prompt).unwrap();
        let question = Question::of_prompt("many", prompt);
        let mut output = Vec::new();
        let asked = super::ask(&question, &mut &b"none\n0\r\n4\n"[..], &mut output).unwrap();
        assert_eq!(asked, Asked::Answer(json!(4)));
        let said = String::from_utf8(output).unwrap();
        assert_eq!(said.matches("many?").count(), 3);
        assert!(said.contains("at least 1") && !said.contains('\u{1b}'), "{said}");
        let ended = super::ask(&question, &mut &b""[..], &mut Vec::new()).unwrap();
        assert_eq!(ended, Asked::NoMore);
        let prompt = json!({"type": "number", "message": "?", "defaultValue": 3});
        let question = Question::of_prompt("it", serde_json::from_value(prompt).unwrap());
        let ended = super::ask(&question, &mut &b""[..], &mut Vec::new()).unwrap();
        assert_eq!(ended, Asked::Answer(json!(3)));
    }
}
