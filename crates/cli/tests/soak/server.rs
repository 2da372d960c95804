//! The server under load, and its leak checks.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use mcp_flow_testkit::http::Request;
use mcp_flow_testkit::usage::Usage;
use mcp_flow_testkit::wait::within;
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdout};

use crate::soak::measurements::Measurements;
use crate::soak::{files, library_client};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_mcp-flow");

/// The idle timeout of flow sessions, of WebTransport connections, and of calls in an HTTP session,
/// which continue after a disconnect. HTTP sessions then idle for half as long. It must be longer
/// than a call whose journal write waits for a busy disk.
pub(crate) const IDLE: Duration = Duration::from_secs(8);

pub(crate) struct Server {
    child: Child,
    /// The endpoints that it printed when it was ready.
    pub(crate) endpoints: Value,
    folder: TempDir,
    /// The descriptors open after the first client had disconnected.
    first: Vec<String>,
    /// Kept open, so that writes to standard output do not fail.
    _output: BufReader<ChildStdout>,
}

impl Server {
    pub(crate) async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        files::write(folder.path());
        let (idle, brief) = (IDLE.as_secs(), IDLE.as_secs() / 2);
        let settings = format!(
            "[limits]\nsession_idle_seconds = {brief}\ndownload_seconds = {brief}\n\
             call_seconds = {idle}\n[offer]\nremembered_seconds = {brief}\n\
             roots = [\"files\"]\nstore = \"redb:journal.redb\"\n"
        );
        std::fs::write(folder.path().join("soak.toml"), settings).unwrap();
        let mut command = Command::new(PROGRAM);
        command
            .args(["serve", "--json", "--listen", "127.0.0.1:0", "--tcp", "127.0.0.1:0"])
            .args(["--config", "soak.toml", "--diagnostics"])
            .envs(RETURN_FREED_MEMORY)
            .current_dir(&folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let mut child = tokio::process::Command::from(command).kill_on_drop(true).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        within("the server to listen", output.read_line(&mut line)).await.unwrap();
        let endpoints = serde_json::from_str(&line).expect("the endpoints are printed");
        let mut server = Self { child, endpoints, folder, first: Vec::new(), _output: output };
        server.first = server.handles_after_first_client().await;
        server
    }

    /// Lists the open descriptors after one client has connected and disconnected: the server opens
    /// some, such as file watchers, on first use and keeps them.
    async fn handles_after_first_client(&self) -> Vec<String> {
        let sockets = |handles: &[String]| handles.iter().filter(|kind| *kind == "socket").count();
        let before = self.usage().handles;
        eprintln!("{} handles before the first client", before.len());
        library_client::use_once(&self.endpoints, self.folder()).await;
        let begun = Instant::now();
        loop {
            let handles = self.usage().handles;
            if self.open().await.is_empty() && sockets(&handles) == sockets(&before) {
                eprintln!("{} handles after the first client", handles.len());
                return handles;
            }
            assert!(begun.elapsed() < CLEANUP_TIMEOUT, "the first client does not go: {handles:?}");
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    pub(crate) fn usage(&self) -> Usage {
        Usage::of(self.child.id().expect("it runs"))
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Waits until everything of all clients is released, and records the resource usage.
    pub(crate) async fn wait_until_idle(&self, measurements: &mut Measurements) {
        let begun = Instant::now();
        loop {
            let left = self.left().await;
            if left.is_empty() {
                break;
            }
            assert!(
                begun.elapsed() < CLEANUP_TIMEOUT,
                "after {CLEANUP_TIMEOUT:?} there is still left: {left:#?}"
            );
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        measurements.note(self.usage());
    }

    /// Lists everything that is open and was not at the start.
    async fn left(&self) -> BTreeMap<String, String> {
        let mut left = self.open().await;
        let handles = self.usage().handles;
        if handles != self.first {
            left.insert("handles".to_owned(), format!("{handles:?}, at first {:?}", self.first));
        }
        let orphans = running_below(&files::stdio_folder(self.folder()));
        if !orphans.is_empty() {
            left.insert("servers of clients that are gone".to_owned(), format!("{orphans:?}"));
        }
        left
    }

    /// The gauges of open resources. Tombstones of ended sessions are not counted.
    async fn open(&self) -> BTreeMap<String, String> {
        let endpoint = self.endpoints["http"].as_str().unwrap();
        let address: SocketAddr = endpoint.split('/').nth(2).unwrap().parse().unwrap();
        let request = Request::new("GET", "/metrics").header("connection", "close");
        let text = request.send(address).await.text().await;
        let lines = text.lines().filter_map(|line| line.rsplit_once(' '));
        let gauges: BTreeMap<_, _> =
            lines.filter(|(name, _)| GAUGES.contains(&name.split('{').next().unwrap())).collect();
        assert!(gauges.len() >= GAUGES.len(), "{text}");
        // The connection of this request counts while it runs.
        let usual = |name: &str| if name == "mcp_flow_http_connections" { "1" } else { "0" };
        let open = gauges.iter().filter(|(name, value)| {
            **value != usual(name) && **name != "mcp_flow_sessions{state=\"ended\"}"
        });
        open.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    /// Stops the server with SIGTERM.
    pub(crate) async fn end(mut self) {
        let id = self.child.id().unwrap().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        let ended = within("the server to end", self.child.wait()).await.unwrap();
        assert_eq!(ended.code(), Some(0));
    }
}

/// The processes whose working directory is the folder or below it.
fn running_below(folder: &Path) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").unwrap();
    let runs_there = |process: &Path| {
        std::fs::read_link(process.join("cwd")).is_ok_and(|path| path.starts_with(folder))
    };
    processes
        .filter_map(|process| Some(process.ok()?.path()))
        .filter(|process| runs_there(process))
        .map(|process| process.display().to_string())
        .collect()
}

/// Makes glibc return freed memory at once. Otherwise it keeps some megabytes for each thread, at
/// random, and memory in use cannot be received from freed memory.
const RETURN_FREED_MEMORY: [(&str, &str); 4] = [
    ("MALLOC_ARENA_MAX", "2"),
    ("MALLOC_MMAP_THRESHOLD_", "65536"),
    ("MALLOC_TRIM_THRESHOLD_", "65536"),
    ("MALLOC_TOP_PAD_", "0"),
];

/// Gauges of open resources in `/metrics`.
const GAUGES: [&str; 5] = [
    "mcp_flow_http_connections",
    "mcp_flow_transport_sessions",
    "mcp_flow_connections",
    "mcp_flow_held_bytes",
    "mcp_flow_sessions",
];

/// The time in which everything of a client must be released.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(100);
