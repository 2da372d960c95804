//! Unix: executable files, process groups, signals.

mod mark;

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command};

use mark::ProcessMark;

/// Returns the program at a path, if there is one.
pub(crate) fn program_at(path: PathBuf) -> Option<PathBuf> {
    let found = path.metadata().ok()?;
    (found.is_file() && found.permissions().mode() & 0o111 != 0).then_some(path)
}

/// Returns the signal that has ended a process.
pub(crate) fn signal_of(status: ExitStatus) -> Option<i32> {
    status.signal()
}

/// All processes of a program: its group, and those that have left it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Processes {
    group: Option<Pid>,
    mark: Option<ProcessMark>,
}

impl Processes {
    /// Starts a program in a group of its own.
    pub(crate) fn spawn(command: &mut Command) -> io::Result<(Child, Self)> {
        let (child, mark) = ProcessMark::spawn(command.process_group(0))?;
        let group = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        Ok((child, Self { group, mark }))
    }

    /// Asks the processes to end. Returns whether the system has a way to.
    pub(crate) fn terminate(self) -> bool {
        self.send(Signal::TERM);
        true
    }

    /// Kills the processes. Returns whether there were any outside the group, which may have started
    /// others.
    pub(crate) fn kill(self) -> bool {
        self.send(Signal::KILL)
    }

    fn send(self, signal: Signal) -> bool {
        if let Some(group) = self.group {
            // Fails if there is nobody left.
            let _ = kill_process_group(group, signal);
        }
        self.mark.is_some_and(|mark| mark.signal(signal))
    }
}
