//! Windows: standard streams on blocking threads, console events, no Unix sockets, no signals.

use std::io;
#[cfg(feature = "client")]
use std::path::Path;
use std::path::PathBuf;

use tokio::io::{Empty, Stdin, Stdout};
#[cfg(feature = "client")]
use tokio::process::{Child, Command};
use tokio::signal::windows::{ctrl_break, ctrl_c, ctrl_close, ctrl_shutdown};

/// Opens standard input, which anonymous pipes only allow to read on a blocking thread.
pub(crate) fn open_input() -> io::Result<Stdin> {
    Ok(tokio::io::stdin())
}

/// Opens standard output.
#[expect(clippy::disallowed_methods, reason = "this is the one place that owns stdout")]
pub(crate) fn open_output() -> io::Result<Stdout> {
    Ok(tokio::io::stdout())
}

/// Completes on ctrl-c or ctrl-break, when the console is closed, and when the system shuts down.
pub(crate) fn stop_signal() -> io::Result<impl Future<Output = ()>> {
    let (mut interrupt, mut break_key) = (ctrl_c()?, ctrl_break()?);
    let (mut close, mut shutdown) = (ctrl_close()?, ctrl_shutdown()?);
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = break_key.recv() => {}
            _ = close.recv() => {}
            _ = shutdown.recv() => {}
        }
    })
}

/// A connection to a Unix socket, of which there is none.
pub(crate) type SocketStream = Empty;

/// A Unix socket that cannot be bound.
#[derive(Debug)]
pub(crate) enum SocketListener {}

impl SocketListener {
    /// Fails: neither tokio nor the standard library has Unix sockets here.
    pub(crate) async fn bind(_: PathBuf) -> io::Result<Self> {
        Err(no_unix_sockets())
    }

    pub(crate) async fn accept(&self) -> io::Result<SocketStream> {
        match *self {}
    }
}

/// Fails, as [`SocketListener::bind`] does.
#[cfg(feature = "client")]
pub(crate) async fn connect(_: &Path) -> io::Result<(SocketStream, SocketStream)> {
    Err(no_unix_sockets())
}

fn no_unix_sockets() -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, "Unix sockets are not available on Windows")
}

/// A child that nothing but the end of its input can ask to exit. Processes that it started are not
/// tracked.
#[cfg(feature = "client")]
#[derive(Debug)]
pub(crate) struct ProcessGroup;

#[cfg(feature = "client")]
impl ProcessGroup {
    /// Makes a command start its process in a group of its own: ctrl-c in a console must only reach this
    /// process, which then shuts the child down.
    pub(crate) fn separate(command: &mut Command) {
        command.creation_flags(CREATE_NEW_PROCESS_GROUP);
    }

    pub(crate) fn of(_: &Child) -> Self {
        Self
    }

    /// Returns that there is no way to ask for the exit.
    pub(crate) fn terminate(&self) -> bool {
        false
    }

    /// Does nothing: the child itself is killed by its handle.
    pub(crate) fn kill(&self) {}
}

/// Flag of `CreateProcess`.
#[cfg(feature = "client")]
const CREATE_NEW_PROCESS_GROUP: u32 = 0x200;
