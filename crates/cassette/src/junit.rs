//! Reports in the JUnit format, which CI systems read.

use std::fmt::Write as _;

use crate::verify::VerifyReport;

/// Writes a report as JUnit XML.
pub fn junit_report(name: &str, report: &VerifyReport) -> String {
    let failures = report.exchanges.iter().filter(|exchange| !exchange.is_same()).count();
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let incomplete = report.is_incomplete.then_some(INCOMPLETE);
    let errors: Vec<_> =
        incomplete.into_iter().chain(report.problems.iter().map(String::as_str)).collect();
    let time: f64 = report.exchanges.iter().map(|exchange| exchange.seconds).sum();
    let suite = format!(
        "name=\"{}\" tests=\"{}\" failures=\"{failures}\" errors=\"{}\" skipped=\"{}\" time=\"{time:.3}\"",
        escape(name),
        report.exchanges.len() + errors.len(),
        errors.len(),
        report.exchanges.len() - report.compared()
    );
    let _ = writeln!(text, "<testsuites><testsuite {suite}>");
    for exchange in &report.exchanges {
        let _ = write!(
            text,
            "<testcase classname=\"{}\" name=\"line {}: {}\" time=\"{:.3}\"",
            escape(name),
            exchange.line,
            escape(&exchange.request),
            exchange.seconds
        );
        if let Some(reason) = exchange.skipped {
            let _ = writeln!(text, "><skipped message=\"{}\"/></testcase>", escape(reason));
            continue;
        }
        if exchange.is_same() {
            text.push_str("/>\n");
            continue;
        }
        let all = exchange.lines().join("\n");
        let first = exchange.lines().into_iter().next().unwrap_or_default();
        let _ = writeln!(
            text,
            "><failure message=\"{}\">{}</failure></testcase>",
            escape(&first),
            escape(&all)
        );
    }
    for error in errors {
        let _ = writeln!(
            text,
            "<testcase classname=\"{}\" name=\"recording and output\"><error message=\"{}\"/></testcase>",
            escape(name),
            escape(error)
        );
    }
    text.push_str("</testsuite></testsuites>\n");
    text
}

/// Writes a report as JUnit XML of a verification that could not be made.
pub fn junit_error(name: &str, problem: &str) -> String {
    let (name, problem) = (escape(name), escape(problem));
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <testsuites><testsuite name=\"{name}\" tests=\"1\" failures=\"0\" errors=\"1\" time=\"0\">\n\
         <testcase classname=\"{name}\" name=\"verify\"><error message=\"{problem}\"/></testcase>\n\
         </testsuite></testsuites>\n"
    )
}

/// Error of a verification by a recording without all messages.
const INCOMPLETE: &str = "messages are missing in the recording; less was compared than there was";

/// Escapes a text for XML, and leaves out characters that XML cannot hold.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '"' => escaped.push_str("&quot;"),
            '\n' | '\t' => escaped.push(letter),
            control if control.is_control() || matches!(control, '\u{fffe}' | '\u{ffff}') => {
                escaped.push('\u{fffd}');
            }
            other => escaped.push(other),
        }
    }
    escaped
}
