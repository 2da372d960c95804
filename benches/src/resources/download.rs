//! Download of a file over HTTP.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use crate::{listening::Listening, process::Memory};

/// A server and the path of the file on it.
pub(super) struct Download<'a> {
    address: SocketAddr,
    process: u32,
    path: String,
    idle: Memory,
    _server: std::marker::PhantomData<&'a Listening>,
}

impl<'a> Download<'a> {
    /// Downloads from a server that has nothing else.
    pub(super) fn direct(server: &'a Listening) -> anyhow::Result<Self> {
        Self::new(server, "/file".to_owned())
    }

    /// Downloads from MCP Flow, after asking for a link.
    pub(super) fn by_link(server: &'a Listening, file: &Path) -> anyhow::Result<Self> {
        let name = file.file_name().and_then(|name| name.to_str()).context("a file has a name")?;
        let url = link(server.address, name)?;
        let (_, path) =
            url.split_once("/download/").with_context(|| format!("{url} is no link"))?;
        Self::new(server, format!("/download/{path}"))
    }

    fn new(server: &'a Listening, path: String) -> anyhow::Result<Self> {
        let process = server.peer.process();
        let idle = Memory::settled(process)?;
        let _server = std::marker::PhantomData;
        Ok(Self { address: server.address, process, path, idle, _server })
    }

    /// Fetches the file and checks its size.
    pub(super) fn fetch(&self, expected: u64) -> anyhow::Result<Fetched> {
        let mut socket = TcpStream::connect(self.address).context("cannot connect")?;
        let start = Instant::now();
        let Self { address, path, .. } = self;
        write!(socket, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
        let mut reader = BufReader::with_capacity(256 * 1024, socket);
        let mut line = String::new();
        reader.read_line(&mut line)?;
        ensure!(line.starts_with("HTTP/1.1 200 "), "the file was answered with {line:?}");
        while !line.trim().is_empty() {
            line.clear();
            reader.read_line(&mut line)?;
        }
        let mut received = 0;
        loop {
            let piece = reader.fill_buf()?.len();
            if piece == 0 {
                break;
            }
            received += piece as u64;
            reader.consume(piece);
        }
        ensure!(received == expected, "{received} bytes came instead of {expected}");
        Ok(Fetched { bytes: received, elapsed: start.elapsed() })
    }

    /// Returns the growth of the server's memory over its idle level.
    pub(super) fn growth(&self) -> anyhow::Result<u64> {
        Ok(Memory::of(self.process)?.peak.saturating_sub(self.idle.resident))
    }
}

pub(super) struct Fetched {
    bytes: u64,
    elapsed: Duration,
}

impl Fetched {
    /// Returns the throughput in megabytes per second.
    pub(super) fn speed(&self) -> f64 {
        self.bytes as f64 / 1e6 / self.elapsed.as_secs_f64()
    }
}

/// Creates a file of this many megabytes that are not all the same.
pub(crate) fn make_file(folder: &Path, megabytes: u64) -> anyhow::Result<PathBuf> {
    fs::create_dir_all(folder)?;
    let path = folder.join("bulk.bin");
    let mut file = File::create(&path)?;
    let piece: Vec<u8> = (0..1_000_000_u32).map(|number| number.to_le_bytes()[0]).collect();
    for _ in 0..megabytes {
        file.write_all(&piece).context("cannot write the file to download")?;
    }
    Ok(path)
}

fn link(server: SocketAddr, file: &str) -> anyhow::Result<String> {
    let body = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "read_file", "arguments": {"path": file}, "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        }},
    })
    .to_string();
    let mut socket = TcpStream::connect(server)?;
    write!(
        socket,
        "POST /mcp HTTP/1.1\r\nHost: {server}\r\nConnection: close\r\n\
         Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
         MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: read_file\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer)?;
    let (_, body) = answer.split_once("\r\n\r\n").context("an answer has a body")?;
    let reply: Value = serde_json::from_str(body).with_context(|| answer.clone())?;
    let uri = reply["result"]["content"][0]["uri"].as_str();
    uri.map(str::to_owned).with_context(|| format!("no link came: {answer}"))
}
