//! Binds UDP ports, accepts QUIC connections, and drains them at shutdown.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mcp_flow_proto::webtransport::PATH;
use mcp_flow_server::access::AccessPolicy;
use mcp_flow_server::drain::DrainGroup;
use mcp_flow_server::{Server, Verifier};
use mcp_flow_tls::{Tls, TlsError};
use rustls::version::TLS13;
use tokio::task::JoinSet;
use tokio::time::timeout;
use web_transport_quinn::ALPN;
use web_transport_quinn::quinn::crypto::rustls::QuicServerConfig;
use web_transport_quinn::quinn::{Endpoint, Incoming, ServerConfig};

use crate::datagrams::DatagramCounts;
use crate::http3::Http3;
use crate::options::Options;
use crate::{quic, session};

/// A bound UDP port that is not served yet.
#[derive(Debug)]
pub struct Bound {
    endpoints: Vec<Endpoint>,
    address: SocketAddr,
    options: Options,
    verifier: Option<Arc<dyn Verifier>>,
    tls: Arc<Tls>,
    datagram_counts: DatagramCounts,
}

/// Binds a UDP port; port 0 picks a free one. For a loopback address, the other loopback address is
/// bound too if possible, because `localhost` may resolve to either.
///
/// ```
/// # use mcp_flow_server::Server;
/// # use mcp_flow_webtransport::BindError;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), BindError> {
/// # let server = Server::builder("demo", "1.0.0").build().unwrap();
/// # let stop = std::future::ready(());
/// let tls = mcp_flow_tls::Tls::self_signed(&[])?;
/// let bound = mcp_flow_webtransport::bind("127.0.0.1:0".parse().unwrap(), tls)?;
/// eprintln!("{} with the certificate {}", bound.url(), bound.certificate_fingerprint());
/// bound.serve(&server, stop).await;
/// # Ok(())
/// # }
/// ```
pub fn bind(address: SocketAddr, tls: impl Into<Arc<Tls>>) -> Result<Bound, BindError> {
    let port_error = |source| BindError::Port { address, source };
    let first = quic::endpoint(address, None).map_err(port_error)?;
    let address = first.local_addr().map_err(port_error)?;
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
    /// Returns the local address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the URL for clients.
    pub fn url(&self) -> String {
        format!("https://{}{PATH}", self.address)
    }

    /// Returns the SHA-256 fingerprint of the certificate in hexadecimal digits.
    pub fn certificate_fingerprint(&self) -> String {
        self.tls.fingerprint()
    }

    /// Returns the datagram counters of all sessions, for a metrics endpoint (WT-021).
    pub fn datagram_counts(&self) -> DatagramCounts {
        self.datagram_counts.clone()
    }

    /// Sets limits and timeouts. The [defaults](Options::default) are safe on an open network.
    #[must_use]
    pub fn options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// Requires a bearer token that `verifier` accepts, such as
    /// `StaticTokens` of the crate `mcp-flow-identity`. Without a verifier, every client is the
    /// principal `local`.
    #[must_use]
    pub fn verifier(mut self, verifier: Arc<dyn Verifier>) -> Self {
        self.verifier = Some(verifier);
        self
    }

    /// Serves clients until `stop` completes, then drains: running calls may finish within their
    /// time limit.
    pub async fn serve(self, server: &Server, stop: impl Future<Output = ()>) {
        let config = match config(&self.tls, &self.options) {
            Ok(config) => config,
            // The same settings were checked when the certificate was loaded.
            Err(error) => return tracing::error!(%error, "cannot serve WebTransport"),
        };
        let (hosts, origins) = (self.options.hosts.clone(), self.options.origins.clone());
        let is_loopback = self.address.ip().is_loopback();
        let service = Arc::new(Service {
            server: server.clone(),
            access: AccessPolicy::new(is_loopback, hosts, origins, self.verifier),
            options: self.options,
            datagram_counts: self.datagram_counts,
            open: AtomicUsize::new(0),
            tasks: DrainGroup::default(),
        });
        let (watching, draining) = (self.tls.clone().watch(), service.tasks.draining().clone());
        service.tasks.spawn(async move {
            draining.run_until_cancelled(watching).await;
        });
        for endpoint in &self.endpoints {
            endpoint.set_server_config(Some(config.clone()));
            service.tasks.spawn(accept(service.clone(), endpoint.clone()));
        }
        stop.await;
        for endpoint in &self.endpoints {
            endpoint.set_server_config(None);
        }
        service.tasks.drain(server.limits().drain_time + DELIVERY_TIME).await;
        for endpoint in self.endpoints {
            endpoint.close(0u32.into(), b"the server is shutting down");
            // Let the last packets leave; a client that is gone will not acknowledge them.
            let _ = timeout(CLOSE_TIMEOUT, endpoint.wait_idle()).await;
        }
    }
}

fn config(tls: &Arc<Tls>, options: &Options) -> Result<ServerConfig, ConfigError> {
    let crypto = tls.server_config(&[&TLS13], &[ALPN])?;
    let crypto = QuicServerConfig::try_from(crypto).map_err(|_| ConfigError::Cipher)?;
    let mut config = ServerConfig::with_crypto(Arc::new(crypto));
    config.transport_config(Arc::new(quic::server_transport(
        options.idle_timeout,
        options.datagrams,
    )));
    config.max_incoming(1024);
    Ok(config)
}

/// The reason QUIC cannot use a certificate.
#[derive(Debug, thiserror::Error)]
enum ConfigError {
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error("TLS lacks the initial cipher suite of QUIC")]
    Cipher,
}

/// The reason a port could not be bound.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// The port cannot be bound.
    #[error("cannot listen on UDP {address}")]
    Port {
        /// The address.
        address: SocketAddr,
        /// The cause.
        source: io::Error,
    },
    /// The certificate cannot be used.
    #[error(transparent)]
    Certificate(#[from] TlsError),
}

/// The state that all sessions share.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) server: Server,
    pub(crate) options: Options,
    pub(crate) access: AccessPolicy,
    pub(crate) datagram_counts: DatagramCounts,
    open: AtomicUsize,
    pub(crate) tasks: DrainGroup,
}

/// Counts one connection until it is dropped.
struct OpenConnection(Arc<Service>);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::AcqRel);
    }
}

async fn accept(service: Arc<Service>, endpoint: Endpoint) {
    loop {
        let incoming = tokio::select! {
            incoming = endpoint.accept() => incoming,
            () = service.tasks.draining().cancelled() => return,
        };
        let Some(incoming) = incoming else { return };
        let open = service.open.fetch_add(1, Ordering::AcqRel);
        let open_connection = OpenConnection(service.clone());
        if open >= service.options.max_connections {
            tracing::warn!("connection rejected: too many are open");
            incoming.refuse();
            continue;
        }
        // With many connections open, clients must validate their address before a handshake.
        if open > service.options.max_connections / 2 && !incoming.remote_address_validated() {
            // It can only fail for an address that is validated.
            let _ = incoming.retry();
            continue;
        }
        let serving = service.clone();
        service.tasks.spawn(async move {
            serve(serving, incoming).await;
            drop(open_connection);
        });
    }
}

/// Performs the handshake in the connection's own task, so that a slow client delays no other.
async fn serve(service: Arc<Service>, incoming: Incoming) {
    let handshake = timeout(service.options.handshake_timeout, async { incoming.await });
    let Some(result) = service.tasks.draining().run_until_cancelled(Box::pin(handshake)).await
    else {
        return;
    };
    let connection = match result {
        Ok(Ok(connection)) => connection,
        Ok(Err(error)) => return tracing::debug!(%error, "QUIC handshake failed"),
        Err(_) => return tracing::debug!("QUIC handshake timed out"),
    };
    let (http3, arrivals) = Http3::new(connection.clone());
    // A separate task, aborted with this one, so that accepting streams does not delay messages.
    let mut http3_task = JoinSet::new();
    http3_task.spawn(http3.run());
    Box::pin(session::serve(service, connection, arrivals)).await;
}

/// Additional time for clients to read the last messages.
const DELIVERY_TIME: Duration = Duration::from_secs(5);

/// Time limit for the close of a connection to be delivered.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
