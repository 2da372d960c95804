//! Tools with side effects while they run: they log, report progress, close their stream, or change
//! what the server offers.

use std::time::Duration;

use mcp_flow::model::LogLevel;
use mcp_flow::prelude::*;
use mcp_flow::{AddPromptsError, AddToolsError, BadTool, IntoTools, Prompt};
use serde_json::Value;
use tokio::time::sleep;

/// All tools of this module.
pub fn tools() -> Result<Vec<Tool>, BadTool> {
    tools![
        test_tool_with_logging,
        test_logging_tool,
        test_tool_with_progress,
        test_reconnection,
        test_trigger_tool_change,
        test_trigger_prompt_change,
    ]
    .into_tools()
}

/// Logs three messages while it runs
#[tool]
async fn test_tool_with_logging(context: &Context) -> &'static str {
    context.log(LogLevel::Info, None, "Tool execution started");
    sleep(A_MOMENT).await;
    context.log(LogLevel::Info, None, "Tool processing data");
    sleep(A_MOMENT).await;
    context.log(LogLevel::Info, None, "Tool execution completed");
    "Tool with logging executed successfully"
}

/// Logs one message, which reaches only callers that ask for it
#[tool(quick)]
fn test_logging_tool(context: &Context) -> &'static str {
    context.log(LogLevel::Info, None, "This is for those who want to know.");
    "Logged"
}

/// Reports progress at the start, in the middle and at the end
#[tool]
async fn test_tool_with_progress(context: &Context) -> &'static str {
    context.progress(0.0, Some(100.0), None);
    sleep(A_MOMENT).await;
    context.progress(50.0, Some(100.0), None);
    sleep(A_MOMENT).await;
    context.progress(100.0, Some(100.0), None);
    "Tool with progress executed successfully"
}

/// Closes its stream in the middle, so that the caller has to reconnect for the result
#[tool]
async fn test_reconnection(context: &Context) -> &'static str {
    context.close_stream();
    sleep(2 * A_MOMENT).await;
    "Reconnection test completed successfully"
}

/// Adds a tool, or removes it if it exists
#[tool(quick)]
fn test_trigger_tool_change(context: &Context) -> Result<&'static str, AddToolsError> {
    let server = context.server();
    if server.remove_tool(PASSING) {
        return Ok("Removed a tool");
    }
    let passing = Tool::builder(PASSING).description("It comes and goes");
    server.add_tools(passing.quick(|_: &Context, _: Value| "here"))?;
    Ok("Added a tool")
}

/// Adds a prompt, or removes it if it exists
#[tool(quick)]
fn test_trigger_prompt_change(context: &Context) -> Result<&'static str, AddPromptsError> {
    let server = context.server();
    if server.remove_prompt(PASSING) {
        return Ok("Removed a prompt");
    }
    let passing = Prompt::builder(PASSING).description("It comes and goes");
    server.add_prompts(passing.template("Here."))?;
    Ok("Added a prompt")
}

const PASSING: &str = "test_passing";

const A_MOMENT: Duration = Duration::from_millis(50);
