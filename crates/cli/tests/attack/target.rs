//! The server under attack, and checks that it recovered.

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

use crate::attack::connection::{TestConnection, Transport};
use crate::attack::resource_usage::{ResourceUsage, becomes_true_within};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_mcp-flow");

pub(crate) const ADA: &str = "ada-0123456789abcdef";
pub(crate) const BOB: &str = "bob-0123456789abcdef";

/// Content of files outside the root, which must never be sent.
pub(crate) const SECRET: &str = "what-lies-outside-the-root";

/// `mcp-flow serve` on free ports, over every transport, with the files of one folder.
pub(crate) struct Target {
    program: Child,
    folder: TempDir,
    pub(crate) endpoints: Value,
    pub(crate) address: SocketAddr,
    /// Signs tokens of the trusted issuer, if the server requires authentication.
    pub(crate) issuer: Option<Signer>,
    before: ResourceUsage,
    _deadline: Deadline,
}

impl Target {
    /// Starts a server without authentication.
    pub(crate) async fn open(more: &str, arguments: &[&str]) -> Self {
        Self::start(more, arguments, None).await
    }

    /// Starts a server that requires a token: those of Ada and Bob, or one of the issuer.
    pub(crate) async fn with_tokens(more: &str, arguments: &[&str]) -> Self {
        Self::start(more, arguments, Some(Signer::ed25519("one"))).await
    }

    async fn start(more: &str, arguments: &[&str], issuer: Option<Signer>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        write_files(folder.path());
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
        let endpoints: Value = serde_json::from_str(&line).unwrap();
        let host = endpoints["http"].as_str().unwrap().trim_start_matches("http://");
        let address = host.trim_end_matches('/').parse().unwrap();
        let before = ResourceUsage::of(program.id());
        let mut target =
            Self { program, folder, endpoints, address, issuer, before, _deadline: deadline };
        // Resources that are created on first use belong to the baseline.
        target.assert_serves().await;
        target.before = ResourceUsage::settled(target.program.id()).await;
        target
    }

    /// Reloads the configuration with the tokens of `names` only.
    pub(crate) fn reload_with_tokens(&self, names: &[&str], more: &str) {
        configure(self.folder.path(), names, true, more);
        let id = self.program.id().to_string();
        assert!(Command::new("kill").args(["-HUP", &id]).status().unwrap().success());
    }

    /// The token of a valid client, if the server requires one.
    pub(crate) fn token(&self) -> Option<&'static str> {
        self.issuer.as_ref().map(|_| ADA)
    }

    /// The folder whose files are served.
    pub(crate) fn root(&self) -> PathBuf {
        self.folder.path().join("files").canonicalize().unwrap()
    }

    /// The path of the Unix socket.
    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    /// Checks that a valid call works over every transport.
    async fn assert_serves(&self) {
        for transport in Transport::ALL {
            let mut connection = TestConnection::open(self, transport).await;
            let arguments = json!({"name": "calculator.add", "arguments": {"a": 2, "b": 3}});
            let received = connection.call("tools/call", arguments).await;
            let text = &received.messages[0]["result"]["content"][0]["text"];
            assert_eq!(text, "5", "{transport:?}: {received:?}");
            if transport != Transport::Stateless {
                let watched = json!({"uri": format!("file://{}/a.txt", self.root().display())});
                let received = connection.call("resources/subscribe", watched).await;
                assert_eq!(received.code(), None, "{transport:?}: {received:?}");
            }
        }
    }

    /// Checks that the server recovered: valid calls work, file descriptors are back at the
    /// baseline, memory has grown by no more than `mebibytes`, and nothing has panicked.
    pub(crate) async fn assert_recovered(&self, mebibytes: u64) {
        self.assert_recovered_except(0, mebibytes).await;
    }

    /// The same with file descriptors that may stay open, such as those of pending downloads.
    pub(crate) async fn assert_recovered_except(&self, handles: usize, mebibytes: u64) {
        self.assert_serves().await;
        let id = self.program.id();
        let most = self.before.handles + handles;
        let returned =
            becomes_true_within(CLEANUP_TIMEOUT, async || ResourceUsage::of(id).handles <= most)
                .await;
        let after = ResourceUsage::of(id);
        let start = self.before.handles;
        assert!(returned, "{start} handles at the start, now {:?}", ResourceUsage::handles(id));
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

/// Writes the files below the root, and those outside of it.
fn write_files(folder: &Path) {
    let root = folder.join("files");
    std::fs::create_dir_all(root.join("sub")).unwrap();
    std::fs::create_dir_all(folder.join("files-beside")).unwrap();
    std::fs::write(root.join("a.txt"), "inside").unwrap();
    std::fs::write(root.join("sub/b.txt"), "inside as well").unwrap();
    for path in ["secret.txt", "files-beside/secret.txt", "files/.hidden"] {
        std::fs::write(folder.join(path), SECRET).unwrap();
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

/// The time the server may take to release the resources of an attack.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(30);
