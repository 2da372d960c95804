//! Client transports: a spawned process, a socket, or any pair of byte streams.
//!
//! One task drives a connection. Messages that are ready together are sent by one write.

mod child;
mod io_task;
mod long_message;
mod model;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use mcp_flow_client::transport::{Connector, Inbox, Transport, TransportError};
use mcp_flow_server::{ConnectionInfo, Server};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use crate::{lines, platform};
pub use child::{Program, Stderr};
use io_task::spawn_io_task;
pub use model::CommandModel;

/// A connector for newline-delimited JSON over TCP.
#[derive(Clone, Debug)]
pub struct Tcp {
    address: SocketAddr,
    target: String,
}

/// Connects to a server over TCP, one message per line.
pub fn tcp(address: SocketAddr) -> Tcp {
    Tcp { address, target: format!("tcp://{address}") }
}

impl Connector for Tcp {
    fn target(&self) -> &str {
        &self.target
    }

    fn connect(&self, inbox: Inbox) -> BoxFuture<'_, Result<Arc<dyn Transport>, TransportError>> {
        Box::pin(async move {
            let stream = TcpStream::connect(self.address).await;
            let stream = stream.map_err(|error| {
                TransportError::unreachable("cannot connect to the TCP port", error)
            })?;
            // Small messages must not wait for more to come.
            let _ = stream.set_nodelay(true);
            let (reader, writer) = stream.into_split();
            Ok(spawn_io_task("tcp", reader, writer, inbox, None))
        })
    }
}

/// A connector for newline-delimited JSON over a Unix socket.
#[derive(Clone, Debug)]
pub struct Unix {
    path: PathBuf,
    target: String,
}

/// Connects to a server over a Unix socket, one message per line. Not available on Windows.
pub fn unix(path: impl Into<PathBuf>) -> Unix {
    let path = path.into();
    Unix { target: format!("unix:{}", path.display()), path }
}

impl Connector for Unix {
    fn target(&self) -> &str {
        &self.target
    }

    fn connect(&self, inbox: Inbox) -> BoxFuture<'_, Result<Arc<dyn Transport>, TransportError>> {
        Box::pin(async move {
            let connected = platform::connect(&self.path).await;
            let (reader, writer) = connected.map_err(|error| {
                TransportError::unreachable("cannot connect to the Unix socket", error)
            })?;
            Ok(spawn_io_task("unix", reader, writer, inbox, None))
        })
    }
}

/// A connector for an existing pair of streams, which can be used once.
pub struct Attached {
    streams: Mutex<Option<Streams>>,
}

type Streams = (Box<dyn AsyncRead + Send + Unpin>, Box<dyn AsyncWrite + Send + Unpin>);

/// Attaches to a server over an existing pair of streams.
pub fn attach(
    reader: impl AsyncRead + Send + Unpin + 'static,
    writer: impl AsyncWrite + Send + Unpin + 'static,
) -> Attached {
    let streams: Streams = (Box::new(reader), Box::new(writer));
    Attached { streams: Mutex::new(Some(streams)) }
}

impl Connector for Attached {
    fn target(&self) -> &str {
        "the attached server"
    }

    fn reconnects(&self) -> bool {
        false
    }

    fn connect(&self, inbox: Inbox) -> BoxFuture<'_, Result<Arc<dyn Transport>, TransportError>> {
        let streams = self.streams.lock().take();
        Box::pin(async move {
            let Some((reader, writer)) = streams else {
                let gone = io::Error::from(io::ErrorKind::NotConnected);
                return Err(TransportError::unreachable(
                    "attached streams cannot be reconnected",
                    gone,
                ));
            };
            Ok(spawn_io_task("stdio", reader, writer, inbox, None))
        })
    }
}

impl std::fmt::Debug for Attached {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Attached").finish_non_exhaustive()
    }
}

/// A connector for a server in this process. It can connect any number of times.
#[derive(Clone, Debug)]
pub struct InProcess {
    server: Server,
}

/// Connects to a server in this process, without I/O. For tests, and for programs that use their
/// own tools.
pub fn in_process(server: &Server) -> InProcess {
    InProcess { server: server.clone() }
}

impl Connector for InProcess {
    fn target(&self) -> &str {
        "the server in this process"
    }

    fn connect(&self, inbox: Inbox) -> BoxFuture<'_, Result<Arc<dyn Transport>, TransportError>> {
        Box::pin(async move {
            let connection = self.server.connect(ConnectionInfo::new("memory"));
            let connection = connection.map_err(|veto| TransportError::Refused {
                what: veto.to_string(),
                status: 403,
                retry_after: None,
            })?;
            let (ours, theirs) = tokio::io::duplex(64 * 1024);
            tokio::spawn(async move {
                let (reader, writer) = tokio::io::split(theirs);
                // The client observes the end of the connection.
                let _ = lines::drive(&connection, reader, writer, std::future::pending()).await;
                connection.close().await;
            });
            let (reader, writer) = tokio::io::split(ours);
            Ok(spawn_io_task("memory", reader, writer, inbox, None))
        })
    }
}
