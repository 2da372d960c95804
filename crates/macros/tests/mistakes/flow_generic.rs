use mcp_flow::prelude::*;

#[flow]
async fn greet<T: ToString>(flow: Flow, who: T) -> FlowResult<String> {
    Ok(who.to_string())
}

fn main() {}
