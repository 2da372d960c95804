//! A simple client: lists what a server offers, and calls its tools.
//!
//!     cargo run --example simple_client -- http://127.0.0.1:4433/mcp
//!     cargo run --example simple_client -- mcp-flow stdio
//!
//! A tool is called with the defaults or examples of its schema; one that requires more is only
//! listed.

use std::io::{self, Write};
use std::process::ExitCode;

use mcp_flow::client::{Client, Error, Program, check_arguments, connect, sanitize};
use mcp_flow::model::ToolDefinition;
use serde_json::{Map, Value};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: &[String]) -> Result<(), Box<dyn std::error::Error>> {
    let client = match arguments {
        [url] if url.contains("://") => connect(url).await?,
        [program, rest @ ..] => {
            Client::builder().connect(Program::new(program).arguments(rest)).await?
        }
        [] => return Err("name a URL, or a command that starts a server".into()),
    };
    let outcome = show(&client, &mut io::stderr()).await;
    client.close().await;
    outcome
}

/// Prints what the server offers, and the results of its tools.
async fn show(client: &Client, out: &mut impl Write) -> Result<(), Box<dyn std::error::Error>> {
    let server = client.server().await?;
    let name = sanitize::line(&server.implementation.name).into_owned();
    writeln!(out, "{name} speaks {}", server.revision)?;
    for tool in client.tools().all().await? {
        let shown = sanitize::line(&tool.name);
        let given = examples(&tool);
        if check_arguments(&tool, &given).is_err() {
            writeln!(out, "tool {shown}: needs arguments")?;
            continue;
        }
        let outcome = match client.call_tool(&tool.name, Value::Object(given)).await {
            Ok(outcome) if outcome.is_error => format!("failed: {}", outcome.error_text()),
            Ok(outcome) => outcome.text(),
            Err(error @ (Error::Server(_) | Error::Timeout { .. })) => error.to_string(),
            Err(error) => return Err(error.into()),
        };
        writeln!(out, "tool {shown}: {}", sanitize::shorten(&outcome, 200))?;
    }
    Ok(())
}

/// Returns the default or example of each property.
fn examples(tool: &ToolDefinition) -> Map<String, Value> {
    let properties = tool.input_schema.get("properties").and_then(Value::as_object);
    let properties = properties.into_iter().flatten();
    let given = properties.filter_map(|(name, property)| {
        let first = property.get("examples").and_then(|examples| examples.get(0));
        let value = property.get("default").or(first)?;
        Some((name.clone(), value.clone()))
    });
    given.collect()
}
