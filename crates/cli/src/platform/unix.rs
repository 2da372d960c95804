//! Unix: signals, modes of files, resource limits.

use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;

use rustix::process::{Resource, getrlimit};
use tempfile::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Signals that end a command: ctrl-c, SIGTERM and SIGHUP. Those that arrive after `listen` are not lost.
#[derive(Debug)]
pub(crate) struct EndSignals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl EndSignals {
    /// Listens for ctrl-c, SIGTERM and the end of the terminal.
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Completes at the next signal.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hangup.recv() => {}
        }
    }
}

/// The signal by which a server reloads its configuration, SIGHUP.
#[derive(Debug)]
pub(crate) struct ReloadSignal(Signal);

impl ReloadSignal {
    /// Listens for SIGHUP, which would end the process otherwise.
    pub(crate) fn listen() -> io::Result<Self> {
        signal(SignalKind::hangup()).map(Self)
    }

    /// Completes at the next signal.
    pub(crate) async fn next(&mut self) {
        if self.0.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
    }
}

/// Makes a write beyond the limit on the size of files fail, as on a full disk, instead of ending the
/// program. The signal is caught rather than ignored, because programs started here would ignore it too.
pub(crate) fn catch_full_files() -> io::Result<()> {
    signal_hook::flag::register(rustix::process::Signal::XFSZ.as_raw(), Arc::default())?;
    Ok(())
}

/// Exit code that reports the end of another process, as shells do.
pub(crate) fn exit_code(status: ExitStatus) -> Option<i32> {
    status.code().or_else(|| status.signal().map(|signal| 128 + signal))
}

/// Returns whether a file is a program.
pub(crate) fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|file| file.permissions().mode() & 0o111 != 0)
}

/// Makes a file executable, if it exists.
pub(crate) fn make_executable(path: &Path) -> io::Result<()> {
    match std::fs::metadata(path) {
        Ok(file) => set_mode(path, file.permissions().mode() | 0o111),
        Err(_) => Ok(()),
    }
}

/// Sets the permissions of a file.
pub(crate) fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
}

/// Gives a temporary file the permissions that other new files have.
pub(crate) fn share(builder: &mut Builder<'_, '_>) {
    builder.permissions(std::fs::Permissions::from_mode(0o666));
}

/// Returns whether files can be created in a directory.
pub(crate) fn is_writable(folder: &Path) -> bool {
    use rustix::fs::{Access, access};
    access(folder, Access::WRITE_OK | Access::EXEC_OK).is_ok()
}

/// Returns the limit on open files, if there is one.
pub(crate) fn open_file_limit() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// Returns the name of this machine, or nothing.
pub(crate) fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}

/// Returns the home directory that the environment names.
pub(crate) fn home() -> Option<PathBuf> {
    std::env::var_os("HOME").filter(|home| !home.is_empty()).map(PathBuf::from)
}
