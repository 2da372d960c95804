//! Waiting with an end, so that a test of what hangs fails and says what it waited for.

use std::fmt::Display;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// How long anything may take that takes a moment on an idle machine.
pub const LIMIT: Duration = Duration::from_secs(60);

/// How long a program may run for one test, which may use it for long on a busy machine.
const LONGEST_RUN: Duration = Duration::from_secs(300);

/// Waits for something that a working program does at once.
pub async fn within<T>(what: impl Display, work: impl Future<Output = T>) -> T {
    let waited = tokio::time::timeout(LIMIT, work).await;
    waited.unwrap_or_else(|_| panic!("waited {LIMIT:?} for {what}"))
}

/// Kills a program that still runs after five minutes, unless dropped before. Whoever reads from
/// the program, or waits for it, then comes to an end and fails.
#[derive(Debug)]
pub struct Deadline {
    _dropped: Sender<()>,
}

impl Deadline {
    /// Starts the clock of a program that was just started.
    pub fn of(child: &Child) -> Self {
        let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("ids are positive");
        let (sender, dropped) = channel();
        thread::spawn(move || {
            if dropped.recv_timeout(LONGEST_RUN) == Err(RecvTimeoutError::Timeout) {
                let line = format!("/proc/{}/cmdline", id.as_raw_nonzero());
                let line = std::fs::read_to_string(line).unwrap_or_default().replace('\0', " ");
                eprintln!(
                    "a test waited {LONGEST_RUN:?} for this program, which is killed: {line}"
                );
                // It may have ended this very moment.
                kill_process(id, Signal::KILL).ok();
            }
        });
        Self { _dropped: sender }
    }
}

/// Runs a program to its end, which comes in time one way or the other. It is given no input unless
/// the command says otherwise.
pub fn output(command: &mut Command) -> Output {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    end(child.unwrap_or_else(|error| panic!("{command:?}: {error}")))
}

/// Waits until a program ends, and gives what it wrote.
pub fn end(child: Child) -> Output {
    let _deadline = Deadline::of(&child);
    child.wait_with_output().expect("a program can be waited for")
}
