//! Tools, and a prompt, that take several rounds at 2026-07-28: they ask for input under the keys
//! that the suite uses. At older revisions the same functions send requests.

use mcp_flow::ask::{AskError, Capability};
use mcp_flow::model::{CreateMessage, PromptMessage};
use mcp_flow::prelude::*;
use mcp_flow::{BadPrompt, BadTool, IntoTools, Prompt};

/// All tools of this module.
pub fn tools() -> Result<Vec<Tool>, BadTool> {
    tools![
        test_input_required_result_elicitation,
        test_input_required_result_sampling,
        test_input_required_result_list_roots,
        test_input_required_result_request_state,
        test_input_required_result_multiple_inputs,
        test_input_required_result_multi_round,
        test_input_required_result_tampered_state,
        test_input_required_result_capabilities,
    ]
    .into_tools()
}

/// The prompt.
pub fn prompt() -> Result<Prompt, BadPrompt> {
    #[data]
    struct Nothing {}
    Prompt::builder("test_input_required_result_prompt")
        .description("A prompt that asks for a context first")
        .get(async |context: Context, Nothing {}: Nothing| -> Result<_, Failure> {
            let asked = context.ask("user_context");
            let answer = asked.elicit::<Setting>("What context should the prompt use?").await?;
            let Setting { context } = answer.accepted()?;
            Ok(vec![PromptMessage::user(format!("Use this context: {context}"))])
        })
}

/// Asks for a name and returns a greeting
#[tool]
async fn test_input_required_result_elicitation(context: &Context) -> Result<String, Failure> {
    let Name { name } = context.ask("user_name").elicit(WHO).await?.accepted()?;
    Ok(format!("Hello, {name}!"))
}

/// Asks the client's model for the capital of France
#[tool]
async fn test_input_required_result_sampling(context: &Context) -> Result<String, AskError> {
    let question = CreateMessage::new(100).user("What is the capital of France?");
    let answer = context.ask("capital_question").sample(question).await?;
    Ok(format!("The model says: {}", answer.text()))
}

/// Asks the client for its roots
#[tool]
async fn test_input_required_result_list_roots(context: &Context) -> Result<String, AskError> {
    let roots = context.ask("client_roots").roots().await?;
    let uris: Vec<_> = roots.iter().map(|root| root.uri.as_str()).collect();
    Ok(format!("The client's roots: {}", uris.join(", ")))
}

/// Asks for a confirmation, and gets its state back with it
#[tool]
async fn test_input_required_result_request_state(context: &Context) -> Result<String, Failure> {
    confirm(context).await
}

/// Asks for a confirmation, and accepts only its own state
#[tool]
async fn test_input_required_result_tampered_state(context: &Context) -> Result<String, Failure> {
    confirm(context).await
}

/// Asks for a name, a greeting and the roots, all at once
#[tool]
async fn test_input_required_result_multiple_inputs(context: &Context) -> Result<String, Failure> {
    let greeting = CreateMessage::new(50).user("Generate a greeting");
    let (name, greeting, roots) = tokio::join!(
        context.ask("user_name").elicit::<Name>(WHO),
        context.ask("greeting").sample(greeting),
        context.ask("client_roots").roots(),
    );
    let Name { name } = name?.accepted()?;
    Ok(format!("{} {name}, with {} roots", greeting?.text(), roots?.len()))
}

/// Asks for a name, and then for a color
#[tool]
async fn test_input_required_result_multi_round(context: &Context) -> Result<String, Failure> {
    let name = context.ask("step1").elicit::<Name>("Step 1: What is your name?").await?;
    let Name { name } = name.accepted()?;
    let color = context.ask("step2").elicit::<Color>("Step 2: What is your favorite color?");
    let Color { color } = color.await?.accepted()?;
    Ok(format!("{name} likes {color}."))
}

/// Asks for whatever the client supports
#[tool]
async fn test_input_required_result_capabilities(context: &Context) -> Result<String, Failure> {
    let name = async {
        if !context.client_can(Capability::ElicitationForm) {
            return Ok("whoever you are".to_owned());
        }
        let answer = context.ask("user_name").elicit::<Name>(WHO).await?;
        Ok::<_, Failure>(answer.accepted()?.name)
    };
    let greeting = async {
        if !context.client_can(Capability::Sampling) {
            return Ok("Hello".to_owned());
        }
        let question = CreateMessage::new(50).user("Generate a greeting");
        Ok::<_, Failure>(context.ask("greeting").sample(question).await?.text())
    };
    let (name, greeting) = tokio::join!(name, greeting);
    Ok(format!("{}, {}!", greeting?, name?))
}

async fn confirm(context: &Context) -> Result<String, Failure> {
    let Confirmation { ok } = context.ask("confirm").elicit("Please confirm").await?.accepted()?;
    // Any other state is refused before the tool is called.
    Ok(format!("state-ok, confirmed: {ok}"))
}

const WHO: &str = "What is your name?";

#[data]
struct Name {
    name: String,
}

#[data]
struct Color {
    color: String,
}

#[data]
struct Confirmation {
    ok: bool,
}

#[data]
struct Setting {
    context: String,
}
