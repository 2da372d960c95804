//! The flow that is measured: it asks, and asks again.

use std::sync::Arc;

use mcp_flow_engine::model::question::confirm;
use mcp_flow_engine::model::session::Bounds;
use mcp_flow_engine::model::{Owner, Store};
use mcp_flow_engine::{Definition, Engine, EngineBuilder, Flow, FlowResult, Limits};

#[derive(serde::Deserialize)]
struct NoParams {}

async fn talk(flow: Flow, _: NoParams) -> FlowResult<u32> {
    let mut turns = 0;
    while flow.ask("more", confirm("Shall we go on with this conversation?").default(true)).await? {
        turns += 1;
    }
    Ok(turns)
}

pub(crate) fn engine(store: Arc<dyn Store>, limits: Limits) -> EngineBuilder {
    let bounds =
        Bounds { prompts: u32::MAX, events: usize::MAX, bytes: usize::MAX, ..Bounds::default() };
    let limits = Limits { bounds, sessions_per_owner: usize::MAX, ..limits };
    Engine::builder(store).limits(limits).flow(Definition::new("talk", talk))
}

pub(crate) fn owner(number: usize) -> Owner {
    Owner::new(&format!("owner {}", number % 1000))
}
