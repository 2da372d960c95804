//! Calls `calculator.add` many times concurrently on a server that it spawns, and prints the elapsed
//! seconds. `benches client` compares it with the client of the official SDK.
//!
//!     pipelined 10000 -- mcp-flow stdio

use std::io::Write;
use std::time::Instant;

use mcp_flow::client::{Client, Program};
use serde_json::json;
use tokio::task::JoinSet;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [calls, dashes, program, rest @ ..] = arguments.as_slice() else {
        return Err("say how many calls, then --, then the command of a server".into());
    };
    if dashes != "--" {
        return Err("put -- before the command of the server".into());
    }
    let calls: u32 = calls.parse()?;
    let client = Client::builder().connect(Program::new(program).arguments(rest)).await?;
    let begun = Instant::now();
    let mut running = JoinSet::new();
    for number in 0..calls {
        let client = client.clone();
        running.spawn(async move {
            let addend = number % 1000;
            let sum = client.call_tool("calculator.add", json!({"a": addend, "b": 3})).await?;
            let is_right = sum.text().parse() == Ok(f64::from(addend + 3));
            Ok::<_, mcp_flow::client::Error>(is_right)
        });
    }
    while let Some(ended) = running.join_next().await {
        if !ended?? {
            return Err("a sum is wrong".into());
        }
    }
    let taken = begun.elapsed();
    client.close().await;
    print(&format!("{}", taken.as_secs_f64()))
}

#[expect(clippy::disallowed_methods, reason = "nothing is served over this stdout")]
fn print(line: &str) -> Result<(), Box<dyn std::error::Error>> {
    Ok(writeln!(std::io::stdout(), "{line}")?)
}
