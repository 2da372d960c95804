//! Newline-delimited messages over sockets: plain TCP and Unix sockets (PAT-002).
//!
//! There is no way to say who is calling, so everyone who can connect is `local`: listen where only
//! those on this machine can.

use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::Duration;

use mcp_flow_server::{ConnectionInfo, Server};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::lines;

/// A socket that is taken and not served yet.
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

/// Takes a TCP port; port 0 means any that is free.
pub async fn tcp(address: SocketAddr) -> io::Result<Bound> {
    Ok(Bound::new(Listener::Tcp(TcpListener::bind(address).await?)))
}

/// Takes a Unix socket that only its owner can connect to. One that a server left behind is
/// replaced; one that is served, or a file of another kind, is not.
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

    /// Sets how many connections may be open at the same time; more are refused. Defaults to 1,024.
    #[must_use]
    pub fn connections(mut self, most: usize) -> Self {
        self.connections = most;
        self
    }

    /// Where it listens, if that is a TCP port.
    pub fn address(&self) -> Option<SocketAddr> {
        match &self.listener {
            Listener::Tcp(listener) => listener.local_addr().ok(),
            Listener::Unix { .. } => None,
        }
    }

    /// Serves clients until `stop` completes, then lets what is running finish within its time.
    pub async fn serve(self, server: &Server, stop: impl Future<Output = ()>) {
        let clients = Clients::default();
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
                Ok(_) if clients.tasks.len() >= self.connections => {
                    tracing::warn!("a connection was refused: too many are open");
                }
                Ok(Accepted::Tcp(stream)) => clients.add(server, "tcp", stream),
                Ok(Accepted::Unix(stream)) => clients.add(server, "unix", stream),
                Err(error) => {
                    // Most often too many open files; some will be closed in a moment.
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
        drop(self.listener);
        clients.end().await;
    }
}

enum Accepted {
    Tcp(tokio::net::TcpStream),
    Unix(UnixStream),
}

/// Everyone who is connected.
#[derive(Default)]
struct Clients {
    tasks: TaskTracker,
    ending: CancellationToken,
}

impl Clients {
    /// Serves one client in a task of its own.
    fn add(
        &self,
        server: &Server,
        transport: &'static str,
        stream: impl AsyncRead + AsyncWrite + Send + 'static,
    ) {
        let Ok(connection) = server.connect(ConnectionInfo::new(transport)) else { return };
        let ending = self.ending.clone();
        self.tasks.spawn(async move {
            let (reader, writer) = tokio::io::split(stream);
            let ended = lines::drive(&connection, reader, writer, ending.cancelled()).await;
            if let Err(error) = ended {
                tracing::debug!(%error, "a connection ended in the middle");
            }
            connection.close().await;
        });
    }

    /// Lets what runs finish. Each connection sees to it that this takes no longer than it may.
    async fn end(self) {
        self.ending.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// The file of a Unix socket, which goes when the socket does.
#[derive(Debug)]
struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Removes a socket that nobody listens on.
async fn remove_stale(path: &Path) -> io::Result<()> {
    let Ok(found) = std::fs::symlink_metadata(path) else { return Ok(()) };
    if !found.file_type().is_socket() {
        let message = format!("{} is there already and is no socket", path.display());
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
