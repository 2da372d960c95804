//! Prompts of the fixture.

use mcp_flow_proto::model::{Content, Icon, PromptMessage, ResourceContents};
use mcp_flow_server::prompt::PromptParameter;
use mcp_flow_server::{Context, Prompt};
use serde_json::Value;

use super::Fixture;

impl Fixture {
    /// The fixture with prompts.
    pub fn with_prompts() -> Self {
        Self::with(|builder| builder.prompts(prompts()))
    }
}

/// A template, one with every kind of content, one with completion, and some that fail.
pub fn prompts() -> Vec<Prompt> {
    let numbers = |_: &Context, partial: &str, _: &_| {
        let all = (0..250).map(|number| number.to_string());
        all.filter(|number| number.starts_with(partial)).collect::<Vec<_>>()
    };
    let built = [
        Prompt::builder("analyze_data")
            .title("Analyze data")
            .description("Asks for an analysis")
            .icon(Icon::new("data:image/png;base64,AA=="))
            .meta("kind", "analysis")
            .argument(
                PromptParameter::required("data").title("Data").description("What to analyze"),
            )
            .argument(PromptParameter::optional("style"))
            .template("Analyze this data{style}: {data}"),
        Prompt::builder("everything").quick(|_: &Context, _: Value| {
            [
                PromptMessage::user("t"),
                PromptMessage::assistant(Content::image([1], "image/png")),
                PromptMessage::user(Content::audio([2], "audio/wav")),
                PromptMessage::user(Content::embedded(ResourceContents::text("file:///c", "hi"))),
                PromptMessage::user(Content::link("file:///d", "d")),
            ]
        }),
        Prompt::builder("pick")
            .argument(
                PromptParameter::required("language").complete_from(["python", "rust", "ruby"]),
            )
            .argument(PromptParameter::optional("framework").complete(|_, partial, resolved| {
                let known = match resolved.get("language") {
                    Some("python") => vec!["django", "flask"],
                    Some("rust") => vec!["axum"],
                    _ => vec![],
                };
                known.into_iter().filter(|name| name.starts_with(partial)).collect::<Vec<_>>()
            }))
            .argument(PromptParameter::optional("number").complete(numbers))
            .argument(PromptParameter::optional("free"))
            .template("{framework} in {language}"),
        Prompt::builder("fail").get(async |_: Context, _: Value| Err::<String, _>("no luck")),
        Prompt::builder("panic")
            .blocking(|_: &Context, _: Value| -> String { panic!("secret detail") }),
    ];
    built.into_iter().map(|prompt| prompt.expect("the fixture's prompts are good")).collect()
}
