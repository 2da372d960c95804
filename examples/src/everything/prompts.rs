//! Prompts: a plain one, one with completed arguments, and one for each kind of content.

use mcp_flow::model::{PromptMessage, ResourceContents};
use mcp_flow::prelude::*;
use mcp_flow::prompt::PromptParameter;
use mcp_flow::{BadPrompt, IntoPrompts, Prompt};

/// All prompts.
pub fn prompts() -> impl IntoPrompts {
    (simple(), with_arguments(), with_embedded_resource(), with_image())
}

fn simple() -> Result<Prompt, BadPrompt> {
    Prompt::builder("test_simple_prompt")
        .description("A prompt without arguments")
        .template("This is a simple prompt for testing.")
}

fn with_arguments() -> Result<Prompt, BadPrompt> {
    Prompt::builder("test_prompt_with_arguments")
        .description("A prompt with arguments")
        .argument(
            PromptParameter::required("arg1")
                .description("First test argument")
                .complete_from(["test", "testing", "tested"]),
        )
        .argument(PromptParameter::required("arg2").description("Second test argument"))
        .template("Prompt with arguments: arg1='{arg1}', arg2='{arg2}'")
}

fn with_embedded_resource() -> Result<Prompt, BadPrompt> {
    #[data]
    struct Arguments {
        /// URI of the resource to embed
        #[serde(rename = "resourceUri")]
        uri: String,
    }
    Prompt::builder("test_prompt_with_embedded_resource")
        .description("A prompt with a resource in it")
        .quick(|_: &Context, Arguments { uri }: Arguments| {
            let text = "Embedded resource content for testing.";
            let resource = ResourceContents::text(uri, text).with_mime_type("text/plain");
            vec![
                PromptMessage::user(Content::embedded(resource)),
                PromptMessage::user("Please process the embedded resource above."),
            ]
        })
}

fn with_image() -> Result<Prompt, BadPrompt> {
    #[data]
    struct Nothing {}
    Prompt::builder("test_prompt_with_image").description("A prompt with an image in it").quick(
        |_: &Context, Nothing {}: Nothing| {
            vec![
                PromptMessage::user(super::content::image()),
                PromptMessage::user("Please analyze the image above."),
            ]
        },
    )
}
