//! The program that is killed.

use std::fs::OpenOptions;
use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdout, Command};

use super::Ledger;
use super::schedule::{Schedule, pause};
use crate::wait::within;

/// Program to run, and the form of its flow.
#[derive(Clone, Copy)]
pub(super) struct Program<'a> {
    pub(super) path: &'a Path,
    pub(super) ledger: Ledger,
}

/// Running program.
pub(super) struct Server {
    child: Child,
    /// Addresses it reported when it was ready.
    pub(super) addresses: Value,
    /// Kept open, so that the program does not fail on a closed pipe.
    _output: BufReader<ChildStdout>,
}

impl Server {
    /// Starts the program in a directory, after killing it during startup as often as drawn. It may
    /// have resumed an interrupted step by then, so each of these kills is recorded too.
    pub(super) async fn start(
        program: Program<'_>,
        folder: &Path,
        schedule: &mut Schedule,
        mut killed: impl FnMut(),
    ) -> Self {
        while let Some(time) = schedule.start_fault() {
            let mut child = spawn(program, folder);
            pause(time).await;
            kill(&mut child).await;
            killed();
        }
        let begun = Instant::now();
        let mut child = spawn(program, folder);
        let mut output = BufReader::new(child.stdout.take().expect("its output is piped"));
        let mut line = String::new();
        let read = within("the program to listen", output.read_line(&mut line)).await;
        schedule.record_start(begun.elapsed());
        let addresses = serde_json::from_str(&line).unwrap_or_else(|_| {
            let said = std::fs::read_to_string(folder.join(ERRORS)).unwrap_or_default();
            panic!("the program does not start again ({read:?}, {line:?}): {said}")
        });
        Self { child, addresses, _output: output }
    }

    pub(super) async fn kill(&mut self) {
        kill(&mut self.child).await;
    }
}

fn spawn(program: Program<'_>, folder: &Path) -> Child {
    let errors = OpenOptions::new().append(true).create(true).open(folder.join(ERRORS));
    let tools: &[&str] = match program.ledger {
        Ledger::Function => &[],
        Ledger::File => &["--tools", TOOLS],
    };
    Command::new(program.path)
        .args(["serve", "--listen", "127.0.0.1:0", "--json", "--store", "redb:journal.redb"])
        .args(["--diagnostics", "--ledger=ledger"])
        .args(tools)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(errors.expect("the folder can be written to"))
        .kill_on_drop(true)
        .spawn()
        .expect("the program can be started")
}

/// Kills a process with SIGKILL.
async fn kill(child: &mut Child) {
    child.kill().await.expect("the program can be killed");
}

const ERRORS: &str = "errors";

/// Directory of tool files.
pub(super) const TOOLS: &str = "tools";
