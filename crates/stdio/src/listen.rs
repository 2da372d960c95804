//! Listeners for newline-delimited JSON over TCP and Unix sockets (PAT-002).
//!
//! Connections cannot authenticate here: every client is the principal `local`. Listen only where other
//! machines cannot connect.

use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::Duration;

use mcp_flow_server::drain::DrainGroup;
use mcp_flow_server::{ConnectionInfo, Server};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener, UnixStream};

use crate::first_line::FirstLine;
use crate::lines;

/// A bound socket that is not served yet.
#[derive(Debug)]
pub struct Bound {
    listener: Listener,
    connections: usize,
}

#[derive(Debug)]
enum Listener {
    Tcp(TcpListener),
    Unix { listener: UnixListener, _file: SocketFile },
}

/// Binds a TCP port; port 0 picks a free one.
pub async fn tcp(address: SocketAddr) -> io::Result<Bound> {
    Ok(Bound::new(Listener::Tcp(TcpListener::bind(address).await?)))
}

/// Binds a Unix socket that only its owner can connect to. Replaces a stale socket, but not one
/// that is served or a file of another type.
pub async fn unix(path: impl Into<PathBuf>) -> io::Result<Bound> {
    let path = path.into();
    remove_stale(&path).await?;
    let listener = UnixListener::bind(&path)?;
    let file = SocketFile(path);
    std::fs::set_permissions(&file.0, PermissionsExt::from_mode(0o600))?;
    Ok(Bound::new(Listener::Unix { listener, _file: file }))
}

impl Bound {
    fn new(listener: Listener) -> Self {
        Self { listener, connections: 1024 }
    }

    /// Sets the maximum number of open connections; further ones are rejected. Defaults to 1,024.
    #[must_use]
    pub fn connections(mut self, most: usize) -> Self {
        self.connections = most;
        self
    }

    /// Returns the local address of a TCP listener.
    pub fn address(&self) -> Option<SocketAddr> {
        match &self.listener {
            Listener::Tcp(listener) => listener.local_addr().ok(),
            Listener::Unix { .. } => None,
        }
    }

    /// Serves clients until `stop` completes, then drains: running calls may finish within their
    /// time limit.
    pub async fn serve(self, server: &Server, stop: impl Future<Output = ()>) {
        let tasks = DrainGroup::default();
        let mut stop = pin!(stop);
        loop {
            let accepted = async {
                match &self.listener {
                    Listener::Tcp(listener) => {
                        let (stream, _) = listener.accept().await?;
                        // Small messages must not wait for more to come.
                        let _ = stream.set_nodelay(true);
                        Ok(Accepted::Tcp(stream))
                    }
                    Listener::Unix { listener, .. } => {
                        listener.accept().await.map(|(stream, _)| Accepted::Unix(stream))
                    }
                }
            };
            let accepted: io::Result<Accepted> = tokio::select! {
                accepted = accepted => accepted,
                () = &mut stop => break,
            };
            match accepted {
                Ok(_) if tasks.task_count() >= self.connections => {
                    tracing::warn!("connection rejected: too many are open");
                }
                Ok(Accepted::Tcp(stream)) => spawn_connection(&tasks, server, "tcp", stream),
                Ok(Accepted::Unix(stream)) => spawn_connection(&tasks, server, "unix", stream),
                Err(error) => {
                    // The usual cause is too many open files, some of which will be closed soon.
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
        drop(self.listener);
        tasks.drain(server.limits().drain_time + DELIVERY_TIME).await;
    }
}

enum Accepted {
    Tcp(tokio::net::TcpStream),
    Unix(UnixStream),
}

/// Serves one client in a task of its own.
fn spawn_connection(
    tasks: &DrainGroup,
    server: &Server,
    transport: &'static str,
    stream: impl AsyncRead + AsyncWrite + Send + 'static,
) {
    let Ok(connection) = server.connect(ConnectionInfo::new(transport)) else { return };
    let draining = tasks.draining().clone();
    tasks.spawn(async move {
        let (reader, writer) = tokio::io::split(stream);
        let reader = FirstLine::of(reader);
        let ended = lines::drive(&connection, reader, writer, draining.cancelled()).await;
        if let Err(error) = ended {
            tracing::debug!(%error, "connection lost");
        }
        connection.close().await;
    });
}

/// The file of a Unix socket, removed on drop.
#[derive(Debug)]
struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Removes a socket that no process listens on.
async fn remove_stale(path: &Path) -> io::Result<()> {
    let Ok(found) = std::fs::symlink_metadata(path) else { return Ok(()) };
    if !found.file_type().is_socket() {
        let message = format!("{} exists and is not a socket", path.display());
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, message));
    }
    match UnixStream::connect(path).await {
        Ok(_) => {
            let message = format!("{} is being served by another program", path.display());
            Err(io::Error::new(io::ErrorKind::AddrInUse, message))
        }
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path)
        }
        Err(error) => Err(error),
    }
}

/// Additional time for clients to read the last messages.
const DELIVERY_TIME: Duration = Duration::from_secs(10);
