//! Windows: console events, permissions by directory.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use tempfile::Builder;
use tokio::signal::windows::{CtrlBreak, CtrlC, CtrlClose, ctrl_break, ctrl_c, ctrl_close};

/// Events that end a command: ctrl-c, ctrl-break and the end of the console. Those that arrive after
/// `listen` are not lost.
#[derive(Debug)]
pub(crate) struct EndSignals {
    interrupt: CtrlC,
    break_key: CtrlBreak,
    close: CtrlClose,
}

impl EndSignals {
    /// Listens for ctrl-c, ctrl-break and the end of the console.
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self { interrupt: ctrl_c()?, break_key: ctrl_break()?, close: ctrl_close()? })
    }

    /// Completes at the next event.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.break_key.recv() => {}
            _ = self.close.recv() => {}
        }
    }
}

/// The signal by which a server reloads its configuration, of which there is none: it needs a restart.
#[derive(Debug)]
pub(crate) struct ReloadSignal;

impl ReloadSignal {
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self)
    }

    /// Never completes.
    pub(crate) async fn next(&mut self) {
        std::future::pending::<()>().await;
    }
}

/// Does nothing: no signal ends the program at a full disk.
pub(crate) fn catch_full_files() -> io::Result<()> {
    Ok(())
}

/// Exit code that reports the end of another process.
pub(crate) fn exit_code(status: ExitStatus) -> Option<i32> {
    status.code()
}

/// Returns whether a file is a program. Programs are known by their extension, and need no permission.
pub(crate) fn is_executable(_: &Path) -> bool {
    false
}

/// Does nothing, like [`set_mode`].
pub(crate) fn make_executable(_: &Path) -> io::Result<()> {
    Ok(())
}

/// Does nothing: the directory of a file decides who can use it.
pub(crate) fn set_mode(_: &Path, _: u32) -> io::Result<()> {
    Ok(())
}

/// Does nothing, like [`set_mode`].
pub(crate) fn share(_: &mut Builder<'_, '_>) {}

/// Returns whether files can be created in a directory. Creates one that is removed at once.
pub(crate) fn is_writable(folder: &Path) -> bool {
    tempfile::tempfile_in(folder).is_ok()
}

/// Returns that there is no limit on open files.
pub(crate) fn open_file_limit() -> Option<u64> {
    None
}

/// Returns the name of this machine, or nothing.
pub(crate) fn host_name() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_default()
}

/// Returns the directory of the user's profile.
pub(crate) fn home() -> Option<PathBuf> {
    std::env::home_dir()
}
