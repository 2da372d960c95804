//! Windows: files with an extension, single processes, no signals.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

use tokio::process::{Child, Command};

/// Returns the program at a path, whose extension may be left out. A batch file is none, because a shell
/// would interpret its arguments.
pub(crate) fn program_at(path: PathBuf) -> Option<PathBuf> {
    let is_program = |path: &PathBuf| {
        let extension = path.extension().unwrap_or_default();
        EXTENSIONS.iter().any(|known| extension.eq_ignore_ascii_case(known)) && path.is_file()
    };
    let extended = EXTENSIONS.iter().map(|extension| {
        let mut path = path.clone().into_os_string();
        path.push(".");
        path.push(extension);
        path.into()
    });
    std::iter::once(path.clone()).chain(extended).find(is_program)
}

/// Returns that no signal has ended a process.
pub(crate) fn signal_of(_: ExitStatus) -> Option<i32> {
    None
}

/// Processes that a program has started, which are not tracked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Processes;

impl Processes {
    /// Starts a program.
    pub(crate) fn spawn(command: &mut Command) -> io::Result<(Child, Self)> {
        Ok((command.spawn()?, Self))
    }

    /// Returns that there is no way to ask for the end.
    pub(crate) fn terminate(self) -> bool {
        false
    }

    /// Does nothing: the program itself is killed by its handle.
    pub(crate) fn kill(self) -> bool {
        false
    }
}

const EXTENSIONS: [&str; 2] = ["exe", "com"];
