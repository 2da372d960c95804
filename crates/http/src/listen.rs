//! Accepting connections, and ending them.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use mcp_flow_server::access::AccessPolicy;
use mcp_flow_server::{Server, Verifier};
use mcp_flow_tls::{Tls, TlsError};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::metrics::Connected;
use crate::options::Options;
use crate::pages::Pages;
use crate::patience::Patient;
use crate::rooms::{Question, Rooms};
use crate::service::Service;
use crate::streams::{Over, Streams};
use crate::tls::{self, Acceptor};

/// A port that is taken and not served yet.
#[derive(Debug)]
pub struct Bound {
    listener: TcpListener,
    address: SocketAddr,
    options: Options,
    verifier: Option<Arc<dyn Verifier>>,
    tls: Option<(Arc<Tls>, Acceptor)>,
    rooms: Rooms,
}

/// Takes a port; port 0 means any that is free.
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
    let rooms = Rooms::default();
    Ok(Bound { listener, address, options, verifier: None, tls: None, rooms })
}

impl Bound {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
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

    /// Speaks TLS only.
    pub fn tls(mut self, tls: impl Into<Arc<Tls>>) -> Result<Self, TlsError> {
        let tls = tls.into();
        let acceptor = Acceptor::new(&tls)?;
        self.tls = Some((tls, acceptor));
        Ok(self)
    }

    /// Serves pages for people as well, to anyone who asks.
    #[must_use]
    pub fn pages(mut self, pages: impl Pages) -> Self {
        self.rooms.pages = Some(Box::new(pages));
        self
    }

    /// Adds figures to those at `/metrics`, in the text format of Prometheus: whole lines, the last
    /// one too.
    #[must_use]
    pub fn figures<F>(mut self, figures: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = String> + Send + 'static,
    {
        self.rooms.figures.push(Question::new(figures));
        self
    }

    /// Asks this at `/readyz` whether what the server depends on works; the error says in a few words
    /// what does not.
    #[must_use]
    pub fn readiness<F>(mut self, ready: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<(), String>> + Send + 'static,
    {
        self.rooms.readiness = Some(Question::new(ready));
        self
    }

    /// Serves clients until `stop` completes, then lets what is running finish within its time.
    pub async fn serve(self, server: &Server, stop: impl Future<Output = ()>) {
        let (hosts, origins) = (self.options.hosts.clone(), self.options.origins.clone());
        let guard =
            AccessPolicy::new(self.address.ip().is_loopback(), hosts, origins, self.verifier);
        let is_encrypted = self.tls.is_some();
        let service = Service::new(server.clone(), self.options, guard, is_encrypted, self.rooms);
        if let Some((tls, _)) = &self.tls {
            let (watching, ending) = (tls.clone().watch(), service.ending.clone());
            service.spawn(async move {
                ending.run_until_cancelled(watching).await;
            });
        }
        let acceptor = self.tls.as_ref().map(|(_, acceptor)| acceptor);
        accept_until(&self.listener, &service, acceptor, stop).await;
        drop(self.listener);
        service.end(server.limits().drain_time + LAST_ANSWERS).await;
    }
}

/// Why clients could not be served.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}")]
pub struct BindError {
    /// Where.
    pub address: SocketAddr,
    /// Why.
    #[source]
    pub source: io::Error,
}

async fn accept_until(
    listener: &TcpListener,
    service: &Arc<Service>,
    tls: Option<&Acceptor>,
    stop: impl Future<Output = ()>,
) {
    let idle = service.options.session_idle;
    let shortest = Duration::from_millis(10);
    let mut sweep = tokio::time::interval((idle / 10).clamp(shortest, Duration::from_secs(60)));
    let mut stop = pin!(stop);
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => accept(service, tls, stream, peer),
                Err(error) => {
                    // Most often too many open files; some will be closed in a moment.
                    tracing::warn!(%error, "a connection could not be accepted");
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

/// Serves one connection in a task of its own, unless there are too many.
fn accept(service: &Arc<Service>, tls: Option<&Acceptor>, stream: TcpStream, peer: SocketAddr) {
    let Some(connected) = service.metrics.connect(peer, service.options.connections) else {
        if service.server.denied("http", Some(peer), "too many connections") {
            tracing::warn!("connections are refused: too many are open");
        }
        return;
    };
    // Small messages must not wait for more to come.
    let _ = stream.set_nodelay(true);
    let stream = Patient::new(stream, service.options.unread_time)
        .reporting_to(connected.departures.clone());
    match tls {
        None => service.spawn(serve_http1(service.clone(), stream, connected)),
        Some(tls) => service.spawn(serve_tls(service.clone(), tls.clone(), stream, connected)),
    }
}

async fn serve_tls(
    service: Arc<Service>,
    tls: Acceptor,
    stream: Patient<TcpStream>,
    connected: Arc<Connected>,
) {
    let handshake = timeout(service.options.head_time, tls.accept(stream));
    let Some(shaken) = service.ending.run_until_cancelled(handshake).await else { return };
    match shaken {
        Ok(Ok(stream)) if tls::speaks_http2(&stream) => {
            Box::pin(serve_http2(service, stream, connected)).await;
        }
        Ok(Ok(stream)) => Box::pin(serve_http1(service, stream, connected)).await,
        Ok(Err(error)) => tracing::debug!(%error, "a client did not shake hands"),
        Err(_) => tracing::debug!("a client did not shake hands in time"),
    }
}

async fn serve_http1(
    service: Arc<Service>,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    connected: Arc<Connected>,
) {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(service.options.head_time)
        .max_buf_size(64 * 1024)
        .half_close(false);
    let answering = service.clone();
    // In a box of its own, or a connection that only reads events would keep the room.
    let answer = service_fn(move |request| {
        let (service, connected) = (answering.clone(), connected.clone());
        Box::pin(async move { Ok::<_, Infallible>(service.answer(request, connected).await) })
    });
    let mut connection =
        pin!(builder.serve_connection(TokioIo::new(stream), answer).with_upgrades());
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = service.ending.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    note_end(ended);
}

async fn serve_http2(
    service: Arc<Service>,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    connected: Arc<Connected>,
) {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .keep_alive_interval(service.options.keep_alive)
        .max_concurrent_streams(128)
        .max_header_list_size(64 * 1024);
    let (answering, streams) = (service.clone(), Streams::new());
    let opening = streams.clone();
    let answer = service_fn(move |request| {
        let (service, connected) = (answering.clone(), connected.clone());
        let open = opening.open();
        async move {
            let answer = service.clone().answer(request, connected).await;
            Ok::<_, Infallible>(open.answer(answer, &service.options))
        }
    });
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), answer));
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        over = streams.over(&service.options) => {
            tracing::debug!(?over, "a connection was of no use any more");
            if over == Over::Quiet {
                connection.as_mut().graceful_shutdown();
                // What was asked for meanwhile is answered.
                let _ = timeout(service.options.unread_time, connection).await;
            }
            return;
        }
        () = service.ending.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    note_end(ended);
}

fn note_end(ended: hyper::Result<()>) {
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended in the middle");
    }
}

/// How long clients may take to read the last answers.
const LAST_ANSWERS: Duration = Duration::from_secs(5);
