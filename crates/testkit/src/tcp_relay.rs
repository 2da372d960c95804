//! TCP relay to a Unix socket, whose connections can be cut or held up.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Running relay, stopped when dropped.
#[derive(Debug)]
pub struct TcpRelay {
    address: SocketAddr,
    state: watch::Sender<State>,
    _tasks: JoinSet<()>,
}

/// State of a relay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct State {
    /// Connections of earlier generations are closed.
    generation: u64,
    /// Set while nothing is passed on, and nothing is closed.
    is_held: bool,
}

impl TcpRelay {
    /// Starts a relay to a socket.
    pub async fn start(socket: PathBuf) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
        let listener = listener.expect("a port is free");
        let address = listener.local_addr().expect("a bound socket has an address");
        let (state, follow) = watch::channel(State::default());
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((incoming, _)) = listener.accept().await {
                let (socket, follow) = (socket.clone(), follow.clone());
                connections.spawn(async move {
                    if let Ok(server) = UnixStream::connect(&socket).await {
                        relay(incoming, server, follow).await;
                    }
                });
                while connections.try_join_next().is_some() {}
            }
        });
        Self { address, state, _tasks: tasks }
    }

    /// Returns the address to connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Closes all connections. New ones are relayed.
    pub fn cut(&self) {
        self.state.send_modify(|state| state.generation += 1);
    }

    /// Passes nothing on until released, as in a network that drops all packets.
    pub fn hold(&self, is_held: bool) {
        self.state.send_modify(|state| state.is_held = is_held);
    }
}

async fn relay(
    mut client: tokio::net::TcpStream,
    mut server: UnixStream,
    mut follow: watch::Receiver<State>,
) {
    let generation = follow.borrow().generation;
    let (mut to_server, mut to_client) = (vec![0; 16 * 1024], vec![0; 16 * 1024]);
    let (mut client_read, mut client_write) = client.split();
    let (mut server_read, mut server_write) = server.split();
    loop {
        let state = *follow.borrow_and_update();
        if state.generation != generation {
            return;
        }
        if state.is_held {
            if follow.changed().await.is_err() {
                return;
            }
            continue;
        }
        use tokio::io::AsyncReadExt as _;
        let passed = tokio::select! {
            changed = follow.changed() => changed.is_ok(),
            read = client_read.read(&mut to_server) => match read {
                Ok(count) if count > 0 => server_write.write_all(&to_server[..count]).await.is_ok(),
                _ => false,
            },
            read = server_read.read(&mut to_client) => match read {
                Ok(count) if count > 0 => client_write.write_all(&to_client[..count]).await.is_ok(),
                _ => false,
            },
        };
        if !passed {
            return;
        }
    }
}
