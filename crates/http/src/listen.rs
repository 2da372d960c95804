//! The listener: binds a port, accepts connections, and runs hyper on each until shutdown.
//!
//! Owns the socket and the options of a server on it. Requests are checked and routed in `service`.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use mcp_flow_proto::RpcError;
use mcp_flow_proto::error::SHUTTING_DOWN;
use mcp_flow_server::access::AccessPolicy;
use mcp_flow_server::{Server, Verifier};
use mcp_flow_tls::{Tls, TlsError};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::cluster::ClusterNodes;
use crate::cluster::relay::is_forwarded;
use crate::limits::http2_idle::{CloseReason, StreamTracker};
use crate::limits::write_timeout::WriteTimeout;
use crate::operator::metrics::HttpConnection;
use crate::operator::pages::{StaticPages, VisitedPages};
use crate::operator::{Callback, OperatorEndpoints, health};
use crate::options::Options;
use crate::response::{busy, rejection};
use crate::service::Service;
use crate::tls::{self, Acceptor};

/// A bound listener that does not accept connections yet.
#[derive(Debug)]
pub struct Bound {
    listener: TcpListener,
    address: SocketAddr,
    options: Options,
    verifier: Option<Arc<dyn Verifier>>,
    tls: Option<(Arc<Tls>, Acceptor)>,
    operator: OperatorEndpoints,
    cluster: Option<Arc<dyn ClusterNodes>>,
}

/// Binds a TCP port; port 0 picks a free one.
///
/// ```
/// # use mcp_flow_server::Server;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), mcp_flow_http::BindError> {
/// # let server = Server::builder("demo", "1.0.0").build().unwrap();
/// # let stop = std::future::ready(());
/// let http = mcp_flow_http::bind("127.0.0.1:0".parse().unwrap()).await?;
/// eprintln!("listening on http://{}/mcp", http.address());
/// http.serve(&server, stop).await;
/// # Ok(())
/// # }
/// ```
pub async fn bind(address: SocketAddr) -> Result<Bound, BindError> {
    let failed = |source| BindError { address, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let options = Options::default();
    let operator = OperatorEndpoints::default();
    Ok(Bound { listener, address, options, verifier: None, tls: None, operator, cluster: None })
}

impl Bound {
    /// Returns the address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets limits, timeouts and access rules. Defaults to [`Options::default`], which is safe on an
    /// open network.
    #[must_use]
    pub fn options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// Requires a bearer token that this verifier accepts, such as
    /// `StaticTokens` of the crate `mcp-flow-identity`. Without one, every caller is the principal
    /// `local`.
    #[must_use]
    pub fn verifier(mut self, verifier: Arc<dyn Verifier>) -> Self {
        self.verifier = Some(verifier);
        self
    }

    /// Serves TLS only.
    pub fn tls(mut self, tls: impl Into<Arc<Tls>>) -> Result<Self, TlsError> {
        let tls = tls.into();
        let acceptor = Acceptor::new(&tls)?;
        self.tls = Some((tls, acceptor));
        Ok(self)
    }

    /// Adds web pages, served without authentication.
    #[must_use]
    pub fn pages(mut self, pages: impl StaticPages) -> Self {
        self.operator.pages = Some(Box::new(pages));
        self
    }

    /// Adds pages that a browser visits once, served without authentication.
    #[must_use]
    pub fn visited_pages(mut self, pages: Arc<dyn VisitedPages>) -> Self {
        self.operator.visited_pages = Some(pages);
        self
    }

    /// Adds metrics to `/metrics`: complete lines in the Prometheus text format, each ended by a
    /// newline.
    #[must_use]
    pub fn metrics<F>(mut self, metrics: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = String> + Send + 'static,
    {
        self.operator.metrics.push(Callback::new(metrics));
        self
    }

    /// Sets the readiness check behind `/readyz`. Its error names the dependency that fails, in a few
    /// words.
    #[must_use]
    pub fn readiness<F>(mut self, ready: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<(), String>> + Send + 'static,
    {
        self.operator.readiness = Some(Callback::new(ready));
        self
    }

    /// Serves the sessions of other nodes as well, and lets them serve those of this one.
    #[must_use]
    pub fn cluster(mut self, nodes: Arc<dyn ClusterNodes>) -> Self {
        self.cluster = Some(nodes);
        self
    }

    /// Serves clients until `stop` completes, then drains: running calls may finish within the drain
    /// time of the server's limits.
    pub async fn serve(self, server: &Server, stop: impl Future<Output = ()>) {
        let (hosts, origins) = (self.options.hosts.clone(), self.options.origins.clone());
        let access =
            AccessPolicy::new(self.address.ip().is_loopback(), hosts, origins, self.verifier);
        let is_encrypted = self.tls.is_some();
        let scheme = if is_encrypted { "https" } else { "http" };
        let local = || format!("{scheme}://{}", self.address);
        let is_local = self.address.ip().is_loopback();
        if let Some(url) = self.options.public_url.clone().or_else(|| is_local.then(local)) {
            server.served_at(url.trim_end_matches('/'));
        }
        let service = Service::new(
            server.clone(),
            self.options,
            access,
            is_encrypted,
            self.operator,
            self.cluster,
        );
        if let Some((tls, _)) = &self.tls {
            let (watching, draining) = (tls.clone().watch(), service.tasks.draining().clone());
            service.tasks.spawn(async move {
                draining.run_until_cancelled(watching).await;
            });
        }
        let acceptor = self.tls.as_ref().map(|(_, acceptor)| acceptor);
        accept_until(&self.listener, &service, acceptor, stop).await;
        tokio::select! {
            () = service.drain(server.limits().drain_time + LAST_RESPONSES) => {}
            () = refuse_connections(&self.listener, &service, acceptor) => {}
        }
    }
}

/// The port could not be bound.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}")]
pub struct BindError {
    /// The address that was asked for.
    pub address: SocketAddr,
    /// Error of the operating system.
    #[source]
    pub source: io::Error,
}

async fn accept_until(
    listener: &TcpListener,
    service: &Arc<Service>,
    tls: Option<&Acceptor>,
    stop: impl Future<Output = ()>,
) {
    let idle = service.options.session_idle_timeout;
    let shortest = Duration::from_millis(10);
    let mut sweep = tokio::time::interval((idle / 10).clamp(shortest, Duration::from_secs(60)));
    let mut stop = pin!(stop);
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => accept(service, tls, stream, peer),
                Err(error) => {
                    // Usually too many open files; some are closed in a moment.
                    tracing::warn!(%error, "cannot accept a connection; retrying");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            },
            _ = sweep.tick() => {
                service.sessions.sweep(idle);
                service.downloads.sweep();
            }
            () = &mut stop => return,
        }
    }
}

/// Answers new connections while the server drains: probes are told that it is not ready, and clients
/// to come back.
async fn refuse_connections(
    listener: &TcpListener,
    service: &Arc<Service>,
    tls: Option<&Acceptor>,
) {
    let mut refused = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((stream, peer)) = accepted else {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                };
                if service.metrics.connect(peer, service.options.max_connections).is_some() {
                    let refusal = refuse(service.clone(), tls.cloned(), stream);
                    refused.spawn(timeout(service.options.head_timeout, refusal));
                }
            }
            Some(_) = refused.join_next() => {}
        }
    }
}

async fn refuse(service: Arc<Service>, tls: Option<Acceptor>, stream: TcpStream) {
    let handler = service_fn(async |request: Request<Incoming>| {
        let error = RpcError::new(SHUTTING_DOWN)
            .details("The server is shutting down; connect again in a moment.");
        // Another node adopts the session when this one has released it.
        let refusal = match is_forwarded(request.headers()) {
            true => rejection(StatusCode::MISDIRECTED_REQUEST, &error),
            false => busy(&error),
        };
        let response = health::serve(request.uri().path(), true, None).await;
        Ok::<_, Infallible>(response.unwrap_or(refusal))
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(service.options.head_timeout);
    builder.keep_alive(false);
    match tls {
        None => log_error(builder.serve_connection(TokioIo::new(stream), handler).await),
        Some(tls) => {
            // HTTP/2 is not offered a response; it fails as it would without a listener.
            if let Ok(stream) = tls.accept(stream).await
                && !tls::speaks_http2(&stream)
            {
                log_error(builder.serve_connection(TokioIo::new(stream), handler).await);
            }
        }
    }
}

/// Serves one connection in a task of its own, or closes it if the limit is reached.
fn accept(service: &Arc<Service>, tls: Option<&Acceptor>, stream: TcpStream, peer: SocketAddr) {
    let Some(connected) = service.metrics.connect(peer, service.options.max_connections) else {
        if service.server.denied("http", Some(peer), "too many connections") {
            tracing::warn!("connection limit reached; refusing new connections");
        }
        return;
    };
    // Disables Nagle's algorithm: small messages must not wait.
    let _ = stream.set_nodelay(true);
    let stream = WriteTimeout::new(stream, service.options.write_timeout)
        .on_flush(connected.follow_ups.clone());
    match tls {
        None => service.tasks.spawn(serve_http1(service.clone(), stream, connected)),
        Some(tls) => {
            service.tasks.spawn(serve_tls(service.clone(), tls.clone(), stream, connected));
        }
    }
}

async fn serve_tls(
    service: Arc<Service>,
    tls: Acceptor,
    stream: WriteTimeout<TcpStream>,
    connected: Arc<HttpConnection>,
) {
    let handshake = timeout(service.options.head_timeout, tls.accept(stream));
    let Some(accepted) = service.tasks.draining().run_until_cancelled(handshake).await else {
        return;
    };
    match accepted {
        Ok(Ok(stream)) if tls::speaks_http2(&stream) => {
            Box::pin(serve_http2(service, stream, connected)).await;
        }
        Ok(Ok(stream)) => Box::pin(serve_http1(service, stream, connected)).await,
        Ok(Err(error)) => tracing::debug!(%error, "TLS handshake failed"),
        Err(_) => tracing::debug!("TLS handshake timed out"),
    }
}

async fn serve_http1(
    service: Arc<Service>,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    connected: Arc<HttpConnection>,
) {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(service.options.head_timeout)
        .max_buf_size(64 * 1024)
        .half_close(false);
    let handling = service.clone();
    // Boxed, or a connection that only reads events would keep the memory of the whole future.
    let handler = service_fn(move |request| {
        let (service, connected) = (handling.clone(), connected.clone());
        Box::pin(async move { Ok::<_, Infallible>(service.handle(request, connected).await) })
    });
    let mut connection =
        pin!(builder.serve_connection(TokioIo::new(stream), handler).with_upgrades());
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = service.tasks.draining().cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    log_error(ended);
}

async fn serve_http2(
    service: Arc<Service>,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    connected: Arc<HttpConnection>,
) {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .keep_alive_interval(service.options.keep_alive)
        .max_concurrent_streams(128)
        .max_header_list_size(64 * 1024);
    let (handling, tracker) = (service.clone(), StreamTracker::new());
    let tracking = tracker.clone();
    let handler = service_fn(move |request| {
        let (service, connected) = (handling.clone(), connected.clone());
        let open = tracking.open();
        async move {
            let response = service.clone().handle(request, connected).await;
            Ok::<_, Infallible>(open.track(response, &service.options))
        }
    });
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), handler));
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        reason = tracker.expired(&service.options) => {
            tracing::debug!(?reason, "closing an HTTP/2 connection");
            if reason == CloseReason::Idle {
                connection.as_mut().graceful_shutdown();
                // Requests that arrived meanwhile are still handled.
                let _ = timeout(service.options.write_timeout, connection).await;
            }
            return;
        }
        () = service.tasks.draining().cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    log_error(ended);
}

fn log_error(ended: hyper::Result<()>) {
    if let Err(error) = ended {
        tracing::debug!(%error, "connection closed with an error");
    }
}

/// Time for clients to read the last responses, on top of the drain time.
const LAST_RESPONSES: Duration = Duration::from_secs(5);
