//! The program that is killed.

use std::fs::OpenOptions;
use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdout, Command};

use super::chance::{Chance, pause};
use crate::wait::within;

/// The program while it runs.
pub(super) struct Server {
    child: Child,
    /// What it said when it was ready.
    pub(super) places: Value,
    /// Kept open, so that it does not fail for having nobody to speak to.
    _output: BufReader<ChildStdout>,
}

impl Server {
    /// Starts the program in a folder, after having killed it while starting as often as chance
    /// will have it. By then it may have taken up a step that was interrupted before, so each of
    /// these kills is told too.
    pub(super) async fn start(
        program: &Path,
        folder: &Path,
        chance: &mut Chance,
        mut killed: impl FnMut(),
    ) -> Self {
        while let Some(time) = chance.start_fate() {
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
        chance.started_in(begun.elapsed());
        let places = serde_json::from_str(&line).unwrap_or_else(|_| {
            let said = std::fs::read_to_string(folder.join(ERRORS)).unwrap_or_default();
            panic!("the program does not start again ({read:?}, {line:?}): {said}")
        });
        Self { child, places, _output: output }
    }

    pub(super) async fn kill(&mut self) {
        kill(&mut self.child).await;
    }
}

fn spawn(program: &Path, folder: &Path) -> Child {
    let errors = OpenOptions::new().append(true).create(true).open(folder.join(ERRORS));
    Command::new(program)
        .args(["serve", "--listen", "127.0.0.1:0", "--json", "--store", "redb:journal.redb"])
        .args(["--diagnostics", "--ledger=ledger"])
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(errors.expect("the folder can be written to"))
        .kill_on_drop(true)
        .spawn()
        .expect("the program can be started")
}

/// Ends a process as nothing else does: it gets to do nothing more.
async fn kill(child: &mut Child) {
    child.kill().await.expect("the program can be killed");
}

const ERRORS: &str = "errors";
