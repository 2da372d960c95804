//! The server that has to stay as it was.

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

use crate::soak::figures::Figures;
use crate::soak::{files, typed};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_mcp-flow");

/// How long what nobody uses is kept: conversations, paths of WebTransport, and calls in a session by
/// HTTP, which go on when their client is gone. What is idle after that is kept half as long. It must
/// be longer than a call takes whose journal waits for a busy disk.
pub(crate) const IDLE: Duration = Duration::from_secs(8);

pub(crate) struct Server {
    child: Child,
    /// Where everything is, as it said when it was ready.
    pub(crate) places: Value,
    folder: TempDir,
    /// What was open when the first client had gone.
    first: Vec<String>,
    /// Kept open, so that it does not fail for having nobody to speak to.
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
            .envs(GIVE_BACK)
            .current_dir(&folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let mut child = tokio::process::Command::from(command).kill_on_drop(true).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        within("the server to listen", output.read_line(&mut line)).await.unwrap();
        let places = serde_json::from_str(&line).expect("it says where it is");
        let mut server = Self { child, places, folder, first: Vec::new(), _output: output };
        server.first = server.acquainted().await;
        server
    }

    /// What is open when one client was there: the server opens some things when they are first needed,
    /// once and for all, such as what watches files. Nothing of the client itself is left by then.
    async fn acquainted(&self) -> Vec<String> {
        let sockets = |handles: &[String]| handles.iter().filter(|kind| *kind == "socket").count();
        let before = self.usage().handles;
        eprintln!("{} handles before anybody came", before.len());
        typed::visit(&self.places, self.folder()).await;
        let begun = Instant::now();
        loop {
            let handles = self.usage().handles;
            if self.open().await.is_empty() && sockets(&handles) == sockets(&before) {
                eprintln!("{} handles after the first client", handles.len());
                return handles;
            }
            assert!(begun.elapsed() < PATIENCE, "the first client does not go: {handles:?}");
            tokio::time::sleep(GLANCE).await;
        }
    }

    pub(crate) fn usage(&self) -> Usage {
        Usage::of(self.child.id().expect("it runs"))
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Waits until nothing is left of any client, and notes how things are then.
    pub(crate) async fn quiet(&self, figures: &mut Figures) {
        let begun = Instant::now();
        loop {
            let left = self.left().await;
            if left.is_empty() {
                break;
            }
            assert!(
                begun.elapsed() < PATIENCE,
                "after {PATIENCE:?} there is still left: {left:#?}"
            );
            tokio::time::sleep(GLANCE).await;
        }
        figures.note(self.usage());
    }

    /// What is there that was not at the start.
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

    /// What the server itself counts of what is open. Conversations that ended are remembered.
    async fn open(&self) -> BTreeMap<String, String> {
        let place = self.places["http"].as_str().unwrap();
        let address: SocketAddr = place.split('/').nth(2).unwrap().parse().unwrap();
        let request = Request::new("GET", "/metrics").header("connection", "close");
        let text = request.send(address).await.text().await;
        let lines = text.lines().filter_map(|line| line.rsplit_once(' '));
        let gauges: BTreeMap<_, _> =
            lines.filter(|(name, _)| GAUGES.contains(&name.split('{').next().unwrap())).collect();
        assert!(gauges.len() >= GAUGES.len(), "{text}");
        // The one that asks is there as long as it asks.
        let usual = |name: &str| if name == "mcp_flow_http_connections" { "1" } else { "0" };
        let open = gauges.iter().filter(|(name, value)| {
            **value != usual(name) && **name != "mcp_flow_conversations{state=\"ended\"}"
        });
        open.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    /// Ends the server as an operator does.
    pub(crate) async fn end(mut self) {
        let id = self.child.id().unwrap().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        let ended = within("the server to end", self.child.wait()).await.unwrap();
        assert_eq!(ended.code(), Some(0));
    }
}

/// The processes that run in a folder, or in one within it.
fn running_below(folder: &Path) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").unwrap();
    let runs_there = |process: &Path| {
        std::fs::read_link(process.join("cwd")).is_ok_and(|place| place.starts_with(folder))
    };
    processes
        .filter_map(|process| Some(process.ok()?.path()))
        .filter(|process| runs_there(process))
        .map(|process| process.display().to_string())
        .collect()
}

/// Has glibc give back what is freed at once. It keeps some megabytes for each thread otherwise, more or
/// less by chance, and what the server holds cannot be told from what it once held.
const GIVE_BACK: [(&str, &str); 4] = [
    ("MALLOC_ARENA_MAX", "2"),
    ("MALLOC_MMAP_THRESHOLD_", "65536"),
    ("MALLOC_TRIM_THRESHOLD_", "65536"),
    ("MALLOC_TOP_PAD_", "0"),
];

/// What `/metrics` tells of what is open.
const GAUGES: [&str; 5] = [
    "mcp_flow_http_connections",
    "mcp_flow_sessions",
    "mcp_flow_connections",
    "mcp_flow_held_bytes",
    "mcp_flow_conversations",
];

/// How long the last of a client may take to go.
const PATIENCE: Duration = Duration::from_secs(60);
const GLANCE: Duration = Duration::from_millis(100);
