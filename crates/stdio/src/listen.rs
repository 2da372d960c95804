//! Listeners for newline-delimited JSON over TCP and Unix sockets (PAT-002).
//!
//! Connections cannot authenticate here: every client is the principal `local`. Listen only where other
//! machines cannot connect.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;

use mcp_flow_server::drain::DrainGroup;
use mcp_flow_server::{ConnectionInfo, Server};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};

use crate::first_line::FirstLine;
use crate::lines;
use crate::platform::{SocketListener, SocketStream};

/// A bound socket that is not served yet.
#[derive(Debug)]
pub struct Bound {
    listener: Listener,
    connections: usize,
}

#[derive(Debug)]
enum Listener {
    Tcp(TcpListener),
    Unix(SocketListener),
}

/// Binds a TCP port; port 0 picks a free one.
pub async fn tcp(address: SocketAddr) -> io::Result<Bound> {
    Ok(Bound::new(Listener::Tcp(TcpListener::bind(address).await?)))
}

/// Binds a Unix socket that only its owner can connect to. Replaces a stale socket, but not one
/// that is served or a file of another type. Not available on Windows.
pub async fn unix(path: impl Into<PathBuf>) -> io::Result<Bound> {
    Ok(Bound::new(Listener::Unix(SocketListener::bind(path.into()).await?)))
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
            Listener::Unix(_) => None,
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
                    Listener::Unix(listener) => listener.accept().await.map(Accepted::Unix),
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
    Tcp(TcpStream),
    Unix(SocketStream),
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

/// Additional time for clients to read the last messages.
const DELIVERY_TIME: Duration = Duration::from_secs(10);
