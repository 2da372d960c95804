//! PAT-002: the scenario suite over plain TCP, and tests specific to sockets.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use mcp_flow_server::Server;
use mcp_flow_stdio::listen::{self, Bound};
use mcp_flow_testkit::wait::within;
use mcp_flow_testkit::{Peer, lines};
use mcp_flow_testkit_fixture::Fixture;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

mod tcp {
    mcp_flow_testkit_scenarios::suite!(|server| async move { super::connect(&server).await });
}

async fn connect(server: &Server) -> Peer {
    let bound = listen::tcp("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let address = bound.address().unwrap();
    let running = Running::start(bound, server);
    let stream = TcpStream::connect(address).await.unwrap();
    // As clients do; otherwise every question of a long flow waits 40 ms for an acknowledgement.
    stream.set_nodelay(true).unwrap();
    peer(stream, Some(running))
}

/// A Unix socket is private to its owner, replaces a stale one, and is removed with its server.
#[tokio::test]
async fn a_unix_socket_is_private_and_replaced() {
    let path = temporary("stale.sock");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let server = Fixture::new().server;
    let running = Running::start(listen::unix(&path).await.unwrap(), &server);
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let mut peer = peer(UnixStream::connect(&path).await.unwrap(), None);
    assert_eq!(peer.call("ping", json!({})).await["result"], json!({}));
    let refused = listen::unix(&path).await.unwrap_err();
    assert!(refused.to_string().contains("being served"), "{refused}");
    running.stop().await;
    assert!(peer.rest().await.is_empty());
    assert!(!path.exists());
    std::fs::write(&path, "precious").unwrap();
    assert!(listen::unix(&path).await.unwrap_err().to_string().contains("not a socket"));
    std::fs::remove_file(&path).unwrap();
}

/// INT-105: a web page cannot put messages behind the headers of an HTTP request of any method.
#[tokio::test]
async fn web_pages_cannot_send_messages_over_tcp() {
    for method in ["POST", "GET", "PUT"] {
        let bound = listen::tcp("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let address = bound.address().unwrap();
        let fixture = Fixture::new();
        let running = Running::start(bound, &fixture.server);
        let mut page = TcpStream::connect(address).await.unwrap();
        let message = json!({"jsonrpc": "2.0", "id": 7, "method": "ping"});
        let request =
            format!("{method} / HTTP/1.1\r\nHost: {address}\r\n\r\n{message}\n{message}\n");
        page.write_all(request.as_bytes()).await.unwrap();
        let mut reply = String::new();
        within("a refusal", page.read_to_string(&mut reply)).await.unwrap();
        assert!(reply.contains("this is HTTP") && !reply.contains("\"id\":7"), "{reply}");
        running.stop().await;
    }
}

/// Connections over the limit are rejected, and open ones stay usable.
#[tokio::test]
async fn connections_over_the_limit_are_rejected() {
    let bound = listen::tcp("127.0.0.1:0".parse().unwrap()).await.unwrap().connections(1);
    let address = bound.address().unwrap();
    let running = Running::start(bound, &Fixture::new().server);
    let mut first = peer(TcpStream::connect(address).await.unwrap(), None);
    first.call("ping", json!({})).await;
    let mut second = TcpStream::connect(address).await.unwrap();
    assert_eq!(second.read(&mut [0]).await.unwrap(), 0);
    first.call("ping", json!({})).await;
    first.close();
    first.rest().await;
    running.stop().await;
}

struct Running {
    stop: oneshot::Sender<()>,
    serving: JoinHandle<()>,
}

impl Running {
    fn start(bound: Bound, server: &Server) -> Self {
        let (stop, stopped) = oneshot::channel();
        let server = server.clone();
        let serving =
            tokio::spawn(async move { bound.serve(&server, async { drop(stopped.await) }).await });
        Self { stop, serving }
    }

    async fn stop(self) {
        let _ = self.stop.send(());
        self.serving.await.unwrap();
    }
}

fn peer(stream: impl AsyncRead + AsyncWrite + Send + 'static, running: Option<Running>) -> Peer {
    let (reader, writer) = tokio::io::split(stream);
    lines::connect(reader, writer, running)
}

fn temporary(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("mcp-flow-{}-{name}", std::process::id()))
}
