//! `long_operation`: long work with progress.

use std::time::Duration;

use mcp_flow::prelude::*;
use tokio::time::{Instant, sleep_until};

/// Work for ten seconds in a hundred steps, reporting each to callers that ask for progress
#[tool(category = "demonstration", read_only, open_world = false)]
pub async fn long_operation(context: &Context) -> String {
    let start = Instant::now();
    for step in 1..=STEPS {
        // Relative to the start, so that a late step does not delay the next ones.
        sleep_until(start + STEP * step).await;
        let message = format!("step {step} of {STEPS}");
        context.progress(step.into(), Some(STEPS.into()), Some(&message));
    }
    format!("All {STEPS} steps are done.")
}

const STEPS: u32 = 100;
const STEP: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use mcp_flow::{Revision, Server, tools};
    use mcp_flow_testkit_fixture::memory;
    use serde_json::json;
    use std::time::Duration;

    /// MCP-085: a hundred reports that rise to the total, and none after the result.
    #[tokio::test(start_paused = true)]
    async fn every_step_is_reported() {
        let server =
            Server::builder("test", "1").tools(tools![super::long_operation]).build().unwrap();
        let mut peer = memory::connect(&server).timeout(Duration::from_secs(3600));
        peer.initialize(Revision::V2025_11_25).await;
        let params = json!({"name": "long_operation", "_meta": {"progressToken": 7}});
        let id = peer.ask("tools/call", params);
        for step in 1..=100 {
            let message = peer.next().await;
            assert_eq!(message["method"], "notifications/progress", "{message}");
            assert_eq!(message["params"]["progress"], f64::from(step));
            assert_eq!(message["params"]["total"], 100.0);
        }
        assert_eq!(peer.next().await["id"], id);
        assert!(peer.settle().await.is_empty());
    }
}
