//! A client that is subscribed to thousands of files, one of which changes.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use super::Subscribed;
use crate::{
    listening::{Listening, Program, SERVE},
    placement::Cores,
    process::Memory,
    report::{median, megabytes},
};

pub(super) struct Watching {
    server: Listening,
    reader: BufReader<TcpStream>,
    root: PathBuf,
    files: usize,
}

impl Watching {
    /// Starts a server with files to subscribe to, and connects a client with a handshake.
    pub(super) fn start(
        mcp_flow: &Path,
        folder: &Path,
        root: &Path,
        files: usize,
    ) -> anyhow::Result<Self> {
        fs::create_dir_all(root)?;
        let root = root.canonicalize()?;
        for number in 0..files {
            fs::write(root.join(format!("{number}.txt")), "old")?;
        }
        let mut arguments: Vec<_> = SERVE.map(str::to_owned).into();
        let path = root.to_str().context("a path is text")?;
        arguments.extend(["--tcp", "127.0.0.1:0", "--root", path].map(str::to_owned));
        let program = Program { path: mcp_flow, arguments: &arguments, folder };
        let server = Listening::start(program, Cores::Free.place()?)?;
        let lines = server.lines.context("the server does not say where it takes lines")?;
        let socket = TcpStream::connect(lines)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(TIMEOUT))?;
        let mut watching = Self { server, reader: BufReader::new(socket), root, files };
        watching
            .call("initialize", json!({"protocolVersion": "2025-11-25", "capabilities": {}}))?;
        Ok(watching)
    }

    pub(super) fn measure(mut self) -> anyhow::Result<Subscribed> {
        let process = self.server.peer.process();
        let idle = Memory::settled(process)?;
        for number in 0..self.files {
            let uri = self.uri(number);
            let reply = self.call("resources/subscribe", json!({"uri": uri}))?;
            ensure!(reply["result"] == json!({}), "subscribing was answered with {reply}");
        }
        let subscribed = Memory::settled(process)?;
        let mut times = Vec::new();
        for sample in 0..SAMPLES {
            let number = sample * self.files / SAMPLES;
            let uri = self.uri(number);
            let path = self.root.join(format!("{number}.txt"));
            let start = Instant::now();
            fs::write(path, "new")?;
            loop {
                let message = self.message()?;
                if message["method"] == "notifications/resources/updated" {
                    ensure!(message["params"]["uri"] == uri, "{message} is not about {uri}");
                    break;
                }
            }
            times.push(start.elapsed().as_secs_f64() * 1e3);
        }
        let longest_ms = times.iter().copied().fold(0.0, f64::max);
        let growth = subscribed.resident.saturating_sub(idle.resident);
        Ok(Subscribed { growth_megabytes: megabytes(growth), median_ms: median(times), longest_ms })
    }

    fn uri(&self, number: usize) -> String {
        format!("file://{}/{number}.txt", self.root.display())
    }

    fn call(&mut self, method: &str, params: Value) -> anyhow::Result<Value> {
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        writeln!(self.reader.get_mut(), "{request}")?;
        loop {
            let message = self.message()?;
            if message["id"] == 1 {
                return Ok(message);
            }
        }
    }

    fn message(&mut self) -> anyhow::Result<Value> {
        let mut line = String::new();
        self.reader.read_line(&mut line).context("nothing came from the server")?;
        serde_json::from_str(&line).with_context(|| format!("{line:?} is no message"))
    }
}

/// Number of files changed, one after the other.
const SAMPLES: usize = 40;

/// Time limit for a message.
const TIMEOUT: Duration = Duration::from_secs(10);
