//! Very many waiting sessions, and the processes that take them over.

pub(super) mod socket;

use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Instant,
};

use anyhow::{Context, bail, ensure};
use serde::Serialize;
use serde_json::{Value, json};

use self::socket::Socket;
use super::Bench;
use crate::{
    http::response::Response,
    listening::{Listening, Program},
    process::Memory,
    reply::excerpt,
};

/// Waiting sessions and their cost.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WaitingSessions {
    pub(super) sessions: usize,
    pub(super) seconds_to_start: f64,
    pub(super) file_megabytes: f64,
    /// The same with a single session.
    pub(super) alone: Takeover,
    /// Taken over after the previous process was killed.
    pub(super) after_kill: Takeover,
    /// Taken over after the previous process was stopped.
    pub(super) after_end: Takeover,
}

/// A process that has taken over sessions.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Takeover {
    /// Time from its start to the first answered session.
    pub(super) first_answer_seconds: f64,
    pub(super) rss_bytes: u64,
    pub(super) peak_rss_bytes: u64,
}

impl WaitingSessions {
    /// Returns the bytes of memory per session, at most.
    pub(crate) fn bytes_each(&self) -> f64 {
        let most = self.after_kill.rss_bytes.max(self.after_end.rss_bytes);
        most.saturating_sub(self.alone.rss_bytes) as f64 / self.sessions as f64
    }

    pub(crate) fn first_answer_seconds(&self) -> f64 {
        self.after_kill.first_answer_seconds.max(self.after_end.first_answer_seconds)
    }
}

/// Measures a store of a kind: `redb` or `sqlite`.
pub(crate) fn measure(
    bench: Bench<'_>,
    kind: &str,
    sessions: usize,
) -> anyhow::Result<WaitingSessions> {
    let folder = bench.folder;
    write_tokens(bench, sessions)?;
    let serve = |name: &str| serve(bench, &format!("{kind}:{name}.{kind}"));
    let register = || json!({"toolName": "register", "timeout": DAY_MILLISECONDS});
    let server = serve("alone")?;
    let mut waiting = fill(server.address, 1, register)?;
    drop(server);
    let (alone, _) = take_over(|| serve("alone"), &mut waiting)?;

    eprintln!("starting {sessions} sessions");
    let server = serve("crowd")?;
    let start = Instant::now();
    let mut waiting = fill(server.address, sessions, register)?;
    let seconds_to_start = start.elapsed().as_secs_f64();
    // Killed, like a process that is no longer waited for.
    drop(server);
    let file_megabytes =
        crate::report::megabytes(fs::metadata(folder.join(format!("crowd.{kind}")))?.len());
    let (after_kill, server) = take_over(|| serve("crowd"), &mut waiting)?;
    server.peer.stop()?;
    let (after_end, _) = take_over(|| serve("crowd"), &mut waiting)?;
    Ok(WaitingSessions { sessions, seconds_to_start, file_megabytes, alone, after_kill, after_end })
}

/// Writes a token for each owner.
pub(super) fn write_tokens(bench: Bench<'_>, sessions: usize) -> anyhow::Result<()> {
    let owners = sessions.div_ceil(PER_OWNER);
    let tokens = (0..owners).map(|owner| format!("owner-{owner}:{}\n", token(owner)));
    Ok(fs::write(bench.folder.join(TOKENS), tokens.collect::<String>())?)
}

/// Starts a server with the tokens and a store.
pub(super) fn serve(bench: Bench<'_>, store: &str) -> anyhow::Result<Listening> {
    let Bench { mcp_flow, folder, free } = bench;
    let arguments = ["serve", "--listen", "127.0.0.1:0", "--json", "--diagnostics"];
    let mut arguments: Vec<_> = arguments.map(str::to_owned).into();
    arguments.extend(["--token-file", TOKENS, "--store", store].map(str::to_owned));
    let program = Program { path: mcp_flow, arguments: &arguments, folder };
    Listening::start(program, free)
}

/// Starts sessions with the same params, the maximum for each owner. Returns those of the first owner.
pub(super) fn fill(
    address: SocketAddr,
    sessions: usize,
    params: impl Fn() -> Value + Sync,
) -> anyhow::Result<Vec<String>> {
    let (next, first) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let owners = sessions.div_ceil(PER_OWNER);
    let work = || loop {
        let owner = next.fetch_add(1, Ordering::Relaxed);
        if owner >= owners {
            return anyhow::Ok(());
        }
        let count = PER_OWNER.min(sessions - owner * PER_OWNER);
        let started = start_sessions(address, owner, count, |_| params())?;
        if owner == 0 {
            first.lock().expect("no thread panics while holding it").extend(started);
        }
        if owner % 100 == 99 {
            eprintln!("{} owners of {owners}", owner + 1);
        }
    };
    let work = &work;
    thread::scope(|scope| {
        let workers = [(); WORKERS].map(|()| scope.spawn(work));
        workers.into_iter().try_for_each(|worker| worker.join().expect("workers do not panic"))
    })?;
    Ok(first.into_inner().expect("no thread panics while holding it"))
}

/// Starts the sessions of one owner, each with params of its own, and returns their ids.
pub(super) fn start_sessions(
    address: SocketAddr,
    owner: usize,
    count: usize,
    params: impl Fn(usize) -> Value,
) -> anyhow::Result<Vec<String>> {
    let mut socket = open(address, owner)?;
    let start = |id: usize| request("interaction.start", id, params(id));
    let window = WINDOW.min(count);
    (0..window).for_each(|id| socket.send(&start(id)));
    let mut ids = Vec::with_capacity(count);
    for id in window..window + count {
        let reply = socket.receive()?;
        let session = reply["result"]["sessionId"].as_str();
        ids.push(session.with_context(|| format!("a start was answered with {reply}"))?.to_owned());
        if id < count {
            socket.send(&start(id));
        }
    }
    Ok(ids)
}

/// Connects as an owner.
pub(super) fn open(address: SocketAddr, owner: usize) -> anyhow::Result<Socket> {
    let mut socket = Socket::open(address, &token(owner))?;
    let inline = json!({"experimental": {"interaction": {"delivery": "inline"}}});
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": inline,
        "clientInfo": {"name": "mcp-flow-benches", "version": env!("CARGO_PKG_VERSION")}});
    socket.send(&request("initialize", 0, params));
    socket.receive()?;
    Ok(socket)
}

/// Starts a server on an existing store and answers one of the waiting sessions.
fn take_over(
    serve: impl Fn() -> anyhow::Result<Listening>,
    waiting: &mut Vec<String>,
) -> anyhow::Result<(Takeover, Listening)> {
    let start = Instant::now();
    let server = serve()?;
    let id = waiting.pop().context("no session is left that was not answered")?;
    answer(server.address, &id, "Ada Lovelace")?;
    let first_answer_seconds = start.elapsed().as_secs_f64();
    let memory = Memory::settled(server.peer.process())?;
    let (rss_bytes, peak_rss_bytes) = (memory.resident, memory.peak);
    Ok((Takeover { first_answer_seconds, rss_bytes, peak_rss_bytes }, server))
}

fn answer(address: SocketAddr, id: &str, value: &str) -> anyhow::Result<()> {
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}});
    let params = json!({"sessionId": id, "response": {"value": value}, "_meta": meta});
    let body = request("interaction.respond", 1, params).to_string();
    let mut socket = TcpStream::connect(address)?;
    let length = body.len();
    write!(
        socket,
        "POST /mcp HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {}\r\n\
         Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
         MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: interaction.respond\r\n\
         Content-Length: {length}\r\n\r\n{body}",
        token(0)
    )?;
    let mut received = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        if let Some(response) = Response::decode(&received)? {
            let reply: Value = serde_json::from_slice(response.message()?)?;
            let asks = &reply["result"]["next"]["prompt"]["message"];
            ensure!(asks.is_string(), "an answer was answered with {}", excerpt(&received));
            return Ok(());
        }
        match socket.read(&mut buffer)? {
            0 => bail!("the server closed a connection"),
            read => received.extend_from_slice(&buffer[..read]),
        }
    }
}

pub(super) fn request(method: &str, id: usize, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

fn token(owner: usize) -> String {
    format!("{owner:032x}")
}

const TOKENS: &str = "tokens";

/// Maximum number of sessions per owner.
pub(super) const PER_OWNER: usize = 1000;

/// Number of owners that start sessions concurrently, and of concurrent sessions each.
const WORKERS: usize = 4;
const WINDOW: usize = 250;

/// Maximum waiting time of a session.
pub(super) const DAY_MILLISECONDS: u64 = 24 * 60 * 60 * 1000;
