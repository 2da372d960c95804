//! The stdio transport: one message per line over standard input and output.
//!
//! [`serve`] runs a server on the process's own pipes; [`lines::drive`] does the same over any
//! byte stream, such as a socket. `pipe` is how the process's pipes are read and written without
//! a thread standing between.

pub mod lines;
mod pipe;

/// The README's example compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

use std::io;

use mcp_flow_server::{ConnectionInfo, Ended, Server, Veto};

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
pub async fn serve(server: &Server) -> Result<Ended, ServeError> {
    serve_until(server, std::future::pending()).await
}

/// As [`serve`], draining early when `stop` completes.
pub async fn serve_until(
    server: &Server,
    stop: impl Future<Output = ()>,
) -> Result<Ended, ServeError> {
    let connection = server.connect(ConnectionInfo::new("stdio"))?;
    let input = pipe::Input::open()?;
    let output = pipe::Output::open()?;
    let ended = lines::drive(&connection, input, output, stop).await;
    connection.close().await;
    Ok(ended?)
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
