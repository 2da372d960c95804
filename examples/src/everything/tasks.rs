//! Tools whose calls continue as tasks.

use std::time::Duration;

use mcp_flow::prelude::*;
use mcp_flow::question::{confirm, text};
use mcp_flow::{IntoFlows, IntoTools};

pub(super) fn tools() -> impl IntoTools {
    tools![greet]
}

pub(super) fn flows() -> impl IntoFlows {
    flows![
        slow_compute,
        failing_job,
        protocol_error_job,
        confirm_delete,
        multi_input,
        test_tool_with_task
    ]
}

/// Greets someone at once
#[tool(quick)]
fn greet(name: String) -> String {
    format!("Hello, {name}!")
}

/// Computes for some seconds
#[tool(task = "always")]
async fn slow_compute(seconds: f64, label: Option<String>) -> String {
    let duration = Duration::try_from_secs_f64(seconds.min(3_600.0)).unwrap_or_default();
    tokio::time::sleep(duration).await;
    format!("Computed {} in {seconds} s", label.as_deref().unwrap_or("nothing"))
}

/// Fails after a second
#[tool(task = "required")]
async fn failing_job() -> Result<String, String> {
    tokio::time::sleep(Duration::from_secs(1)).await;
    Err("The job failed, as it always does".to_owned())
}

/// Fails with a protocol error
#[tool(task = "always")]
#[expect(clippy::panic, reason = "the protocol error of a tool is its panic")]
async fn protocol_error_job() -> String {
    tokio::time::sleep(Duration::from_millis(100)).await;
    panic!("the job panics, as it always does")
}

/// Deletes nothing, after a confirmation
#[flow(task = "always")]
async fn confirm_delete(flow: Flow, filename: String) -> FlowResult<String> {
    Ok(match flow.ask("confirm", confirm(format!("Delete {filename}?"))).await? {
        true => format!("Deleted {filename}"),
        false => format!("Kept {filename}"),
    })
}

/// Asks two questions at once
#[flow(task = "always")]
async fn multi_input(flow: Flow) -> FlowResult<String> {
    let (name, is_sure) = tokio::join!(
        flow.ask("name", text("Which name?")),
        flow.ask("confirm", confirm("Are you sure?"))
    );
    Ok(format!("{} ({})", name?, if is_sure? { "sure" } else { "unsure" }))
}

/// Asks for a name in a round, then works as a task
#[flow(task = "required")]
async fn test_tool_with_task(flow: Flow) -> FlowResult<String> {
    let name = flow.ask("name", text("Which name?")).await?;
    let greeting = flow.step("greet", || async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        Ok::<_, String>(format!("Hello, {name}!"))
    });
    greeting.await
}
