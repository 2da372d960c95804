//! `--diagnostics`: tools that succeed, wait, fail and panic on request, and flows that sleep and wait for
//! a signal, to test clients.

mod ledger;
mod paid_order;
mod sleeper;

use std::time::Duration;

use mcp_flow::prelude::*;
use mcp_flow::{BadTool, IntoTools};
use tokio::time::{Instant, sleep_until};

pub(crate) use ledger::{append_tool, ledger};
pub(crate) use paid_order::paid_order;
pub(crate) use sleeper::sleeper;

/// Creates the tools `echo`, `sleep`, `fail` and `panic`.
pub(crate) fn tools() -> Result<Vec<Tool>, BadTool> {
    tools![echo, sleep, fail, crash].into_tools()
}

/// Return the text it is given
#[tool(category = "diagnostics", quick, read_only, open_world = false)]
fn echo(
    /// Text to return
    text: String,
) -> String {
    text
}

/// Wait, reporting progress every 50 ms to callers that ask for it
#[tool(category = "diagnostics", read_only, open_world = false)]
async fn sleep(
    context: &Context,
    /// Milliseconds to wait
    #[param(range = 0..=MAX_SLEEP_MS)]
    ms: u64,
) -> String {
    let start = Instant::now();
    let whole = Duration::from_millis(ms);
    if context.wants_progress() {
        let mut done = PROGRESS_STEP;
        while done < whole {
            sleep_until(start + done).await;
            context.progress(milliseconds(done), Some(milliseconds(whole)), None);
            done += PROGRESS_STEP;
        }
    }
    sleep_until(start + whole).await;
    format!("slept {ms} ms")
}

/// Fail with a message
#[tool(category = "diagnostics", quick, read_only, open_world = false)]
fn fail() -> Result<(), &'static str> {
    Err("This tool always fails.")
}

/// Crash, which only this call should notice
#[tool(name = "panic", category = "diagnostics", read_only, open_world = false)]
#[expect(clippy::panic, reason = "crashing is what this tool is for")]
async fn crash() {
    panic!("the panic tool was called");
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

const PROGRESS_STEP: Duration = Duration::from_millis(50);
const MAX_SLEEP_MS: u64 = 24 * 60 * 60 * 1000;
