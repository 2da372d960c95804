//! Tools that send requests to their client: elicitation, sampling, roots.

use mcp_flow_proto::model::{CreateMessage, Field, InputRequest};
use mcp_flow_server::ask::AskError;
use mcp_flow_server::input::InputRequired;
use mcp_flow_server::{
    BadTool, Context, Elicited, Failure, Form, IntoToolOutput, Outcome, Tool, ToolOutput,
};
use serde_json::{Value, json};

pub(super) fn tools() -> Vec<Result<Tool, BadTool>> {
    vec![
        Tool::builder("ask_name").handler(ask_name),
        Tool::builder("ask_twice").handler(ask_twice),
        Tool::builder("ask_all").handler(ask_all),
        Tool::builder("ask_blocking").blocking(ask_blocking),
        Tool::builder("ask_in_task").handler(async |context: Context, arguments: Value| {
            // The request is sent by a task, after the call has begun to wait.
            let task = tokio::spawn(async move {
                tokio::task::yield_now().await;
                ask_name(context, arguments).await
            });
            task.await.unwrap_or_else(|error| Err(Failure::from(error)))
        }),
        Tool::builder("ask_url").handler(ask_url),
        Tool::builder("ask_otherwise").handler(ask_otherwise),
        Tool::builder("ask_or_guess").handler(async |context: Context, arguments: Value| {
            ask_name(context, arguments).await.unwrap_or_else(|_| "Hello, whoever!".to_owned())
        }),
        Tool::builder("sample_text").handler(sample_text),
        Tool::builder("list_roots").handler(list_roots),
        Tool::builder("count_rounds").handler(count_rounds),
    ]
}

/// A name, and optionally an age.
#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
struct Person {
    /// Name to address you by
    #[schemars(length(min = 1))]
    name: String,
    age: Option<u8>,
}

async fn ask_name(context: Context, _: Value) -> Result<String, Failure> {
    Ok(match context.ask("name").elicit::<Person>("Who are you?").await? {
        Elicited::Accepted(Person { name, age: None }) => format!("Hello, {name}!"),
        Elicited::Accepted(Person { name, age: Some(age) }) => format!("Hello, {name} ({age})!"),
        Elicited::Declined => "Hello, stranger!".to_owned(),
        Elicited::Cancelled => "Come back later!".to_owned(),
    })
}

/// Two questions without keys, the second of which depends on the answer to the first.
async fn ask_twice(context: Context, _: Value) -> Result<String, Failure> {
    let first = context.elicit::<Person>("Who are you?").await?.accepted()?;
    let question = format!("And who is with you, {}?", first.name);
    let second = context.elicit::<Person>(question).await?.accepted()?;
    Ok(format!("Hello, {} and {}!", first.name, second.name))
}

/// Three questions at once.
async fn ask_all(context: Context, _: Value) -> Result<String, Failure> {
    let form = Form::of("Which one?", [Field::choice("one", ["a", "b"]).required()]);
    let (chosen, text, roots) = tokio::join!(
        context.ask("one").elicit(form),
        context.ask("text").sample(CreateMessage::new(10).user("Say something")),
        context.ask("roots").roots(),
    );
    let chosen = chosen?.accepted()?["one"].clone();
    Ok(format!("{chosen} {} {}", text?.text(), roots?.len()))
}

fn ask_blocking(context: &Context, arguments: Value) -> Result<String, Failure> {
    tokio::runtime::Handle::current().block_on(ask_name(context.clone(), arguments))
}

async fn ask_url(context: Context, arguments: Value) -> Result<&'static str, AskError> {
    let url = arguments["url"].as_str().unwrap_or("https://a.example/key");
    Ok(match context.elicit_url("Enter your key there", url).await? {
        Elicited::Accepted(()) => "gone there",
        Elicited::Declined => "stayed here",
        Elicited::Cancelled => "lost",
    })
}

/// Asks the same question with different words each time.
async fn ask_otherwise(context: Context, _: Value) -> Result<String, Failure> {
    static ASKED: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let number = ASKED.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let person = context.elicit::<Person>(format!("Who are you, guest {number}?")).await?;
    Ok(person.accepted()?.name)
}

async fn sample_text(context: Context, arguments: Value) -> Result<String, AskError> {
    let request = CreateMessage::new(100)
        .system_prompt("Be brief.")
        .user(arguments["question"].as_str().unwrap_or("What is the capital of France?"));
    let tools = arguments["tools"].as_bool().unwrap_or_default();
    let request = if tools { request.tool(Default::default()) } else { request };
    let result = context.sample(request).await?;
    Ok(format!("{} says: {}", result.model, result.text()))
}

async fn list_roots(context: Context, _: Value) -> Result<String, AskError> {
    let roots = context.roots().await?;
    Ok(roots.into_iter().map(|root| root.uri).collect::<Vec<_>>().join(" "))
}

/// Carries its own state through three rounds.
async fn count_rounds(context: Context, _: Value) -> Turn {
    let round = context.carried().and_then(|round| round.as_u64()).unwrap_or_default();
    if round == 2 {
        let last = context.input_response("round-1").unwrap_or_default();
        return Turn::Done(format!("the last answer was {last}"));
    }
    let request = InputRequest { method: "roots/list", params: json!({}) };
    Turn::Again(InputRequired::new().ask(format!("round-{round}"), request).carry(round + 1))
}

enum Turn {
    Done(String),
    Again(InputRequired),
}

impl IntoToolOutput for Turn {
    fn into_tool_output(self) -> ToolOutput {
        match self {
            Self::Done(text) => text.into_tool_output(),
            Self::Again(input) => input.into_tool_output(),
        }
    }

    fn reply(self, context: &Context) -> Outcome {
        match self {
            Self::Done(text) => IntoToolOutput::reply(text, context),
            Self::Again(input) => input.reply(context),
        }
    }
}
