//! The program under attack, and whether it is unharmed.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use mcp_flow_testkit::signer::{Signer, keys};
use mcp_flow_testkit::wait::Deadline;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::attack::health::{Health, within};
use crate::attack::way::{Transport, Way};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_mcp-flow");

pub(crate) const ADA: &str = "ada-0123456789abcdef";
pub(crate) const BOB: &str = "bob-0123456789abcdef";

/// What must never come out of the program.
pub(crate) const SECRET: &str = "what-lies-outside-the-root";

/// `mcp-flow serve` on free ports, over every transport, with the files of one folder.
pub(crate) struct Target {
    program: Child,
    folder: TempDir,
    pub(crate) places: Value,
    pub(crate) address: SocketAddr,
    /// Whoever signs for the issuer it believes, if it asks who is calling.
    pub(crate) issuer: Option<Signer>,
    before: Health,
    _deadline: Deadline,
}

impl Target {
    /// One that lets everyone in who comes from this machine.
    pub(crate) async fn open(more: &str, arguments: &[&str]) -> Self {
        Self::start(more, arguments, None).await
    }

    /// One that lets in Ada, Bob and whoever has a token of the issuer.
    pub(crate) async fn with_tokens(more: &str, arguments: &[&str]) -> Self {
        Self::start(more, arguments, Some(Signer::ed25519("one"))).await
    }

    async fn start(more: &str, arguments: &[&str], issuer: Option<Signer>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        lay_out(folder.path());
        if let Some(issuer) = &issuer {
            std::fs::write(folder.path().join("keys.json"), keys(&[issuer])).unwrap();
        }
        let names: &[&str] = if issuer.is_some() { &["ada", "bob"] } else { &[] };
        configure(folder.path(), names, issuer.is_some(), more);
        let log = File::create(folder.path().join("log")).unwrap();
        let mut program = Command::new(PROGRAM)
            .args(["serve", "--json", "--listen", "127.0.0.1:0", "--config", "flow.toml"])
            .args(["--diagnostics", "--ledger", "--tcp", "127.0.0.1:0", "--unix", "socket"])
            .args(arguments)
            .current_dir(&folder)
            .env_remove("MCP_FLOW_TOKEN")
            .env_remove("MCP_FLOW_LOG")
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let deadline = Deadline::of(&program);
        let mut line = String::new();
        BufReader::new(program.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let places: Value = serde_json::from_str(&line).unwrap();
        let host = places["http"].as_str().unwrap().trim_start_matches("http://");
        let address = host.trim_end_matches('/').parse().unwrap();
        let before = Health::of(program.id());
        let mut target =
            Self { program, folder, places, address, issuer, before, _deadline: deadline };
        // What is made on first use belongs to the start.
        target.serves().await;
        target.before = Health::settled(target.program.id()).await;
        target
    }

    /// Has the configuration read again, with these tokens and no others.
    pub(crate) fn let_in_only(&self, names: &[&str], more: &str) {
        configure(self.folder.path(), names, true, more);
        let id = self.program.id().to_string();
        assert!(Command::new("kill").args(["-HUP", &id]).status().unwrap().success());
    }

    /// The token a good client has, if it needs one.
    pub(crate) fn token(&self) -> Option<&'static str> {
        self.issuer.as_ref().map(|_| ADA)
    }

    /// The folder whose files are served.
    pub(crate) fn root(&self) -> PathBuf {
        self.folder.path().join("files").canonicalize().unwrap()
    }

    /// Where the Unix socket is.
    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    /// A good call works over every transport.
    async fn serves(&self) {
        for transport in Transport::EVERY {
            let mut way = Way::open(self, transport).await;
            let arguments = json!({"name": "calculator.add", "arguments": {"a": 2, "b": 3}});
            let heard = way.ask("tools/call", arguments).await;
            let text = &heard.messages[0]["result"]["content"][0]["text"];
            assert_eq!(text, "5", "{transport:?}: {heard:?}");
            if transport != Transport::Alone {
                let watched = json!({"uri": format!("file://{}/a.txt", self.root().display())});
                let heard = way.ask("resources/subscribe", watched).await;
                assert_eq!(heard.code(), None, "{transport:?}: {heard:?}");
            }
        }
    }

    /// Nothing is left of an attack: good calls work, handles are back at the start, memory has
    /// grown by no more than so many MiB, and nothing has panicked.
    pub(crate) async fn unharmed(&self, mebibytes: u64) {
        self.unharmed_but_for(0, mebibytes).await;
    }

    /// The same where so many handles are meant to stay, as those of files that wait to be fetched.
    pub(crate) async fn unharmed_but_for(&self, handles: usize, mebibytes: u64) {
        self.serves().await;
        let id = self.program.id();
        let most = self.before.handles + handles;
        let returned = within(PATIENCE, async || Health::of(id).handles <= most).await;
        let after = Health::of(id);
        let start = self.before.handles;
        assert!(returned, "{start} handles at the start, now {:?}", Health::handles(id));
        let growth = after.memory.saturating_sub(self.before.memory) / (1024 * 1024);
        assert!(growth <= mebibytes, "memory has grown by {growth} MiB");
        let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap();
        assert!(!log.contains("panicked at"), "{log}");
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

/// The root with what may be read, and beside it what may not.
fn lay_out(folder: &Path) {
    let root = folder.join("files");
    std::fs::create_dir_all(root.join("sub")).unwrap();
    std::fs::create_dir_all(folder.join("files-beside")).unwrap();
    std::fs::write(root.join("a.txt"), "inside").unwrap();
    std::fs::write(root.join("sub/b.txt"), "inside as well").unwrap();
    for place in ["secret.txt", "files-beside/secret.txt", "files/.hidden"] {
        std::fs::write(folder.join(place), SECRET).unwrap();
    }
    for (to, link) in [("../secret.txt", "out"), ("..", "up"), ("/etc/hostname", "absolute")] {
        std::os::unix::fs::symlink(to, root.join(link)).unwrap();
    }
    File::create(root.join("large.bin")).unwrap().set_len(2 * 1024 * 1024).unwrap();
}

fn configure(folder: &Path, names: &[&str], asks: bool, more: &str) {
    let mut text = String::from("[offer]\nroots = [\"files\"]\nstore = \"memory:\"\n");
    text += "[serve]\nallow_origins = [\"https://app.example\"]\n";
    for name in names {
        let token = if *name == "ada" { ADA } else { BOB };
        std::fs::write(folder.join(name), token).unwrap();
        text += &format!("[[identity.tokens]]\nname = \"{name}\"\ntoken_file = \"{name}\"\n");
    }
    if asks {
        text += &format!(
            "[identity.issuers.corp]\nissuer = \"{ISSUER}\"\naudience = [\"{AUDIENCE}\"]\n\
             jwks_file = \"keys.json\"\nalgorithms = [\"EdDSA\", \"ES256\"]\n\
             required_scopes = [\"flow\"]\n"
        );
    }
    std::fs::write(folder.join("flow.toml"), text + more).unwrap();
}

pub(crate) const ISSUER: &str = "https://login.example";
pub(crate) const AUDIENCE: &str = "https://flow.example/mcp";

/// How long what was attacked may take to clean up.
const PATIENCE: Duration = Duration::from_secs(30);
