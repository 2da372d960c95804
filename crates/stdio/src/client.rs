//! The client's end: a process that is spawned, a socket, or any pair of streams.
//!
//! One task carries a connection. Messages that are ready together go out by one write.

mod carry;
mod child;
mod model;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::BoxFuture;
use mcp_flow_client::transport::{Connector, Inbox, Transport, TransportError};
use mcp_flow_server::{ConnectionInfo, Server};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

use crate::lines;
use carry::over;
pub use child::{Program, Stderr};
pub use model::CommandModel;

/// A server at a TCP port that speaks in lines.
#[derive(Clone, Debug)]
pub struct Tcp {
    address: SocketAddr,
    target: String,
}

/// Reaches a server at a TCP port that speaks in lines.
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
            let stream = stream
                .map_err(|error| TransportError::unreachable("the port cannot be opened", error))?;
            // Small messages must not wait for more to come.
            let _ = stream.set_nodelay(true);
            let (reader, writer) = stream.into_split();
            Ok(over("tcp", reader, writer, inbox, None))
        })
    }
}

/// A server at a Unix socket that speaks in lines.
#[derive(Clone, Debug)]
pub struct Unix {
    path: PathBuf,
    target: String,
}

/// Reaches a server at a Unix socket that speaks in lines.
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
            let stream = UnixStream::connect(&self.path).await;
            let stream = stream.map_err(|error| {
                TransportError::unreachable("the socket cannot be opened", error)
            })?;
            let (reader, writer) = stream.into_split();
            Ok(over("unix", reader, writer, inbox, None))
        })
    }
}

/// A server at the other end of a pair of streams, which can be reached once.
pub struct Attached {
    streams: Mutex<Option<Streams>>,
}

type Streams = (Box<dyn AsyncRead + Send + Unpin>, Box<dyn AsyncWrite + Send + Unpin>);

/// Attaches to a server that is already at the other end of a pair of streams.
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
        let streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner).take();
        Box::pin(async move {
            let Some((reader, writer)) = streams else {
                let gone = io::Error::from(io::ErrorKind::NotConnected);
                return Err(TransportError::unreachable("streams cannot be opened again", gone));
            };
            Ok(over("stdio", reader, writer, inbox, None))
        })
    }
}

impl std::fmt::Debug for Attached {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Attached").finish_non_exhaustive()
    }
}

/// A server in this process, reached as often as it takes.
#[derive(Clone, Debug)]
pub struct InProcess {
    server: Server,
}

/// Reaches a server in this process, without any I/O. For tests, and for programs that use their
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
                // Its end is seen at the other end.
                let _ = lines::drive(&connection, reader, writer, std::future::pending()).await;
                connection.close().await;
            });
            let (reader, writer) = tokio::io::split(ours);
            Ok(over("memory", reader, writer, inbox, None))
        })
    }
}
