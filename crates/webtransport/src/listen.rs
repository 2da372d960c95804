//! Accepting connections, and ending them.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mcp_flow_proto::webtransport::PATH;
use mcp_flow_server::access::AccessPolicy;
use mcp_flow_server::{Server, Verifier};
use mcp_flow_tls::{Tls, TlsError};
use rustls::version::TLS13;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use web_transport_quinn::ALPN;
use web_transport_quinn::quinn::crypto::rustls::QuicServerConfig;
use web_transport_quinn::quinn::{Endpoint, Incoming, ServerConfig};

use crate::datagrams::DatagramCounts;
use crate::http3::Http3;
use crate::options::Options;
use crate::{quic, session};

/// A port that is taken and not served yet.
#[derive(Debug)]
pub struct Bound {
    endpoints: Vec<Endpoint>,
    address: SocketAddr,
    options: Options,
    verifier: Option<Arc<dyn Verifier>>,
    tls: Arc<Tls>,
    datagram_counts: DatagramCounts,
}

/// Takes a UDP port; port 0 means any that is free. What is on a loopback address is on both of
/// them where it can be, since `localhost` means either.
///
/// ```
/// # use mcp_flow_server::Server;
/// # use mcp_flow_webtransport::BindError;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), BindError> {
/// # let server = Server::builder("demo", "1.0.0").build().unwrap();
/// # let stop = std::future::ready(());
/// let tls = mcp_flow_tls::Tls::self_made(&[])?;
/// let bound = mcp_flow_webtransport::bind("127.0.0.1:0".parse().unwrap(), tls)?;
/// eprintln!("{} with the certificate {}", bound.url(), bound.certificate_hash());
/// bound.serve(&server, stop).await;
/// # Ok(())
/// # }
/// ```
pub fn bind(address: SocketAddr, tls: impl Into<Arc<Tls>>) -> Result<Bound, BindError> {
    let failed = |source| BindError::Port { address, source };
    let first = quic::endpoint(address, None).map_err(failed)?;
    let address = first.local_addr().map_err(failed)?;
    let mut endpoints = vec![first];
    let other = match address.ip() {
        ip if ip == Ipv4Addr::LOCALHOST => Some(Ipv6Addr::LOCALHOST.into()),
        ip if ip == Ipv6Addr::LOCALHOST => Some(Ipv4Addr::LOCALHOST.into()),
        _ => None,
    };
    if let Some(other) = other {
        match quic::endpoint(SocketAddr::new(other, address.port()), None) {
            Ok(second) => endpoints.push(second),
            Err(error) => tracing::debug!(%error, %other, "only one loopback address is served"),
        }
    }
    let options = Options::default();
    let datagram_counts = DatagramCounts::default();
    Ok(Bound { endpoints, address, options, verifier: None, tls: tls.into(), datagram_counts })
}

impl Bound {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where clients find it.
    pub fn url(&self) -> String {
        format!("https://{}{PATH}", self.address)
    }

    /// The SHA-256 of the certificate, in hexadecimal digits, by which clients may know it.
    pub fn certificate_hash(&self) -> String {
        self.tls.hash()
    }

    /// Counts of the datagrams of all its sessions, for whoever publishes them (WT-021).
    pub fn datagram_counts(&self) -> DatagramCounts {
        self.datagram_counts.clone()
    }

    /// Sets bounds and habits. Those of [`Options::default`] are safe on an open network.
    #[must_use]
    pub fn options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// Lets only those in whose token this knows, such as [`StaticTokens`](mcp_flow_server::StaticTokens).
    /// Without, everyone who reaches the port is `local`.
    #[must_use]
    pub fn verifier(mut self, verifier: Arc<dyn Verifier>) -> Self {
        self.verifier = Some(verifier);
        self
    }

    /// Serves clients until `stop` completes, then lets what is running finish within its time.
    pub async fn serve(self, server: &Server, stop: impl Future<Output = ()>) {
        let config = match config(&self.tls, &self.options) {
            Ok(config) => config,
            // The very settings that were checked when the certificate was made.
            Err(error) => return tracing::error!(%error, "WebTransport cannot be served"),
        };
        let (hosts, origins) = (self.options.hosts.clone(), self.options.origins.clone());
        let is_loopback = self.address.ip().is_loopback();
        let service = Arc::new(Service {
            server: server.clone(),
            guard: AccessPolicy::new(is_loopback, hosts, origins, self.verifier),
            options: self.options,
            datagram_counts: self.datagram_counts,
            open: AtomicUsize::new(0),
            ending: CancellationToken::new(),
            given_up: CancellationToken::new(),
            tasks: TaskTracker::new(),
        });
        let (watching, ending) = (self.tls.clone().watch(), service.ending.clone());
        service.spawn(async move {
            ending.run_until_cancelled(watching).await;
        });
        for endpoint in &self.endpoints {
            endpoint.set_server_config(Some(config.clone()));
            service.spawn(accept(service.clone(), endpoint.clone()));
        }
        stop.await;
        for endpoint in &self.endpoints {
            endpoint.set_server_config(None);
        }
        service.end(server.limits().drain_time + LAST_MESSAGES).await;
        for endpoint in self.endpoints {
            endpoint.close(0u32.into(), b"the server ends");
            // The last packets are to leave; a client that is gone will not confirm them.
            let _ = timeout(LAST_PACKETS, endpoint.wait_idle()).await;
        }
    }
}

fn config(tls: &Arc<Tls>, options: &Options) -> Result<ServerConfig, ConfigError> {
    let crypto = tls.server_config(&[&TLS13], &[ALPN])?;
    let crypto = QuicServerConfig::try_from(crypto).map_err(|_| ConfigError::Cipher)?;
    let mut config = ServerConfig::with_crypto(Arc::new(crypto));
    config.transport_config(Arc::new(quic::server_transport(options.idle_time, options.datagrams)));
    config.max_incoming(1024);
    Ok(config)
}

/// Why QUIC cannot use a certificate.
#[derive(Debug, thiserror::Error)]
enum ConfigError {
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error("TLS lacks the cipher that QUIC begins with")]
    Cipher,
}

/// Why clients could not be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// The port cannot be had.
    #[error("cannot listen on UDP {address}")]
    Port {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The certificate cannot be used.
    #[error(transparent)]
    Certificate(#[from] TlsError),
}

/// What all sessions share.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) server: Server,
    pub(crate) options: Options,
    pub(crate) guard: AccessPolicy,
    pub(crate) datagram_counts: DatagramCounts,
    open: AtomicUsize,
    /// No more is begun, and what runs may finish.
    pub(crate) ending: CancellationToken,
    /// Nothing is waited for any more.
    given_up: CancellationToken,
    tasks: TaskTracker,
}

impl Service {
    /// Runs something that the service waits for when it ends, as long as it waits at all.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let given_up = self.given_up.clone();
        // A future that is moved into another keeps its room in both; a box has only one.
        let task = Box::pin(task);
        self.tasks.spawn(async move {
            tokio::select! {
                () = task => {}
                () = given_up.cancelled() => {}
            }
        });
    }

    /// Ends all sessions when what runs is done, and waits for that up to a limit.
    async fn end(&self, limit: Duration) {
        self.ending.cancel();
        self.tasks.close();
        if timeout(limit, self.tasks.wait()).await.is_err() {
            tracing::warn!("sessions were still open when the time to drain ended");
            self.given_up.cancel();
            self.tasks.wait().await;
        }
    }
}

/// Counts one connection until it is dropped.
struct Counted(Arc<Service>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::AcqRel);
    }
}

async fn accept(service: Arc<Service>, endpoint: Endpoint) {
    loop {
        let incoming = tokio::select! {
            incoming = endpoint.accept() => incoming,
            () = service.ending.cancelled() => return,
        };
        let Some(incoming) = incoming else { return };
        let open = service.open.fetch_add(1, Ordering::AcqRel);
        let counted = Counted(service.clone());
        if open >= service.options.connections {
            tracing::warn!("a connection was refused: too many are open");
            incoming.refuse();
            continue;
        }
        // With many open, those who only pretend to be at their address are not worth a handshake.
        if open > service.options.connections / 2 && !incoming.remote_address_validated() {
            // It can only fail for one that is validated.
            let _ = incoming.retry();
            continue;
        }
        let serving = service.clone();
        service.spawn(async move {
            serve(serving, incoming).await;
            drop(counted);
        });
    }
}

/// Shakes hands with one client in a time of its own, so that a slow one holds up nobody.
async fn serve(service: Arc<Service>, incoming: Incoming) {
    let handshake = timeout(service.options.handshake_time, async { incoming.await });
    let Some(shaken) = service.ending.run_until_cancelled(Box::pin(handshake)).await else {
        return;
    };
    let connection = match shaken {
        Ok(Ok(connection)) => connection,
        Ok(Err(error)) => return tracing::debug!(%error, "a client did not connect"),
        Err(_) => return tracing::debug!("a client did not shake hands in time"),
    };
    let (http3, arrivals) = Http3::new(connection.clone());
    // A task of its own, which ends with this one: what comes is sorted without disturbing messages.
    let mut speaking = JoinSet::new();
    speaking.spawn(http3.run());
    Box::pin(session::serve(service, connection, arrivals)).await;
}

/// How long clients may take to read the last messages.
const LAST_MESSAGES: Duration = Duration::from_secs(5);

/// How long the end of a connection may be on its way.
const LAST_PACKETS: Duration = Duration::from_secs(1);
