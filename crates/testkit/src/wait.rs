//! Timeouts, so that a hanging test fails with what it waited for.

use std::fmt::Display;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// Time limit for anything that is immediate on an idle machine.
pub const LIMIT: Duration = Duration::from_secs(60);

/// Time limit for a program within one test.
const MAX_RUN_TIME: Duration = Duration::from_secs(300);

/// Waits for something that a working program does immediately.
pub async fn within<T>(what: impl Display, work: impl Future<Output = T>) -> T {
    let waited = tokio::time::timeout(LIMIT, work).await;
    waited.unwrap_or_else(|_| panic!("waited {LIMIT:?} for {what}"))
}

/// Kills a program after five minutes, unless dropped before. Readers of its output then fail
/// instead of hanging.
#[derive(Debug)]
pub struct Deadline {
    _dropped: Sender<()>,
}

impl Deadline {
    /// Starts the timeout of a program.
    pub fn of(child: &Child) -> Self {
        let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("ids are positive");
        let (sender, dropped) = channel();
        thread::spawn(move || {
            if dropped.recv_timeout(MAX_RUN_TIME) == Err(RecvTimeoutError::Timeout) {
                let line = format!("/proc/{}/cmdline", id.as_raw_nonzero());
                let line = std::fs::read_to_string(line).unwrap_or_default().replace('\0', " ");
                eprintln!(
                    "a test waited {MAX_RUN_TIME:?} for this program, which is killed: {line}"
                );
                // It may have just exited.
                kill_process(id, Signal::KILL).ok();
            }
        });
        Self { _dropped: sender }
    }
}

/// Runs a program to its end, or kills it at the time limit. It has no input unless the command
/// sets one.
pub fn output(command: &mut Command) -> Output {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    end(child.unwrap_or_else(|error| panic!("{command:?}: {error}")))
}

/// Waits until a program exits, and returns its output.
pub fn end(child: Child) -> Output {
    let _deadline = Deadline::of(&child);
    child.wait_with_output().expect("a program can be waited for")
}
