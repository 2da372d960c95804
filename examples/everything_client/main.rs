//! Client for the official conformance suite: exercises every feature of a server.
//!
//!     everything_client http://127.0.0.1:3000/mcp
//!
//! `MCP_CONFORMANCE_CONTEXT` may name the tools to call and their arguments; otherwise every tool is
//! called with generated arguments. For a server that requires authentication, the client uses the
//! credentials of the context or an OAuth login without a browser (`login`). Skills are listed, and
//! loaded unless the scenario in `MCP_CONFORMANCE_SCENARIO` is about not doing so.

mod login;

use std::sync::Arc;

use mcp_flow::client::approval::{Approver, Policies, Policy, PolicyHost, PolicyTable};
use mcp_flow::client::host::{ElicitAnswer, Elicitation, ServerIdentity};
use mcp_flow::client::{Client, Error, HttpOptions, connector};
use mcp_flow::model::{ElicitationCapability, Root, ToolDefinition};
use mcp_flow::skills::{ClientSkills, EXTENSION};
use serde_json::{Map, Value, json};

type Answer<'a> = std::pin::Pin<Box<dyn Future<Output = ElicitAnswer> + Send + 'a>>;

/// Accepts every form, with its defaults.
struct Agreeable;

impl Approver for Agreeable {
    fn is_present(&self) -> bool {
        true
    }

    fn elicitation_modes(&self) -> Option<ElicitationCapability> {
        Some(ElicitationCapability { form: true, url: false })
    }

    fn elicit<'a>(&'a self, _: &'a ServerIdentity, _: Elicitation) -> Answer<'a> {
        Box::pin(async { ElicitAnswer::Accept(Map::new()) })
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().next_back().unwrap_or_default();
    let policies = Policies { calls: PolicyTable::new(Policy::Allow), ..Policies::default() };
    let root = Root { uri: "file:///".to_owned(), name: None, meta: None };
    let guard = PolicyHost::new(Agreeable).policies(policies).roots([root]);
    let account = Arc::new(login::account(&url, &context())?);
    let connector = connector(&url, &HttpOptions::new().authorizer(account))?;
    let client = Client::builder().host(guard).connect_by(connector).await?;
    let outcome = everything(&client).await;
    client.close().await;
    outcome
}

/// Reads the context of the scenario.
fn context() -> Value {
    let context = std::env::var("MCP_CONFORMANCE_CONTEXT").unwrap_or_default();
    serde_json::from_str(&context).unwrap_or_default()
}

async fn everything(client: &Client) -> Result<(), Box<dyn std::error::Error>> {
    let tools = client.tools().all().await?;
    let capabilities = client.server().await?.capabilities.clone();
    match context().get("toolCalls").and_then(Value::as_array) {
        Some(calls) => {
            for call in calls {
                let name = call["name"].as_str().unwrap_or_default();
                client.call_tool(name, call["arguments"].clone()).await?;
            }
        }
        None => {
            for tool in &tools {
                let called = client.call_tool(&tool.name, Value::Object(made_up(tool, &tools)));
                match called.await {
                    // The server need not accept generated arguments.
                    Ok(_) | Err(Error::Server(_)) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
    }
    if capabilities.resources.is_some() {
        for resource in client.resources().all().await? {
            client.read_resource(&resource.uri).await?;
        }
    }
    if capabilities.prompts.is_some() {
        for prompt in client.prompts().all().await? {
            let arguments = prompt.arguments.iter().map(|argument| (&*argument.name, "x"));
            client.get_prompt(&prompt.name, arguments).await?;
        }
    }
    if capabilities.extensions.contains_key(EXTENSION) {
        skills(client).await?;
    }
    Ok(())
}

/// Lists all skills, and reads all files of each. One that is not as promised ends the program before
/// another file is read.
async fn skills(client: &Client) -> Result<(), Box<dyn std::error::Error>> {
    let entries = client.skills().await?;
    if std::env::var("MCP_CONFORMANCE_SCENARIO").is_ok_and(|name| name.ends_with("no-prefetch")) {
        return Ok(());
    }
    for entry in entries {
        let skill = client.load_skill(entry).await?;
        for file in skill.entry().files.iter().flatten() {
            skill.read(&file.uri).await?;
        }
    }
    Ok(())
}

/// Generates arguments of the types a tool accepts; for a schema as an argument, that of the next
/// tool.
fn made_up(tool: &ToolDefinition, tools: &[ToolDefinition]) -> Map<String, Value> {
    let properties = tool.input_schema.get("properties").and_then(Value::as_object);
    let properties = properties.into_iter().flatten();
    let made = properties.map(|(name, property)| {
        let value = match property.get("type").and_then(Value::as_str) {
            Some("number" | "integer") => json!(7),
            Some("boolean") => json!(true),
            Some("array") => json!([]),
            Some("object") if name == "schema" => tools
                .iter()
                .find(|other| other.name != tool.name)
                .map_or(json!({}), |other| Value::Object(other.input_schema.clone())),
            Some("object") => json!({}),
            _ => json!("x"),
        };
        (name.clone(), value)
    });
    made.collect()
}
