//! Tools of files: the cost of a command beside a bare spawn, of a request beside a bare one, the time
//! to load many files, and memory while a large output streams.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use crate::binary::{McpFlow, Target};
use crate::process::Memory;
use crate::report::megabytes;

/// Measure tools that files declare
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Calls of each tool
    #[arg(long, value_name = "N", default_value = "2000")]
    calls: usize,

    /// Tool files to load
    #[arg(long, value_name = "N", default_value = "1000")]
    files: usize,

    #[command(flatten)]
    mcp_flow: McpFlow,
}

impl Arguments {
    pub(crate) fn run(self) -> anyhow::Result<String> {
        let target = Target::find()?;
        let program = self.mcp_flow.locate(&target)?;
        let folder = target.scratch()?;
        let api = serve_ok()?;
        let few = folder.join("few");
        fs::create_dir_all(&few)?;
        let tools = json!({"tools": [
            {"name": "true", "description": "d", "run": {"program": "true"}},
            {"name": "get", "description": "d",
                "http": {"url": format!("http://{api}/"), "allow_private": ["127.0.0.1"]}},
            {"name": "gigabyte", "description": "d", "output": {"as": "file"},
                "run": {"program": "head", "args": ["-c", "1000000000", "/dev/zero"], "timeout": "10m"}},
        ]});
        fs::write(few.join("tools.json"), tools.to_string())?;
        let mut server = Server::start(&program, &folder, "few")?;
        let (mut bare, mut tool) = (Vec::new(), Vec::new());
        // In turns, so that both meet the same machine.
        for _ in 0..self.calls {
            bare.push(timed(|| Ok(Command::new("/usr/bin/true").status().map(drop)?))?);
            tool.push(timed(|| server.call("true"))?);
        }
        let (spawn, command) = (median(bare), median(tool));
        let mut stream = TcpStream::connect(api)?;
        stream.set_nodelay(true)?;
        let (mut bare, mut tool) = (Vec::new(), Vec::new());
        for _ in 0..self.calls {
            bare.push(timed(|| request(&mut stream))?);
            tool.push(timed(|| server.call("get"))?);
        }
        let (request, http) = (median(bare), median(tool));
        drop(server);
        let empty = folder.join("empty");
        fs::create_dir_all(&empty)?;
        let many = folder.join("many");
        fs::create_dir_all(&many)?;
        for number in 0..self.files {
            let tool = json!({"name": format!("tool.{number}"), "description": "d",
                "input": {"type": "object", "properties": {"a": {"type": "string"}}},
                "run": {"program": "echo", "args": ["{{a}}"]}});
            fs::write(many.join(format!("{number}.json")), json!({"tools": [tool]}).to_string())?;
        }
        let without = timed(|| Server::start(&program, &folder, "empty").map(drop))?;
        let with = timed(|| Server::start(&program, &folder, "many").map(drop))?;
        let (idle, peak, received) = stream_gigabyte(&program, &folder)?;
        Ok(format!(
            "a command: {:.2} ms, a bare spawn {:.2} ms: +{:.2} ms (hold: 1)\n\
             a request: {:.0} us, a bare one {:.0} us: +{:.0} us (hold: 200)\n\
             {} files load in {:.2} s (hold: 0.5)\n\
             {:.0} MB of output: {:.1} MB at rest, {:.1} MB at most: +{:.1} MB (hold: 32)",
            millis(command),
            millis(spawn),
            millis(command) - millis(spawn),
            millis(http) * 1000.0,
            millis(request) * 1000.0,
            (millis(http) - millis(request)) * 1000.0,
            self.files,
            with.saturating_sub(without).as_secs_f64(),
            megabytes(received),
            megabytes(idle),
            megabytes(peak),
            megabytes(peak.saturating_sub(idle)),
        ))
    }
}

fn timed(work: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<Duration> {
    let begun = Instant::now();
    work()?;
    Ok(begun.elapsed())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// Serves the same short response on every connection.
fn serve_ok() -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let _ = stream.set_nodelay(true);
                let Ok(mut output) = stream.try_clone() else { return };
                let mut lines = BufReader::new(stream).lines();
                while let Some(Ok(line)) = lines.next() {
                    if line.is_empty() && output.write_all(OK).is_err() {
                        return;
                    }
                }
            });
        }
    });
    Ok(address)
}

/// Sends a bare request and reads the response.
fn request(stream: &mut TcpStream) -> anyhow::Result<()> {
    stream.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")?;
    let mut response = vec![0; OK.len()];
    Ok(stream.read_exact(&mut response)?)
}

/// Downloads a gigabyte from a tool; returns the memory at rest and at most, and the bytes received.
fn stream_gigabyte(program: &Path, folder: &Path) -> anyhow::Result<(u64, u64, u64)> {
    let mut child = Command::new(program)
        .args(["serve", "--listen", "127.0.0.1:0", "--json", "--no-webtransport", "--no-examples"])
        .args(["--store", "memory:", "--tools", "few"])
        .current_dir(folder)
        .stdout(Stdio::piped())
        .spawn()?;
    let measured = download(&mut child);
    child.kill()?;
    child.wait()?;
    measured
}

/// Downloads a gigabyte from a server with the tool `gigabyte`, whose output is piped, and returns its
/// memory at rest and at most, and the bytes received.
pub(crate) fn download(child: &mut Child) -> anyhow::Result<(u64, u64, u64)> {
    let mut ready = String::new();
    let stdout = child.stdout.take().context("the server has no output")?;
    BufReader::new(stdout).read_line(&mut ready)?;
    let ready: Value = serde_json::from_str(&ready)?;
    let url = ready["mcp"].as_str().context("the server names no address")?;
    let address = url.trim_start_matches("http://").trim_end_matches("/mcp").to_owned();
    let idle = Memory::settled(child.id())?.resident;
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "gigabyte", "arguments": {}, "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        },
    }})
    .to_string();
    let mut stream = TcpStream::connect(&address)?;
    write!(
        stream,
        "POST /mcp HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\nmcp-protocol-version: 2026-07-28\r\n\
         mcp-method: tools/call\r\nmcp-name: gigabyte\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n{call}",
        call.len()
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let link = answer.split("\"uri\":\"").nth(1).and_then(|rest| rest.split('"').next());
    let link = link.with_context(|| format!("the result has no link: {answer}"))?;
    let path = link.splitn(4, '/').nth(3).context("the link has no path")?;
    let mut stream = TcpStream::connect(&address)?;
    write!(stream, "GET /{path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n")?;
    let mut buffer = vec![0; 1 << 20];
    let mut received = 0;
    loop {
        match stream.read(&mut buffer)? {
            0 => break,
            length => received += length as u64,
        }
    }
    ensure!(received > 1_000_000_000, "only {received} bytes arrived");
    Ok((idle, Memory::of(child.id())?.peak, received))
}

struct Server {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Server {
    /// Starts a server with the tools of a directory and waits until it has answered.
    fn start(program: &Path, folder: &Path, tools: &str) -> anyhow::Result<Self> {
        let mut child = Command::new(program)
            .args(["stdio", "--store", "memory:", "--no-examples", "--tools", tools])
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = child.stdin.take().context("the server has no input")?;
        let output = BufReader::new(child.stdout.take().context("the server has no output")?);
        let mut server = Self { child, input, output };
        let client = json!({"name": "benches", "version": "1.0.0"});
        let params =
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
        let opened = server.request("initialize", &params)?;
        ensure!(opened["result"]["protocolVersion"] == "2025-11-25", "{opened}");
        Ok(server)
    }

    fn call(&mut self, tool: &str) -> anyhow::Result<()> {
        let result = self.request("tools/call", &json!({"name": tool, "arguments": {}}))?;
        ensure!(result["result"]["isError"] != true && result["result"].is_object(), "{result}");
        Ok(())
    }

    fn request(&mut self, method: &str, params: &Value) -> anyhow::Result<Value> {
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        writeln!(self.input, "{request}")?;
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        Ok(serde_json::from_str(&line)?)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const OK: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 11\r\n\r\n{\"ok\":true}";
