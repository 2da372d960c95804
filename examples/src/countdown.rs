//! `countdown`: work between two prompts, with progress.

use std::time::Duration;

use mcp_flow::prelude::*;
use mcp_flow::question::{confirm, integer};

/// Result of a countdown.
#[data]
#[derive(Debug, PartialEq, Eq)]
pub struct Launch {
    /// Start of the countdown
    pub from: i64,
    /// True if it was launched
    pub launched: bool,
}

/// Count down from a number, then ask whether to launch
#[flow(early_completion, task = "always")]
pub async fn countdown(flow: Flow) -> FlowResult<Launch> {
    let from = flow.ask("from", integer("Count down from?").range(1..=60).default(3)).await?;
    for left in (1..=from).rev() {
        let done = from - left;
        flow.progress(whole(done), whole(from), format!("{left}…"));
        // A step, so that an interrupted countdown continues where it was.
        flow.step("tick", || async {
            tokio::time::sleep(TICK).await;
            Ok::<_, String>(())
        })
        .await?;
    }
    flow.progress(whole(from), whole(from), "0".to_owned());
    let launched = flow.ask("launch", confirm("Launch?").default(false)).await?;
    if !launched {
        return flow.decline("The launch was called off");
    }
    flow.summary("Launched");
    Ok(Launch { from, launched })
}

#[expect(clippy::cast_precision_loss, reason = "at most 60")]
fn whole(number: i64) -> f64 {
    number as f64
}

const TICK: Duration = Duration::from_millis(100);
