//! The process group of a server that was spawned.

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command};

/// The group of a child and of the processes that it started.
#[derive(Debug)]
pub(crate) struct ProcessGroup(Option<Pid>);

impl ProcessGroup {
    /// Makes a command start its process in a group of its own: ctrl-c in a terminal must only reach
    /// this process, which then shuts the child down.
    pub(crate) fn separate(command: &mut Command) {
        command.process_group(0);
    }

    /// The group of a child that was started [separately](Self::separate).
    pub(crate) fn of(child: &Child) -> Self {
        Self(child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw))
    }

    /// Asks all processes of the group to exit. Returns whether the system has a way to.
    pub(crate) fn terminate(&self) -> bool {
        self.send(Signal::TERM);
        true
    }

    /// Kills all processes of the group, also those that have outlived the child: an id is not used
    /// again while its group has members.
    pub(crate) fn kill(&self) {
        self.send(Signal::KILL);
    }

    fn send(&self, signal: Signal) {
        if let Some(group) = self.0 {
            // All of them may have just exited.
            let _ = kill_process_group(group, signal);
        }
    }
}
