//! `mcp-flow prompt`: gets a prompt with its arguments filled in.

use std::process::ExitCode;

use clap_complete::engine::ArgValueCompleter;
use mcp_flow::client::Client;
use mcp_flow::client::host::DenyAll;
use mcp_flow::client::model::PromptDefinition;
use serde_json::{Map, Value, json};

use crate::client::connect::ConnectOptions;
use crate::client::error::explain;
use crate::client::interrupt::interrupted;
use crate::client::suggestion::did_you_mean;
use crate::client::tool_arguments::ArgumentOptions;
use crate::command::completions;
use crate::exit::{Exit, Failure};
use crate::terminal::ask::question::value_text;
use crate::terminal::ask::{Reply, UserInput, schema};
use crate::terminal::output::{self, Format, content, sanitize};

/// Get a prompt with its arguments filled in
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "mcp-flow prompt [OPTIONS] TARGET NAME [KEY=VALUE]...\n       mcp-flow prompt [OPTIONS] NAME [KEY=VALUE]... -- COMMAND..."
)]
pub(crate) struct Prompt {
    /// Server (address or configured name), prompt, and arguments of the prompt
    #[arg(value_name = "TARGET NAME KEY=VALUE", add = ArgValueCompleter::new(completions::words))]
    words: Vec<String>,

    #[command(flatten)]
    arguments: ArgumentOptions,

    #[command(flatten)]
    connect: ConnectOptions,
}

impl Prompt {
    /// Returns the words of the command line, for completing them.
    pub(crate) fn target_words(&self) -> (&ConnectOptions, &[String]) {
        (&self.connect, &self.words)
    }

    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let (target, rest) = self.connect.find_target(&self.words)?;
        let Some((name, words)) = rest.split_first() else {
            let message =
                "no prompt given; `mcp-flow prompts TARGET` lists the prompts of a server";
            return Err(Failure::new(Exit::Usage, message).into());
        };
        self.connect.with_client(&target, DenyAll, async |client| {
            self.get(client, name, words).await?;
            Ok(ExitCode::SUCCESS)
        })
    }

    async fn get(&self, client: &Client, name: &str, words: &[String]) -> anyhow::Result<()> {
        let listed = client.prompts().all().await.map_err(explain)?;
        let Some(prompt) = listed.iter().find(|prompt| prompt.name == name) else {
            let names = listed.iter().map(|prompt| prompt.name.as_str());
            let hint = did_you_mean(name, names, "`mcp-flow prompts TARGET` lists its prompts");
            let message = format!("the server has no prompt {name:?}. {hint}");
            return Err(Failure::new(Exit::Usage, message).into());
        };
        let schema = argument_schema(prompt);
        let mut arguments = self.arguments.parse(words, &schema)?;
        complete(&mut arguments, &schema).await?;
        let arguments = arguments.iter().map(|(name, value)| (name.as_str(), value_text(value)));
        let result = client.get_prompt(name, arguments).raw().await.map_err(explain)?;
        match self.connect.format {
            Format::Json => output::print_json(&result),
            _ => {
                let messages = result["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
                output::print(&content::messages(messages))
            }
        }
    }
}

/// Asks for the required arguments that are missing (PAT-039).
async fn complete(arguments: &mut Map<String, Value>, schema: &Value) -> anyhow::Result<()> {
    let missing = schema::missing(schema, arguments);
    let input = UserInput::default();
    for question in schema::questions(schema) {
        if !missing.contains(&question.key) {
            continue;
        }
        let key = question.key.clone();
        let missing_argument = || {
            let key = sanitize(&key);
            Failure::new(Exit::Usage, format!("missing argument {key}; add {key}=VALUE"))
        };
        if !UserInput::is_interactive() {
            return Err(missing_argument().into());
        }
        match input.ask(question).await? {
            Reply::Answer(value) => {
                arguments.insert(key, value);
            }
            Reply::Interrupted => return Err(interrupted()),
            Reply::Declined | Reply::EndOfInput => return Err(missing_argument().into()),
        }
    }
    Ok(())
}

/// Creates a schema for the arguments of a prompt, which are all strings.
fn argument_schema(prompt: &PromptDefinition) -> Value {
    let property = |argument: &mcp_flow::client::model::PromptArgument| {
        let mut property = json!({"type": "string"});
        for (name, text) in [("title", &argument.title), ("description", &argument.description)] {
            if let Some(text) = text {
                property[name] = text.as_str().into();
            }
        }
        (argument.name.clone(), property)
    };
    let properties: Map<String, Value> = prompt.arguments.iter().map(property).collect();
    let required = prompt.arguments.iter().filter(|argument| argument.required);
    let required: Vec<_> = required.map(|argument| argument.name.as_str()).collect();
    json!({"type": "object", "properties": properties, "required": required,
        "additionalProperties": false})
}
