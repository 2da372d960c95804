//! Pages of links, without scripts.

use mcp_flow_engine::FoundLink;
use mcp_flow_session::prompt::ChoiceOption;
use mcp_flow_session::{InvalidAnswer, Prompt, PromptType};
use serde_json::Value;

/// Renders a page with one message.
pub(super) fn message(text: &str) -> String {
    page(&format!("<p>{}</p>", escape(text)))
}

/// Renders the form of a link: its question, or a confirmation that the signal is to be sent.
pub(super) fn form(link: &FoundLink, violation: Option<&InvalidAnswer>) -> String {
    let (flow, name) = (escape(&link.flow), escape(&link.name));
    let (label, fields) = match &link.question {
        Some(question) => (escape(&question.prompt.message), controls(&question.prompt)),
        None => (format!("Send <b>{name}</b> to <b>{flow}</b>?"), button("", "", "Confirm")),
    };
    let problem = violation.map(|InvalidAnswer { error, suggestion }| {
        let suggestion = suggestion.as_deref().map(|text| format!(" {text}"));
        let text = format!("{error}.{}", suggestion.unwrap_or_default());
        format!("<p class=problem role=alert>{}</p>", escape(&text))
    });
    let problem = problem.unwrap_or_default();
    page(&format!("<form method=post><label for=answer>{label}</label>{problem}{fields}</form>"))
}

/// Renders the fields by which a question is answered, and the button.
fn controls(prompt: &Prompt) -> String {
    let default = prompt.default_value.as_ref().map(plain).unwrap_or_default();
    let (default, hint) =
        (escape(&default), escape(prompt.placeholder.as_deref().unwrap_or_default()));
    let input = |kind: &str| {
        format!(
            "<input id=answer name=answer {kind} value=\"{default}\" placeholder=\"{hint}\" autocomplete=off>"
        )
    };
    let send = button("", "", "Answer");
    match prompt.kind {
        PromptType::Confirm => button("answer", "true", "Yes") + &button("answer", "false", "No"),
        PromptType::Choice => {
            let options =
                prompt.choices.iter().map(|option| choice(option, prompt.default_value.as_ref()));
            format!("{}{send}", options.collect::<String>())
        }
        PromptType::Text => input("type=text") + &send,
        PromptType::Number => input("type=text inputmode=decimal") + &send,
        PromptType::Date => input("type=date") + &send,
        PromptType::File | PromptType::Custom => {
            let json = prompt.default_value.as_ref().map(Value::to_string).unwrap_or_default();
            format!(
                "<p>as JSON</p><textarea id=answer name=answer rows=8>{}</textarea>{send}",
                escape(&json)
            )
        }
    }
}

fn choice(option: &ChoiceOption, default: Option<&Value>) -> String {
    let checked = if default == Some(&option.value) { " checked" } else { "" };
    // As JSON, so that numbers and texts are told apart.
    let (value, label) = (escape(&option.value.to_string()), escape(&option.label));
    format!(
        "<label class=choice><input type=radio name=answer value=\"{value}\"{checked}> {label}</label>"
    )
}

fn button(name: &str, value: &str, label: &str) -> String {
    let name = if name.is_empty() { String::new() } else { format!(" name={name} value={value}") };
    format!("<button{name}>{label}</button>")
}

fn page(content: &str) -> String {
    format!(
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport \
         content=\"width=device-width, initial-scale=1\"><meta name=robots content=noindex><title>MCP \
         Flow</title><link rel=stylesheet href={STYLE_PATH}><main>{content}</main></html>\n"
    )
}

/// Returns a value as a person would type it.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn escape(text: &str) -> String {
    let escaped = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    escaped.replace('"', "&quot;").replace('\'', "&#39;")
}

/// Path of the style sheet, relative to the pages.
pub(super) const STYLE_PATH: &str = "style.css";

/// Style sheet of the pages.
pub(super) const STYLE: &str = "\
:root { color-scheme: light dark; font: 1rem/1.5 system-ui, sans-serif; }
body { margin: 0; }
main { max-width: 36rem; margin: 10vh auto; padding: 0 1rem; }
label { display: block; margin-bottom: 1rem; font-size: 1.2rem; white-space: pre-line; }
label.choice { margin-bottom: .5rem; font-size: 1rem; }
input:not([type=radio]), textarea { width: 100%; padding: .5rem; font: inherit; box-sizing: border-box; }
button { margin: 1rem .5rem 0 0; padding: .5rem 1.5rem; font: inherit; }
.problem { color: #c00; }
";
