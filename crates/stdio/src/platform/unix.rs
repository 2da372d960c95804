//! Unix: pipes without blocking threads, SIGTERM, sockets in files, process groups.

mod pipe;
#[cfg(feature = "client")]
mod process_group;
mod socket;

use std::io;

use tokio::signal::unix::{SignalKind, signal};

pub(crate) use pipe::{open_input, open_output};
#[cfg(feature = "client")]
pub(crate) use process_group::ProcessGroup;
#[cfg(feature = "client")]
pub(crate) use socket::connect;
pub(crate) use socket::{SocketListener, SocketStream};

/// Completes on SIGTERM or ctrl-c.
pub(crate) fn stop_signal() -> io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}
