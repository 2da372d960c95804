//! The smallest useful server: the example tools, over standard input and output, or over HTTP+SSE.
//!
//!     cargo run --example simple_server
//!     cargo run --example simple_server -- --sse 127.0.0.1:8080

use std::error::Error;
use std::net::SocketAddr;

use mcp_flow::prelude::*;
use mcp_flow_examples::{calculator, wh40k};

fn main() -> Result<(), Box<dyn Error>> {
    let server = Server::builder("simple-server", env!("CARGO_PKG_VERSION"))
        .instructions("Use calculator.* for arithmetic and wh40k.* for dark futures.")
        .tools((calculator::tools(), wh40k::tools()))
        .build()?;
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => {
            mcp_flow::stdio::run(&server)?;
        }
        ["--sse", address] => serve(&server, address.parse()?)?,
        _ => return Err("give nothing for standard input and output, or --sse ADDRESS:PORT".into()),
    }
    Ok(())
}

/// Serves until ctrl-c. The port has Streamable HTTP at `/mcp` as well.
#[tokio::main(flavor = "current_thread")]
async fn serve(server: &Server, address: SocketAddr) -> Result<(), Box<dyn Error>> {
    let http = mcp_flow::http::bind(address).await?;
    eprintln!("http://{}/sse", http.address());
    http.serve(server, mcp_flow::stdio::stop_signal()?).await;
    Ok(())
}
