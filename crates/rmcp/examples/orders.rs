//! A handler of rmcp over standard input and output, or over HTTP with `--listen ADDRESS`.

use rmcp::handler::server::wrapper::Parameters;
use rmcp::{schemars, tool, tool_router};

struct Orders;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Numbers {
    a: i64,
    b: i64,
}

#[tool_router(server_handler)]
impl Orders {
    #[tool(description = "Add two numbers")]
    fn add(&self, Parameters(Numbers { a, b }): Parameters<Numbers>) -> String {
        (a + b).to_string()
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let orders = mcp_flow_rmcp::adapt(|| Orders).await?;
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => {
            mcp_flow::stdio::serve(orders.server()).await?;
        }
        ["--listen", address] => {
            let http = mcp_flow::http::bind(address.parse()?).await?;
            eprintln!("http://{}/mcp", http.address());
            http.serve(orders.server(), mcp_flow::stdio::stop_signal()?).await;
        }
        _ => return Err("usage: orders [--listen ADDRESS]".into()),
    }
    orders.close().await;
    Ok(())
}
