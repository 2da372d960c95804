//! `mcp-flow prompt`: a prompt, filled in.

use std::process::ExitCode;

use mcp_flow::client::Client;
use mcp_flow::client::host::Nobody;
use mcp_flow::client::model::PromptDefinition;
use serde_json::{Map, Value, json};

use crate::ask::question::spelled;
use crate::ask::{Asked, Asker, schema};
use crate::exit::{Exit, Failure};
use crate::fault::explain;
use crate::given::Given;
use crate::interrupt::interrupted;
use crate::reach::Reach;
use crate::show::{self, Format, content, neutral};

/// Get a prompt, filled in
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "mcp-flow prompt [OPTIONS] TARGET NAME [KEY=VALUE]...\n       mcp-flow prompt [OPTIONS] NAME [KEY=VALUE]... -- COMMAND..."
)]
pub(crate) struct Prompt {
    /// The server, which prompt, and its arguments
    #[arg(value_name = "TARGET NAME KEY=VALUE")]
    words: Vec<String>,

    #[command(flatten)]
    given: Given,

    #[command(flatten)]
    reach: Reach,
}

impl Prompt {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let (target, rest) = self.reach.find(&self.words)?;
        let Some((name, words)) = rest.split_first() else {
            let message = "no prompt is named; `mcp-flow prompts TARGET` lists what there is";
            return Err(Failure::new(Exit::Usage, message).into());
        };
        self.reach.with_client(&target, Nobody, async |client| {
            self.get(client, name, words).await?;
            Ok(ExitCode::SUCCESS)
        })
    }

    async fn get(&self, client: &Client, name: &str, words: &[String]) -> anyhow::Result<()> {
        let listed = client.prompts().all().await.map_err(explain)?;
        let Some(prompt) = listed.iter().find(|prompt| prompt.name == name) else {
            let message = format!(
                "the server has no prompt {name:?}. `mcp-flow prompts TARGET` lists what there is"
            );
            return Err(Failure::new(Exit::Usage, message).into());
        };
        let schema = schema_of(prompt);
        let mut arguments = self.given.read(words, &schema)?;
        complete(&mut arguments, &schema).await?;
        let arguments = arguments.iter().map(|(name, value)| (name.as_str(), spelled(value)));
        let result = client.get_prompt(name, arguments).raw().await.map_err(explain)?;
        match self.reach.format {
            Format::Json => show::print_json(&result),
            _ => {
                let messages = result["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
                show::print(&content::messages(messages))
            }
        }
    }
}

/// Asks for the required arguments that are missing (PAT-039).
async fn complete(arguments: &mut Map<String, Value>, schema: &Value) -> anyhow::Result<()> {
    let missing = schema::missing(schema, arguments);
    let asker = Asker::default();
    for question in schema::questions(schema) {
        if !missing.contains(&question.key) {
            continue;
        }
        let key = question.key.clone();
        let lacking = || {
            let key = neutral(&key);
            Failure::new(Exit::Usage, format!("missing argument {key}; add {key}=VALUE"))
        };
        if !Asker::is_interactive() {
            return Err(lacking().into());
        }
        match asker.ask(question).await? {
            Asked::Answer(value) => {
                arguments.insert(key, value);
            }
            Asked::Interrupted => return Err(interrupted()),
            Asked::Declined | Asked::NoMore => return Err(lacking().into()),
        }
    }
    Ok(())
}

/// The arguments of a prompt, which are all texts, as a schema.
fn schema_of(prompt: &PromptDefinition) -> Value {
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
