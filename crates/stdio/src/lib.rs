//! The stdio transport: newline-delimited JSON over standard input and output.
//!
//! [`run`] is a whole program. [`serve`] runs a server on the process's own pipes, [`lines::drive`]
//! on any byte stream, and [`listen`] on TCP and Unix sockets. `platform` has what differs between
//! systems, such as non-blocking I/O on the process's pipes. [`client`] has the client side of all of them.

#[cfg(feature = "client")]
pub mod client;
mod first_line;
pub mod lines;
pub mod listen;
mod platform;

use std::io;

use mcp_flow_server::{ConnectionEnd, ConnectionInfo, Principal, Server, Veto};

/// Serves one client over standard input and output until it disconnects, or until SIGTERM or
/// ctrl-c; running calls may then finish within their time limit.
///
/// Creates its own runtime, for a program that does nothing else.
pub fn run(server: &Server) -> Result<ConnectionEnd, ServeError> {
    run_as(server, Principal::local())
}

/// Like [`run`], for a client that acts as `principal`.
pub fn run_as(server: &Server, principal: Principal) -> Result<ConnectionEnd, ServeError> {
    // One client needs one thread; a second one would only add wake-ups.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ended = runtime.block_on(async {
        let ended = serve_as(server, principal, stop_signal()?).await;
        server.shutdown().await;
        ended
    });
    // A pending read of a terminal or file cannot be cancelled; do not wait for it.
    runtime.shutdown_background();
    ended
}

/// Serves one client over standard input and output until it disconnects.
///
/// Only messages are written to standard output.
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

/// Like [`serve`], but drains when `stop` completes.
pub async fn serve_until(
    server: &Server,
    stop: impl Future<Output = ()>,
) -> Result<ConnectionEnd, ServeError> {
    serve_as(server, Principal::local(), stop).await
}

/// Like [`serve_until`], for a client that acts as `principal`.
pub async fn serve_as(
    server: &Server,
    principal: Principal,
    stop: impl Future<Output = ()>,
) -> Result<ConnectionEnd, ServeError> {
    let info = ConnectionInfo { principal, ..ConnectionInfo::new("stdio") };
    let connection = server.connect(info)?;
    let input = platform::open_input()?;
    let output = platform::open_output()?;
    let ended = lines::drive(&connection, input, output, stop).await;
    connection.close().await;
    Ok(ended?)
}

/// Completes on SIGTERM or ctrl-c; on Windows on ctrl-c, ctrl-break, and when the console is closed or the
/// system shuts down.
pub fn stop_signal() -> io::Result<impl Future<Output = ()>> {
    platform::stop_signal()
}

/// The reason a client could not be served to the end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// A hook rejected the connection.
    #[error(transparent)]
    Refused(#[from] Veto),
    /// Reading or writing failed, most often because the client has disconnected.
    #[error("lost the connection to the client")]
    Io(#[from] io::Error),
}
