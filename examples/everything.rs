//! Serves the fixtures of the official conformance suite over HTTP.
//!
//! `cargo run --release --example everything -- --listen 127.0.0.1:3000`

use std::error::Error;
use std::io::Write;

use mcp_flow_examples::everything;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let listen = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--listen", address] => address.to_owned(),
        [] => "127.0.0.1:3000".to_owned(),
        _ => return Err("usage: everything [--listen HOST:PORT]".into()),
    };
    let address = tokio::net::lookup_host(&listen).await?.next();
    let address = address.ok_or_else(|| format!("{listen} is not an address of this machine"))?;
    let server = everything::server().build()?;
    let stop = mcp_flow::stdio::stop_signal()?;
    let http = mcp_flow::http::bind(address).await?;
    say_where(&format!("http://{}/mcp", http.address()))?;
    http.serve(&server, stop).await;
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "no client speaks on standard output here")]
fn say_where(url: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout();
    writeln!(out, "{url}").and_then(|()| out.flush())
}
