//! Memory of the gateway: for upstreams that are stopped, and while a gigabyte passes through.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use serde_json::{Map, Value, json};

use crate::{declarative::download, process::Memory};

/// Returns the bytes that each upstream costs that was listed and is stopped.
pub(super) fn of_stopped_upstreams(program: &Path, folder: &Path) -> anyhow::Result<f64> {
    let none = after_listing(program, folder, 0)?;
    let all = after_listing(program, folder, UPSTREAMS)?;
    #[expect(clippy::cast_precision_loss, reason = "no memory is that large")]
    let [none, all, count] = [none, all, UPSTREAMS as u64].map(|number| number as f64);
    Ok((all - none) / count)
}

/// Lists that many upstreams, waits until they are stopped, and returns the memory of the gateway.
fn after_listing(program: &Path, folder: &Path, upstreams: usize) -> anyhow::Result<u64> {
    let own =
        json!({"command": program, "args": ["stdio", "--store", "memory:"], "idle_seconds": 1});
    let named = (0..upstreams).map(|number| (format!("server{number}"), own.clone()));
    let named: Map<_, _> = named.collect();
    let file = folder.join("servers.json");
    fs::write(&file, json!({"mcpServers": named}).to_string())?;
    let mut command = Command::new(program);
    command.args(["serve", "--listen", "127.0.0.1:0", "--json", "--no-webtransport"]);
    command.args(["--no-examples", "--store", "memory:", "--gateway"]).arg(&file);
    let gateway = Running::start(command.current_dir(folder))?;
    gateway.list(upstreams)?;
    gateway.until_alone()?;
    Ok(Memory::settled(gateway.child.id())?.resident)
}

/// Returns the bytes by which the gateway grows while a client downloads a gigabyte of an upstream.
pub(super) fn of_a_gigabyte(program: &Path, folder: &Path) -> anyhow::Result<u64> {
    let tools = folder.join("gigabyte");
    fs::create_dir_all(&tools)?;
    let tool = json!({"tools": [{"name": "gigabyte", "description": "d", "output": {"as": "file"},
        "run": {"program": "head", "args": ["-c", "1000000000", "/dev/zero"], "timeout": "10m"}}]});
    fs::write(tools.join("tools.json"), tool.to_string())?;
    let mut upstream = Command::new(program);
    upstream.args(["serve", "--listen", "127.0.0.1:0", "--json", "--no-webtransport"]);
    upstream.args(["--no-examples", "--store", "memory:", "--tools", "gigabyte"]);
    let upstream = Running::start(upstream.current_dir(folder))?;
    let mut gateway = Command::new(program);
    gateway.args(["bridge", "--listen", "127.0.0.1:0", "--json"]);
    gateway.arg(format!("http://{}/mcp", upstream.address)).current_dir(folder);
    let mut gateway = Running::spawn(&mut gateway)?;
    let (idle, peak, _) = download(&mut gateway)?;
    gateway.kill()?;
    gateway.wait()?;
    Ok(peak.saturating_sub(idle))
}

/// A server with its address, killed on drop.
struct Running {
    child: Child,
    address: String,
}

impl Running {
    fn spawn(command: &mut Command) -> anyhow::Result<Child> {
        Ok(command.stdout(Stdio::piped()).spawn()?)
    }

    fn start(command: &mut Command) -> anyhow::Result<Self> {
        let mut child = Self::spawn(command)?;
        let mut ready = String::new();
        let stdout = child.stdout.take().context("the server has no output")?;
        BufReader::new(stdout).read_line(&mut ready)?;
        let ready: Value = serde_json::from_str(&ready).context("the server is not ready")?;
        let url = ready["http"].as_str().context("the server names no address")?;
        let address = url.trim_start_matches("http://").trim_end_matches('/').to_owned();
        Ok(Self { child, address })
    }

    /// Lists the tools until those of all upstreams are there.
    fn list(&self, upstreams: usize) -> anyhow::Result<()> {
        let begun = Instant::now();
        loop {
            let (mut listed, mut cursor) = (String::new(), Value::Null);
            loop {
                let page = self.list_page(&cursor)?;
                listed += &page["result"]["tools"].to_string();
                cursor = page["result"]["nextCursor"].clone();
                if cursor.is_null() {
                    break;
                }
            }
            let is_there =
                |number: &usize| listed.contains(&format!("\"server{number}.calculator.add\""));
            let found = (0..upstreams).filter(is_there).count();
            if found == upstreams {
                return Ok(());
            }
            ensure!(begun.elapsed() < LIMIT, "only {found} upstreams were listed");
        }
    }

    fn list_page(&self, cursor: &Value) -> anyhow::Result<Value> {
        let mut list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        }}});
        if !cursor.is_null() {
            list["params"]["cursor"] = cursor.clone();
        }
        let list = list.to_string();
        let mut stream = TcpStream::connect(&self.address)?;
        write!(
            stream,
            "POST /mcp HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\n\
             accept: application/json, text/event-stream\r\nmcp-protocol-version: 2026-07-28\r\n\
             mcp-method: tools/list\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{list}",
            self.address,
            list.len()
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let body = answer.split_once("\r\n\r\n").map(|(_, body)| body).unwrap_or_default();
        serde_json::from_str(body).with_context(|| format!("no list: {answer}"))
    }

    /// Waits until the processes of all upstreams have ended.
    fn until_alone(&self) -> anyhow::Result<()> {
        let id = self.child.id();
        let begun = Instant::now();
        loop {
            let threads = fs::read_dir(format!("/proc/{id}/task"))?.flatten();
            let children = threads.map(|thread| fs::read_to_string(thread.path().join("children")));
            if children.flatten().all(|children| children.trim().is_empty()) {
                return Ok(());
            }
            ensure!(begun.elapsed() < LIMIT, "the upstreams do not stop");
            thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const UPSTREAMS: usize = 25;

const LIMIT: Duration = Duration::from_secs(60);
