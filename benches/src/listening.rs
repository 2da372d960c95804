//! A server process under measurement that listens on a socket and prints its address first.

use std::{
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::Path,
    process::{ChildStdout, Command},
};

use anyhow::{Context, bail, ensure};
use serde::Deserialize;

use crate::{
    peer::{HANDSHAKE_LIMIT, Peer},
    placement::Placement,
};

/// A server process and its addresses. Killed on drop.
pub(crate) struct Listening {
    pub(crate) peer: Peer,
    pub(crate) address: SocketAddr,
    /// Address for newline-delimited JSON over TCP, if enabled.
    pub(crate) lines: Option<SocketAddr>,
    /// Kept open, so that a server that prints more lines does not fail.
    _output: BufReader<ChildStdout>,
}

impl Listening {
    /// Starts a server and waits until it is ready.
    pub(crate) fn start(program: Program<'_>, placement: Placement) -> anyhow::Result<Self> {
        let mut command = Command::new(program.path);
        command.args(program.arguments).current_dir(program.folder);
        let (mut peer, output) = Peer::start_listening(command, placement)?;
        let mut output = BufReader::new(output);
        let places = peer.within(HANDSHAKE_LIMIT, || read_places(&mut output));
        let (address, lines) = places.with_context(|| {
            format!("{} {} was never ready", program.path.display(), program.arguments.join(" "))
        })?;
        Ok(Self { peer, address, lines, _output: output })
    }
}

/// The command that starts a server.
#[derive(Clone, Copy)]
pub(crate) struct Program<'a> {
    pub(crate) path: &'a Path,
    pub(crate) arguments: &'a [String],
    /// Working directory.
    pub(crate) folder: &'a Path,
}

/// The arguments that start MCP Flow on a free port.
pub(crate) const SERVE: [&str; 4] = ["serve", "--listen", "127.0.0.1:0", "--json"];

/// Reads the addresses for HTTP and for newline-delimited JSON.
fn read_places(output: &mut impl BufRead) -> anyhow::Result<(SocketAddr, Option<SocketAddr>)> {
    let mut line = String::new();
    output.read_line(&mut line)?;
    ensure!(
        !line.is_empty(),
        "it ended without saying where it listens; its own words are above. Is it an mcp-flow \
         that has `serve`?"
    );
    let Ok(Ready { mcp, tcp }) = serde_json::from_str(&line) else {
        bail!("its first line should be JSON with a member \"mcp\", but is {line:?}")
    };
    let address = mcp.strip_prefix("https://").or_else(|| mcp.strip_prefix("http://"));
    let address = address.and_then(|rest| rest.strip_suffix("/mcp"));
    let address = address.and_then(|address| address.parse().ok());
    let address = address.with_context(|| format!("{mcp:?} is not http://ADDRESS:PORT/mcp"))?;
    Ok((address, tcp))
}

#[derive(Deserialize)]
struct Ready {
    mcp: String,
    tcp: Option<SocketAddr>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_says_where_it_listens() {
        let address = |line: &str| {
            read_places(&mut line.as_bytes()).map(|places| places.0).map_err(|e| e.to_string())
        };
        let here = "127.0.0.1:4433".parse().unwrap();
        assert_eq!(address("{\"mcp\":\"http://127.0.0.1:4433/mcp\",\"pid\":1}\n"), Ok(here));
        assert!(address("").unwrap_err().contains("has `serve`"));
        assert!(address("ready\n").unwrap_err().contains("first line"));
        assert_eq!(address("{\"mcp\":\"https://127.0.0.1:4433/mcp\"}\n"), Ok(here));
        assert!(address("{\"mcp\":\"https://a/mcp\"}\n").unwrap_err().contains("not http"));
    }
}
