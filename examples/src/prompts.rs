//! MCP prompts: a template, and a function with argument completion.

use mcp_flow::completion::ResolvedArguments;
use mcp_flow::prelude::*;
use mcp_flow::prompt::PromptParameter;
use mcp_flow::{BadPrompt, IntoPrompts};

/// All prompts.
pub fn prompts() -> Result<Vec<Prompt>, BadPrompt> {
    (analyze_data(), prompts![code_review]).into_prompts()
}

/// `analyze_data`: a text with one placeholder.
fn analyze_data() -> Result<Prompt, BadPrompt> {
    Prompt::builder("analyze_data")
        .title("Analyze data")
        .description("Ask for an analysis of data")
        .argument(PromptParameter::required("data").description("The data to analyze"))
        .template("Analyze this data: {data}")
}

/// Ask for a review of code
#[prompt(title = "Review code", quick)]
pub fn code_review(
    /// The code to review
    code: String,
    /// Programming language
    #[param(complete = languages)]
    language: Option<String>,
    /// Framework
    #[param(complete = frameworks)]
    framework: Option<String>,
    /// Focus of the review
    #[param(default = Focus::Everything)]
    focus: Focus,
) -> Vec<PromptMessage> {
    let language = language.unwrap_or_else(|| "whatever language it is".to_owned());
    let with = framework.map_or(String::new(), |framework| format!(" with {framework}"));
    let wanted = match focus {
        Focus::Everything => "everything that could be better",
        Focus::Bugs => "bugs only",
        Focus::Style => "how it reads",
        Focus::Security => "what an attacker could do",
    };
    vec![
        PromptMessage::user(format!("Review this code in {language}{with}. Tell me {wanted}.")),
        PromptMessage::user(code),
    ]
}

/// Focus of a review
#[data]
#[derive(Debug, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Focus {
    /// Everything
    Everything,
    /// Bugs
    Bugs,
    /// Style
    Style,
    /// Security
    Security,
}

fn languages(_: &Context, partial: &str, _: &ResolvedArguments) -> Vec<String> {
    beginning_with(partial, FRAMEWORKS.iter().map(|(language, _)| *language))
}

/// Completes the frameworks of the language, if it is given.
fn frameworks(_: &Context, partial: &str, settled: &ResolvedArguments) -> Vec<String> {
    let language = settled.get("language");
    let fitting = FRAMEWORKS.iter().filter(|(one, _)| language.is_none_or(|wanted| *one == wanted));
    beginning_with(partial, fitting.flat_map(|(_, frameworks)| frameworks.iter().copied()))
}

fn beginning_with<'a>(partial: &str, all: impl Iterator<Item = &'a str>) -> Vec<String> {
    all.filter(|one| one.starts_with(partial)).map(str::to_owned).collect()
}

const FRAMEWORKS: [(&str, &[&str]); 4] = [
    ("go", &["echo", "gin"]),
    ("python", &["django", "fastapi", "flask"]),
    ("rust", &["axum", "rocket"]),
    ("typescript", &["express", "fastify"]),
];

#[cfg(test)]
mod tests {
    use super::{Focus, code_review, prompts};
    use mcp_flow::{Revision, Server};
    use mcp_flow_testkit_fixture::memory;
    use serde_json::json;

    /// A prompt is tested like a function.
    #[test]
    fn a_review_names_its_focus() {
        let messages = code_review("x = 1".into(), Some("python".into()), None, Focus::Bugs);
        let said = format!("{messages:?}");
        assert!(said.contains("in python. Tell me bugs only") && said.contains("x = 1"), "{said}");
    }

    /// MCP-082, MCP-084: the template is listed and filled in; frameworks follow the language.
    #[tokio::test]
    async fn prompts_are_served() {
        let server = Server::builder("test", "1").prompts(prompts()).build().unwrap();
        let mut peer = memory::connect(&server);
        peer.initialize(Revision::V2025_11_25).await;
        let params = json!({"name": "analyze_data", "arguments": {"data": "x"}});
        let got = peer.call("prompts/get", params).await["result"].clone();
        assert_eq!(got["messages"][0]["content"]["text"], "Analyze this data: x");
        let completed = peer
            .call(
                "completion/complete",
                json!({
                    "ref": {"type": "ref/prompt", "name": "code_review"},
                    "argument": {"name": "framework", "value": "f"},
                    "context": {"arguments": {"language": "python"}},
                }),
            )
            .await;
        let values = &completed["result"]["completion"]["values"];
        assert_eq!(*values, json!(["fastapi", "flask"]));
    }
}
