//! The flow `sleeper`: sleeps, and says how late it woke.

use std::time::Duration;

use mcp_flow::OfferedFlow;
use mcp_flow::prelude::*;
use mcp_flow::session::Timestamp;

/// Parameters of the flow `sleeper`.
#[data]
#[derive(Debug, Default)]
struct Sleep {
    /// Milliseconds to sleep [default: 0]
    ms: Option<u64>,
    /// Time until which to sleep instead, in milliseconds since 1970
    until: Option<u64>,
    /// Number of values to draw and record before, which a replay reads again [default: 0]
    #[schemars(range(max = 9_900))]
    draws: Option<u32>,
}

/// Result of the flow `sleeper`.
#[data]
#[derive(Debug)]
struct Awake {
    /// Time at which the flow was to wake, in milliseconds since 1970
    due: u64,
    /// Milliseconds by which it woke later
    late: u64,
}

/// Creates the flow.
pub(crate) fn sleeper() -> OfferedFlow {
    OfferedFlow::new("sleeper", sleep)
        .description("Sleep, and say how late the flow woke")
        .params::<Sleep>()
}

async fn sleep(flow: Flow, sleep: Sleep) -> FlowResult<Awake> {
    let due = match sleep.until {
        Some(until) => Timestamp::from_millis(until),
        None => flow.now().after(Duration::from_millis(sleep.ms.unwrap_or_default())),
    };
    for _ in 0..sleep.draws.unwrap_or_default() {
        flow.random();
    }
    flow.sleep_until(due).await?;
    let late = u64::try_from(flow.now().since(due).as_millis()).unwrap_or(u64::MAX);
    Ok(Awake { due: due.as_millis(), late })
}
