use mcp_flow::prelude::*;

async fn greet(_: Flow) -> FlowResult<String> {
    Ok("nobody".to_owned())
}

fn main() {
    Server::builder("greetings", "1.0.0").flows(flows![greet]);
}
