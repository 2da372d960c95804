//! `mcp-flow serve`: one port for every client that speaks HTTP.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use mcp_flow::http::{self, Tokens};
use serde_json::{Value, json};

use crate::offer::Offer;

/// Serve clients over HTTP: Streamable HTTP, HTTP+SSE and WebSocket on one port
#[derive(Debug, clap::Args)]
pub(crate) struct Serve {
    /// Where to listen; port 0 picks a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:4433")]
    listen: SocketAddr,

    /// Print where everything is, as one line of JSON, when ready
    #[arg(long)]
    json: bool,

    /// Listen on an address others can reach without encryption
    #[arg(long)]
    insecure: bool,

    /// Let only those in whose token is in this file: one name:token a line
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,

    /// Another host name to answer to, besides those of this machine
    #[arg(long = "host", value_name = "NAME")]
    hosts: Vec<String>,

    #[command(flatten)]
    offer: Offer,
}

impl Default for Serve {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 4433)),
            json: false,
            insecure: false,
            token_file: None,
            hosts: Vec::new(),
            offer: Offer::default(),
        }
    }
}

impl Serve {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        if !self.listen.ip().is_loopback() && !self.insecure {
            anyhow::bail!(
                "{} can be reached by others, and what they send would not be encrypted.\n\
                 Listen on 127.0.0.1, or say --insecure if something else encrypts it, such as a \
                 proxy.",
                self.listen
            );
        }
        let tokens = self.token_file.as_deref().map(Tokens::read).transpose()?;
        let server = self.offer.server(false).build()?;
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(async {
            let stop = mcp_flow::stdio::stop_signal().context("signals cannot be watched")?;
            let bound = http::bind(self.listen).await?;
            let options = http::Options { hosts: self.hosts, ..http::Options::default() };
            let bound = bound.options(options);
            let bound = match tokens {
                Some(tokens) => bound.tokens(tokens),
                None => bound,
            };
            announce(bound.address(), self.json)?;
            bound.serve(&server, stop).await;
            anyhow::Ok(())
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Says that everything is ready: to people on standard error, to programs on standard output.
fn announce(address: SocketAddr, as_json: bool) -> anyhow::Result<()> {
    let (http, websocket) = (format!("http://{address}"), format!("ws://{address}"));
    if as_json {
        return print_line(&json!({
            "http": format!("{http}/"),
            "mcp": format!("{http}/mcp"),
            "sse": format!("{http}/sse"),
            "websocket": format!("{websocket}/ws"),
            "pid": std::process::id(),
        }));
    }
    eprintln!(
        "mcp-flow is ready; ctrl-c ends it.\n  \
         Streamable HTTP  {http}/mcp\n  \
         HTTP+SSE         {http}/sse\n  \
         WebSocket        {websocket}/ws"
    );
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "no client speaks on standard output here")]
fn print_line(line: &Value) -> anyhow::Result<()> {
    use std::io::Write;
    let mut out = std::io::stdout();
    writeln!(out, "{line}").and_then(|()| out.flush()).context("standard output is closed")
}
