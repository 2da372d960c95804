//! The stdio transport: one message per line over standard input and output.
//!
//! [`run`] is a whole program; [`serve`] runs a server on the process's own pipes; [`lines::drive`]
//! does the same over any byte stream, and [`listen`] over TCP and Unix sockets. `pipe` is how the
//! process's pipes are read and written without a thread standing between. [`client`] is the other
//! end of all of them.

#[cfg(feature = "client")]
pub mod client;
pub mod lines;
pub mod listen;
mod pipe;

use std::io;

use mcp_flow_server::{ConnectionEnd, ConnectionInfo, Principal, Server, Veto};
use tokio::signal::unix::{SignalKind, signal};

/// Serves one client over standard input and output until it leaves, or until the process is asked
/// to end by SIGTERM or ctrl-c; what runs then may finish within its time.
///
/// For a program that does nothing else: it makes a runtime of its own.
pub fn run(server: &Server) -> Result<ConnectionEnd, ServeError> {
    run_as(server, Principal::local())
}

/// As [`run`], for a client that speaks for this principal.
pub fn run_as(server: &Server, principal: Principal) -> Result<ConnectionEnd, ServeError> {
    // One client, one thread: a second one would only be woken to be told of the first.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ended = runtime.block_on(async { serve_as(server, principal, stop_signal()?).await });
    // A read of a terminal or file cannot be taken back; do not wait for it.
    runtime.shutdown_background();
    ended
}

/// Serves one client over standard input and output until it leaves.
///
/// Nothing but messages is written to standard output.
///
/// ```no_run
/// # async fn example(server: mcp_flow_server::Server) -> Result<(), mcp_flow_stdio::ServeError> {
/// mcp_flow_stdio::serve(&server).await?;
/// # Ok(())
/// # }
/// ```
pub async fn serve(server: &Server) -> Result<ConnectionEnd, ServeError> {
    serve_until(server, std::future::pending()).await
}

/// As [`serve`], draining early when `stop` completes.
pub async fn serve_until(
    server: &Server,
    stop: impl Future<Output = ()>,
) -> Result<ConnectionEnd, ServeError> {
    serve_as(server, Principal::local(), stop).await
}

/// As [`serve_until`], for a client that speaks for this principal.
pub async fn serve_as(
    server: &Server,
    principal: Principal,
    stop: impl Future<Output = ()>,
) -> Result<ConnectionEnd, ServeError> {
    let info = ConnectionInfo { principal, ..ConnectionInfo::new("stdio") };
    let connection = server.connect(info)?;
    let input = pipe::Input::open()?;
    let output = pipe::Output::open()?;
    let ended = lines::drive(&connection, input, output, stop).await;
    connection.close().await;
    Ok(ended?)
}

/// Completes when the process is asked to end, by SIGTERM or ctrl-c.
pub fn stop_signal() -> io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// Why a client could not be served to the end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// A hook refused the connection.
    #[error(transparent)]
    Refused(#[from] Veto),
    /// Reading or writing failed; most often the client has gone.
    #[error("the client cannot be reached")]
    Io(#[from] io::Error),
}
