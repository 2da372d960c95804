//! Names, arguments and addresses that complete a word, from the configuration and from servers.

use std::sync::Arc;

use mcp_flow::client::host::DenyAll;
use mcp_flow::client::transport::Connector;
use mcp_flow::client::{Client, CompletionReference};
use serde_json::Value;

use crate::client::connect::{ConnectionSettings, connect};
use crate::client::error::explain;
use crate::configuration::ClientConfiguration;

/// A word, with a description for shells that show one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) value: String,
    pub(super) help: Option<String>,
}

/// Kind of names that follow the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Tool,
    Prompt,
    Resource,
}

impl Candidate {
    fn new(value: impl Into<String>, help: Option<&str>) -> Self {
        // A description is a line; shells show less of it.
        let help = help.and_then(|text| text.lines().next()).map(crate::terminal::output::sanitize);
        Self { value: value.into(), help }
    }

    /// Returns whether a shell takes it as one word and runs nothing: servers choose names.
    pub(super) fn is_plain(&self) -> bool {
        let is_plain =
            |character: char| character.is_alphanumeric() || "_-./:@%+,=~#".contains(character);
        !self.value.starts_with(['-', '~', '#']) && self.value.chars().all(is_plain)
    }
}

/// Names of configured servers, and the address of a server on this machine.
pub(super) fn servers(configuration: &ClientConfiguration) -> anyhow::Result<Vec<Candidate>> {
    let named = configuration.names().map(|name| Candidate::new(name, Some("a configured server")));
    let local = Candidate::new(LOCAL, Some("mcp-flow serve on this machine"));
    Ok(named.chain([local]).collect())
}

/// Asks a server what may follow the words after its name.
pub(super) async fn ask(
    connector: Arc<dyn Connector>,
    settings: ConnectionSettings,
    kind: Kind,
    words: &[String],
    current: &str,
) -> anyhow::Result<Vec<Candidate>> {
    let client = connect(connector, settings, DenyAll).await?;
    let found = match words.split_first() {
        None => names(&client, kind).await,
        Some((name, given)) => arguments(&client, kind, name, given, current).await,
    };
    client.close().await;
    found
}

async fn names(client: &Client, kind: Kind) -> anyhow::Result<Vec<Candidate>> {
    Ok(match kind {
        Kind::Tool => {
            let tools = client.tools().all().await.map_err(explain)?;
            tools
                .iter()
                .map(|tool| Candidate::new(&*tool.name, tool.description.as_deref()))
                .collect()
        }
        Kind::Prompt => {
            let prompts = client.prompts().all().await.map_err(explain)?;
            let prompts = prompts.iter();
            prompts
                .map(|prompt| Candidate::new(&*prompt.name, prompt.description.as_deref()))
                .collect()
        }
        Kind::Resource => {
            let resources = client.resources().all().await.map_err(explain)?;
            resources
                .iter()
                .map(|resource| Candidate::new(&*resource.uri, Some(&resource.description.name)))
                .collect()
        }
    })
}

/// Arguments that were not given yet as `name=`; of the one being typed, its values.
async fn arguments(
    client: &Client,
    kind: Kind,
    name: &str,
    given: &[String],
    current: &str,
) -> anyhow::Result<Vec<Candidate>> {
    let is_given = |name: &str| given.iter().any(|word| word.split('=').next() == Some(name));
    let typed = current.split_once('=').map(|(argument, _)| argument);
    match kind {
        Kind::Tool => {
            let tools = client.tools().all().await.map_err(explain)?;
            let Some(tool) = tools.iter().find(|tool| tool.name == name) else {
                return Ok(Vec::new());
            };
            let Some(properties) = tool.input_schema["properties"].as_object() else {
                return Ok(Vec::new());
            };
            if let Some(argument) = typed {
                let values = properties.get(argument).map(values).unwrap_or_default();
                let word = |value: String| Candidate::new(format!("{argument}={value}"), None);
                return Ok(values.into_iter().map(word).collect());
            }
            let open = properties.iter().filter(|(name, _)| !is_given(name));
            let word = |(name, schema): (&String, &Value)| {
                Candidate::new(format!("{name}="), schema["description"].as_str())
            };
            Ok(open.map(word).collect())
        }
        Kind::Prompt => {
            if let Some((argument, value)) = current.split_once('=') {
                let prompt = CompletionReference::Prompt(name.to_owned());
                let settled = given.iter().filter_map(|word| word.split_once('='));
                let settled =
                    settled.map(|(name, value)| (name.to_owned(), value.into())).collect();
                let found = client.complete(&prompt, argument, value, settled).await;
                let values = found.map_err(explain)?.values.into_iter();
                return Ok(values
                    .map(|value| Candidate::new(format!("{argument}={value}"), None))
                    .collect());
            }
            let prompts = client.prompts().all().await.map_err(explain)?;
            let prompt = prompts.iter().find(|prompt| prompt.name == name);
            let arguments = prompt.map(|prompt| prompt.arguments.as_slice()).unwrap_or_default();
            let open = arguments.iter().filter(|argument| !is_given(&argument.name));
            let word = |argument: &mcp_flow::model::PromptArgument| {
                Candidate::new(format!("{}=", argument.name), argument.description.as_deref())
            };
            Ok(open.map(word).collect())
        }
        Kind::Resource => Ok(Vec::new()),
    }
}

/// Values that a schema names.
fn values(schema: &Value) -> Vec<String> {
    if schema["type"] == "boolean" {
        return vec!["true".to_owned(), "false".to_owned()];
    }
    let named = schema["enum"].as_array().into_iter().flatten();
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    named.map(text).collect()
}

/// Address of a server with default settings.
const LOCAL: &str = "http://127.0.0.1:4433";

#[cfg(test)]
mod tests {
    use super::Candidate;

    #[test]
    fn names_that_a_shell_would_interpret_are_left_out() {
        for (value, is_plain) in [
            ("calculator.add", true),
            ("file:///a/b%20c.txt", true),
            ("größe=", true),
            ("$(id)", false),
            ("`id`", false),
            ("a b", false),
            ("a;b", false),
            ("a&b", false),
            ("a\nb", false),
            ("\u{1b}[2J", false),
            ("--config=/x", false),
            ("~root", false),
        ] {
            assert_eq!(Candidate::new(value, None).is_plain(), is_plain, "{value:?}");
        }
    }
}
