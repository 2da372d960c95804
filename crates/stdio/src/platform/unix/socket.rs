//! Unix sockets: a listener with its file, and connections to it.

use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tokio::net::UnixListener;
#[cfg(feature = "client")]
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

pub(crate) use tokio::net::UnixStream as SocketStream;

/// A Unix socket that only its owner can connect to. Its file is removed on drop.
#[derive(Debug)]
pub(crate) struct SocketListener {
    listener: UnixListener,
    _file: SocketFile,
}

impl SocketListener {
    /// Binds a path. Replaces a stale socket, but not one that is served or a file of another type.
    pub(crate) async fn bind(path: PathBuf) -> io::Result<Self> {
        remove_stale(&path).await?;
        let listener = UnixListener::bind(&path)?;
        let file = SocketFile(path);
        std::fs::set_permissions(&file.0, PermissionsExt::from_mode(0o600))?;
        Ok(Self { listener, _file: file })
    }

    /// Accepts a connection.
    pub(crate) async fn accept(&self) -> io::Result<SocketStream> {
        self.listener.accept().await.map(|(stream, _)| stream)
    }
}

/// Connects to a Unix socket.
#[cfg(feature = "client")]
pub(crate) async fn connect(path: &Path) -> io::Result<(OwnedReadHalf, OwnedWriteHalf)> {
    SocketStream::connect(path).await.map(SocketStream::into_split)
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
    match SocketStream::connect(path).await {
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
