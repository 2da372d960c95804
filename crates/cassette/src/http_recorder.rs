//! Recording between a client and a server over HTTP: a relay in constant memory.
//!
//! Requests go to the same path of the target. Bodies are passed on frame by frame; a copy of each is
//! cut into messages beside that. WebSockets are relayed as bytes.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Full, combinators::UnsyncBoxBody};
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderName};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo};
use mcp_flow_http_client::{BadTarget, Dialer, HttpOptions};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::connections::{ANONYMOUS, Connections};
use crate::format::Side;
use crate::local::is_local_request;
use crate::recorded_body::{CopiedBody, EventStream, RequestTap, ResponseTap};
use crate::recorder::Recorder;
use crate::relay_target::Target;
use crate::tap::{FrameTap, Piece};

type AnyBody = UnsyncBoxBody<Bytes, hyper::Error>;

/// Relays HTTP to one server, and records it.
#[derive(Debug)]
pub struct HttpRelay {
    target: Target,
    client: Client<Dialer, AnyBody>,
    headers: HeaderMap,
}

/// A relay at work. Cheap to clone.
#[derive(Clone)]
struct Relay {
    inner: Arc<Inner>,
}

struct Inner {
    relay: HttpRelay,
    recorder: Recorder,
    connections: Arc<Connections>,
    last_exchange: AtomicU64,
}

impl HttpRelay {
    /// Creates a relay to the server at a URL.
    pub fn new(target: &str, options: &HttpOptions) -> Result<Self, BadTarget> {
        let target = Target::parse(target).ok_or_else(|| {
            BadTarget::new(
                "--target must be a URL with http, https, ws or wss; record a server that is reached in \
                 another way with `mcp-flow record FILE -- mcp-flow bridge TARGET`",
            )
        })?;
        if target.is_webtransport() {
            return Err(BadTarget::new(
                "--target names the endpoint of WebTransport, which cannot be relayed; record it with \
                 `mcp-flow record FILE -- mcp-flow bridge URL`",
            ));
        }
        let dialer = Dialer::new(options, &["http/1.1"])?;
        let client = Client::builder(TokioExecutor::new()).build(dialer);
        let mut headers = options.headers().clone();
        if let Some(credentials) = &target.credentials {
            headers.entry(header::AUTHORIZATION).or_insert_with(|| credentials.clone());
        }
        Ok(Self { target, client, headers })
    }

    /// URL at which clients reach the server by an address of this relay.
    pub fn url(&self, address: SocketAddr) -> String {
        let scheme = if self.target.is_websocket { "ws" } else { "http" };
        format!("{scheme}://{address}{}", self.target.uri.path())
    }

    /// Serves clients until `stop` completes. On a local address, requests must name this machine, so
    /// that web pages of others cannot send them.
    pub async fn serve(
        self,
        listener: TcpListener,
        recorder: &Recorder,
        stop: impl Future<Output = ()>,
    ) {
        let is_local = listener.local_addr().is_ok_and(|address| address.ip().is_loopback());
        let relay = Relay {
            inner: Arc::new(Inner {
                relay: self,
                recorder: recorder.clone(),
                connections: Arc::default(),
                last_exchange: AtomicU64::new(0),
            }),
        };
        tokio::pin!(stop);
        loop {
            let stream = tokio::select! {
                () = &mut stop => return,
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => stream,
                    Err(error) => {
                        tracing::warn!(%error, "cannot accept a connection");
                        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                        continue;
                    }
                },
            };
            let _ = stream.set_nodelay(true);
            let relay = relay.clone();
            tokio::spawn(async move {
                let service = hyper::service::service_fn(move |request: Request<Incoming>| {
                    let relay = relay.clone();
                    async move {
                        let is_allowed = !is_local || is_local_request(request.headers());
                        Ok::<_, Infallible>(match is_allowed {
                            true => relay.handle(request).await,
                            false => plain(
                                StatusCode::FORBIDDEN,
                                "this relay is for this machine; name it localhost or 127.0.0.1\n",
                            ),
                        })
                    }
                });
                let http = hyper::server::conn::http1::Builder::new();
                let connection = http.serve_connection(TokioIo::new(stream), service);
                let _ = connection.with_upgrades().await;
            });
        }
    }
}

impl Relay {
    async fn handle(self, request: Request<Incoming>) -> Response<AnyBody> {
        match self.relay(request).await {
            Ok(response) => response,
            Err(problem) => {
                let text = format!("the server cannot be reached: {problem}\n");
                plain(StatusCode::BAD_GATEWAY, &text)
            }
        }
    }

    async fn relay(&self, mut request: Request<Incoming>) -> Result<Response<AnyBody>, String> {
        let inner = &self.inner;
        let is_post = request.method() == Method::POST;
        let exchange = is_post.then(|| inner.last_exchange.fetch_add(1, Ordering::Relaxed) + 1);
        let path = request.uri().path_and_query().map(ToString::to_string).unwrap_or_default();
        let known = inner.connections.find(session_of(request.headers()), &path);
        *request.uri_mut() = inner.relay.target.with_path(&path)?;
        let links = inner.relay.target.link_rewriter(request.headers().get(header::HOST));
        let is_upgrade = request.headers().contains_key(header::UPGRADE);
        self.adapt_headers(request.headers_mut(), is_upgrade);
        let upgrading = is_upgrade.then(|| hyper::upgrade::on(&mut request));
        let sent: Arc<Mutex<Vec<(f64, Piece)>>> = Arc::default();
        // Recorded even if the client goes before the server answers.
        let recorder = inner.recorder.clone();
        let request_record = SentRequest {
            sent: sent.clone(),
            recorder,
            connection: known.unwrap_or(ANONYMOUS),
            exchange,
        };
        let (head, body) = request.into_parts();
        let body = match is_post {
            true => RequestTap::new(body, inner.recorder.clone(), sent.clone()).boxed_unsync(),
            false => body.boxed_unsync(),
        };
        let answered = inner.relay.client.request(Request::from_parts(head, body)).await;
        let connection = match (&answered, known) {
            (_, Some(known)) => known,
            (Ok(response), None) => {
                let session = session_of(response.headers());
                session.map_or(ANONYMOUS, |session| inner.connections.of_session(session))
            }
            (Err(_), None) => ANONYMOUS,
        };
        request_record.record(connection).await;
        let mut response = answered.map_err(|error| describe(&error))?;
        if let (StatusCode::SWITCHING_PROTOCOLS, Some(client)) = (response.status(), upgrading) {
            let server = hyper::upgrade::on(&mut response);
            let number = inner.connections.begin();
            let recorder = inner.recorder.clone();
            tokio::spawn(async move {
                if let (Ok(client), Ok(server)) = (client.await, server.await) {
                    relay_frames(TokioIo::new(client), TokioIo::new(server), number, &recorder)
                        .await;
                }
            });
            let (head, _) = response.into_parts();
            let nothing = Empty::new().map_err(|never| match never {}).boxed_unsync();
            return Ok(Response::from_parts(head, nothing));
        }
        let tap = ResponseTap::for_response(&response, is_post, &path, &inner.recorder);
        remove_hop_headers(response.headers_mut());
        let links = links.filter(|_| tap.has_messages());
        if links.is_some() {
            response.headers_mut().remove(header::CONTENT_LENGTH);
        }
        let (head, body) = response.into_parts();
        let recorder = inner.recorder.clone();
        let stream = EventStream { connections: inner.connections.clone(), path };
        let copied = CopiedBody::new(body, tap, recorder, (connection, exchange), stream);
        let copied = copied.rewriting(links);
        Ok(Response::from_parts(head, copied.boxed_unsync()))
    }

    fn adapt_headers(&self, headers: &mut HeaderMap, is_upgrade: bool) {
        if !is_upgrade {
            remove_hop_headers(headers);
        }
        // Compressed messages cannot be read here.
        headers.remove(header::ACCEPT_ENCODING);
        headers.remove("sec-websocket-extensions");
        let relay = &self.inner.relay;
        if let Some(host) = relay.target.host_for(headers.remove(header::HOST).as_ref()) {
            headers.insert(header::HOST, host);
        }
        for (name, value) in &relay.headers {
            headers.insert(name, value.clone());
        }
    }
}

fn session_of(headers: &HeaderMap) -> Option<&str> {
    headers.get("mcp-session-id").and_then(|value| value.to_str().ok())
}

fn remove_hop_headers(headers: &mut HeaderMap) {
    for name in
        ["connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding"]
    {
        headers.remove(HeaderName::from_static(name));
    }
}

fn describe(error: &hyper_util::client::legacy::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}

/// A message that was sent, until it is recorded.
struct SentRequest {
    sent: Arc<Mutex<Vec<(f64, Piece)>>>,
    recorder: Recorder,
    connection: u64,
    exchange: Option<u64>,
}

impl SentRequest {
    async fn record(self, connection: u64) {
        let pieces = std::mem::take(&mut *self.sent.lock());
        for (at, piece) in pieces {
            self.recorder.record_at(at, Side::Client, connection, self.exchange, piece).await;
        }
    }
}

impl Drop for SentRequest {
    /// Records what was sent by a client that has gone.
    fn drop(&mut self) {
        for (at, piece) in self.sent.lock().drain(..) {
            let (connection, exchange) = (self.connection, self.exchange);
            self.recorder.record_at_once(at, Side::Client, connection, exchange, piece);
        }
    }
}

fn plain(status: StatusCode, text: &str) -> Response<AnyBody> {
    let body = Full::new(Bytes::from(text.to_owned())).map_err(|never| match never {});
    let mut response = Response::new(body.boxed_unsync());
    *response.status_mut() = status;
    response
}

/// Relays the bytes of a WebSocket in both directions.
async fn relay_frames<C, S>(client: C, server: S, connection: u64, recorder: &Recorder)
where
    C: AsyncRead + AsyncWrite,
    S: AsyncRead + AsyncWrite,
{
    let (client_reader, client_writer) = tokio::io::split(client);
    let (server_reader, server_writer) = tokio::io::split(server);
    let up = copy_frames(client_reader, server_writer, Side::Client, connection, recorder);
    let down = copy_frames(server_reader, client_writer, Side::Server, connection, recorder);
    tokio::join!(up, down);
}

async fn copy_frames(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    side: Side,
    connection: u64,
    recorder: &Recorder,
) {
    let (mut buffer, mut tap, mut pieces) = (vec![0; 16 * 1024], FrameTap::default(), Vec::new());
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        // Before it is passed on: an answer must not be recorded before its question.
        tap.push(&buffer[..read], &mut pieces);
        for piece in pieces.drain(..) {
            recorder.record(side, connection, None, piece).await;
        }
        if to.write_all(&buffer[..read]).await.is_err() || to.flush().await.is_err() {
            break;
        }
    }
    let _ = to.shutdown().await;
}
