//! The smallest useful server: the example tools, over standard input and output.
//!
//! `cargo run --example simple_server`

use mcp_flow::prelude::*;
use mcp_flow_examples::{calculator, wh40k};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::builder("simple-server", env!("CARGO_PKG_VERSION"))
        .instructions("Use calculator.* for arithmetic and wh40k.* for dark futures.")
        .tools((calculator::tools(), wh40k::tools()))
        .build()?;
    mcp_flow::stdio::run(&server)?;
    Ok(())
}
