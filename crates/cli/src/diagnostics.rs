//! `--diagnostics`: tools that succeed, wait, fail and crash on request, for trying out clients.

use std::time::Duration;

use mcp_flow_server::{BadTool, Context, Tool};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};

#[derive(Debug, Deserialize)]
struct Echo {
    text: String,
}

#[derive(Debug, Deserialize)]
struct Sleep {
    ms: u64,
}

/// `echo`, `sleep`, `fail` and `panic`.
pub(crate) fn tools() -> Result<Vec<Tool>, BadTool> {
    let nothing = json!({"type": "object", "additionalProperties": false});
    Ok(vec![
        Tool::builder("echo")
            .description("Return the text it is given")
            .input_schema(json!({
                "type": "object",
                "properties": {"text": {"type": "string", "description": "What to return"}},
                "required": ["text"],
                "additionalProperties": false
            }))
            .quick(|_: &Context, Echo { text }: Echo| text)?,
        Tool::builder("sleep")
            .description("Wait, reporting progress every 50 ms to callers that ask for it")
            .input_schema(json!({
                "type": "object",
                "properties": {"ms": {
                    "type": "integer",
                    "minimum": 0,
                    "maximum": LONGEST_SLEEP_MS,
                    "description": "How long to wait, in milliseconds"
                }},
                "required": ["ms"],
                "additionalProperties": false
            }))
            .handler(sleep)?,
        Tool::builder("fail")
            .description("Fail with a message")
            .input_schema(nothing.clone())
            .quick(|_: &Context, _: Value| Err::<(), _>("This tool always fails."))?,
        Tool::builder("panic")
            .description("Crash, which only this call should notice")
            .input_schema(nothing)
            .handler(async |_: Context, _: Value| crash())?,
    ])
}

async fn sleep(context: Context, Sleep { ms }: Sleep) -> String {
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

#[expect(clippy::panic, reason = "crashing is what this tool is for")]
fn crash() {
    panic!("the panic tool was called");
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

const PROGRESS_STEP: Duration = Duration::from_millis(50);
const LONGEST_SLEEP_MS: u64 = 24 * 60 * 60 * 1000;
