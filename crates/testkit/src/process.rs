//! Peer of a process, over its standard input and output.

use std::path::Path;
use std::process::{ExitStatus, Stdio};

use tempfile::{NamedTempFile, TempDir};
use tokio::process::{Child, Command};

use crate::lines;
use crate::peer::Peer;
use crate::wait::within;

/// Running process, killed when dropped.
#[derive(Debug)]
pub struct Program {
    child: Child,
    /// Working directory.
    _folder: TempDir,
    /// Standard error.
    log: NamedTempFile,
}

impl Program {
    /// Starts a program in an empty directory, with a peer over its pipes.
    pub fn start(program: impl AsRef<Path>, arguments: &[&str]) -> (Self, Peer) {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let log = NamedTempFile::new().expect("a file can be made");
        let mut child = Command::new(program.as_ref())
            .args(arguments)
            .current_dir(&folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log.reopen().expect("the file is there"))
            .kill_on_drop(true)
            .spawn()
            .expect("the program can be started");
        let stdin = child.stdin.take().expect("stdin is piped");
        let stdout = child.stdout.take().expect("stdout is piped");
        (Self { child, _folder: folder, log }, lines::connect(stdout, stdin, ()))
    }

    /// Returns the process id.
    pub fn id(&self) -> u32 {
        self.child.id().expect("the program is running")
    }

    /// Returns the standard error so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.log.path()).expect("a log is text")
    }

    /// Kills the process.
    pub async fn kill(&mut self) {
        self.child.kill().await.expect("the program can be killed");
    }

    /// Waits until the process has exited.
    pub async fn wait(&mut self) -> ExitStatus {
        let ended = within("the program to end", self.child.wait()).await;
        ended.expect("the program can be waited for")
    }
}
