//! Recording between a client and a server over HTTP: a relay in constant memory.
//!
//! Requests go to the same path of the target. Bodies are passed on frame by frame; a copy of each is
//! cut into messages beside that. WebSockets are relayed as bytes.

use std::collections::HashMap;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http_body_util::{BodyExt, Empty, Full, combinators::UnsyncBoxBody};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo};
use mcp_flow_http_client::{BadTarget, Dialer, HttpOptions};
use parking_lot::Mutex;
use ring::digest;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::format::Side;
use crate::recorder::Recorder;
use crate::tap::{Collector, EventTap, FrameTap, Piece, hex};

type AnyBody = UnsyncBoxBody<Bytes, hyper::Error>;

/// Relays HTTP to one server, and records it. Cheap to clone.
#[derive(Clone, Debug)]
pub struct HttpRelay {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    target: Uri,
    client: Client<Dialer, AnyBody>,
    headers: HeaderMap,
    recorder: Recorder,
    /// Connections by session id.
    sessions: Mutex<HashMap<String, u64>>,
    last_connection: AtomicU64,
    last_exchange: AtomicU64,
}

impl HttpRelay {
    /// Creates a relay to the server at a URL.
    pub fn new(target: &str, options: &HttpOptions, recorder: Recorder) -> Result<Self, BadTarget> {
        let bad =
            || BadTarget::new(format!("{target:?} is not the URL of a server: use http or https"));
        let uri: Uri = target.parse().map_err(|_| bad())?;
        let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
        if !is_http || uri.authority().is_none() {
            return Err(bad());
        }
        let dialer = Dialer::new(options, &["http/1.1"])?;
        let client = Client::builder(TokioExecutor::new()).build(dialer);
        Ok(Self {
            inner: Arc::new(Inner {
                target: uri,
                client,
                headers: options.headers().clone(),
                recorder,
                sessions: Mutex::default(),
                // What has no session is connection 1.
                last_connection: AtomicU64::new(1),
                last_exchange: AtomicU64::new(0),
            }),
        })
    }

    /// Path at which clients reach the server.
    pub fn path(&self) -> &str {
        self.inner.target.path()
    }

    /// Serves clients until `stop` completes.
    pub async fn serve(&self, listener: TcpListener, stop: impl Future<Output = ()>) {
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
            let relay = self.clone();
            tokio::spawn(async move {
                let service = hyper::service::service_fn(move |request| {
                    let relay = relay.clone();
                    async move { Ok::<_, Infallible>(relay.handle(request).await) }
                });
                let http = hyper::server::conn::http1::Builder::new();
                let connection = http.serve_connection(TokioIo::new(stream), service);
                let _ = connection.with_upgrades().await;
            });
        }
    }

    async fn handle(self, request: Request<Incoming>) -> Response<AnyBody> {
        match self.relay(request).await {
            Ok(response) => response,
            Err(problem) => {
                let text = format!("the server cannot be reached: {problem}\n");
                let body =
                    Full::new(Bytes::from(text)).map_err(|never| match never {}).boxed_unsync();
                let mut response = Response::new(body);
                *response.status_mut() = StatusCode::BAD_GATEWAY;
                response
            }
        }
    }

    async fn relay(&self, mut request: Request<Incoming>) -> Result<Response<AnyBody>, String> {
        let inner = &self.inner;
        let session = session_of(request.headers());
        let known = session.and_then(|session| inner.sessions.lock().get(&session).copied());
        let is_post = request.method() == Method::POST;
        let exchange = is_post.then(|| inner.last_exchange.fetch_add(1, Ordering::Relaxed) + 1);
        let path = request.uri().path_and_query().map(ToString::to_string).unwrap_or_default();
        *request.uri_mut() = self.target_of(&path)?;
        let is_upgrade = request.headers().contains_key(header::UPGRADE);
        self.adapt_headers(request.headers_mut(), is_upgrade);
        let upgrading = is_upgrade.then(|| hyper::upgrade::on(&mut request));
        let sent: Arc<Mutex<Vec<(f64, Piece)>>> = Arc::default();
        let (head, body) = request.into_parts();
        let body = match is_post {
            true => RequestTap::new(body, inner.recorder.clone(), sent.clone()).boxed_unsync(),
            false => body.boxed_unsync(),
        };
        let answered = inner.client.request(Request::from_parts(head, body)).await;
        let connection = match (&answered, known) {
            (_, Some(known)) => known,
            (Ok(response), None) => self.connection_of(response.headers()),
            (Err(_), None) => 1,
        };
        let pieces = std::mem::take(&mut *sent.lock());
        for (at, piece) in pieces {
            inner.recorder.record_at(at, Side::Client, connection, exchange, piece).await;
        }
        let mut response = answered.map_err(|error| describe(&error))?;
        if let (StatusCode::SWITCHING_PROTOCOLS, Some(client)) = (response.status(), upgrading) {
            let server = hyper::upgrade::on(&mut response);
            let number = inner.last_connection.fetch_add(1, Ordering::Relaxed) + 1;
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
        let tap = ResponseTap::for_response(&response, is_post, path);
        remove_hop_headers(response.headers_mut());
        let (head, body) = response.into_parts();
        let copied = CopiedBody {
            body,
            tap,
            recorder: inner.recorder.clone(),
            connection,
            exchange,
            pieces: VecDeque::new(),
            waiting: None,
        };
        Ok(Response::from_parts(head, copied.boxed_unsync()))
    }

    fn target_of(&self, path: &str) -> Result<Uri, String> {
        let target = &self.inner.target;
        let own = target.path_and_query().map_or("/", |path| path.as_str());
        // The root stands for the endpoint of the target.
        let path = if path == "/" || path.is_empty() { own } else { path };
        let builder = Uri::builder()
            .scheme(target.scheme_str().unwrap_or("http"))
            .authority(target.authority().map_or("", |authority| authority.as_str()))
            .path_and_query(path);
        builder.build().map_err(|error| error.to_string())
    }

    fn adapt_headers(&self, headers: &mut HeaderMap, is_upgrade: bool) {
        if !is_upgrade {
            remove_hop_headers(headers);
        }
        // Compressed messages cannot be read here.
        headers.remove(header::ACCEPT_ENCODING);
        headers.remove("sec-websocket-extensions");
        headers.remove(header::HOST);
        let authority = self.inner.target.authority().map_or("", |authority| authority.as_str());
        if let Ok(host) = HeaderValue::from_str(authority) {
            headers.insert(header::HOST, host);
        }
        for (name, value) in &self.inner.headers {
            headers.insert(name, value.clone());
        }
    }

    /// The connection of a response, which may begin a session.
    fn connection_of(&self, headers: &HeaderMap) -> u64 {
        let Some(session) = session_of(headers) else { return 1 };
        let mut sessions = self.inner.sessions.lock();
        if sessions.len() >= MAX_SESSIONS {
            sessions.clear();
        }
        let next = || self.inner.last_connection.fetch_add(1, Ordering::Relaxed) + 1;
        *sessions.entry(session).or_insert_with(next)
    }
}

fn session_of(headers: &HeaderMap) -> Option<String> {
    headers.get("mcp-session-id").and_then(|value| value.to_str().ok()).map(str::to_owned)
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
        let at = recorder.now();
        if to.write_all(&buffer[..read]).await.is_err() || to.flush().await.is_err() {
            break;
        }
        tap.push(&buffer[..read], &mut pieces);
        for piece in pieces.drain(..) {
            recorder.record_at(at, side, connection, None, piece).await;
        }
    }
    let _ = to.shutdown().await;
}

/// Body of a request, whose message is kept until its connection is known.
struct RequestTap {
    body: Incoming,
    collector: Collector,
    recorder: Recorder,
    sent: Arc<Mutex<Vec<(f64, Piece)>>>,
}

impl RequestTap {
    fn new(body: Incoming, recorder: Recorder, sent: Arc<Mutex<Vec<(f64, Piece)>>>) -> Self {
        Self { body, collector: Collector::default(), recorder, sent }
    }

    fn finish(&mut self) {
        if let Some(piece) = self.collector.take() {
            self.sent.lock().push((self.recorder.now(), piece));
        }
    }
}

impl Body for RequestTap {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(task));
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
        {
            self.collector.push(data);
        }
        if frame.is_none() || self.body.is_end_stream() {
            self.finish();
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Part that is cut from a response.
enum ResponseTap {
    Message(Collector),
    Events(EventTap),
    Download { path: String, bytes: u64, digest: digest::Context },
    Nothing,
}

impl ResponseTap {
    fn for_response(response: &Response<Incoming>, is_post: bool, path: String) -> Self {
        let media = response.headers().get(header::CONTENT_TYPE);
        let media = media.and_then(|media| media.to_str().ok()).unwrap_or_default();
        let media = media.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        match &*media {
            "text/event-stream" => Self::Events(EventTap::new()),
            "application/json" if is_post => Self::Message(Collector::default()),
            _ if is_post || !response.status().is_success() => Self::Nothing,
            _ => Self::Download { path, bytes: 0, digest: digest::Context::new(&digest::SHA256) },
        }
    }

    fn push(&mut self, data: &[u8], pieces: &mut Vec<Piece>) {
        match self {
            Self::Message(collector) => collector.push(data),
            Self::Events(events) => events.push(data, pieces),
            Self::Download { bytes, digest, .. } => {
                *bytes += data.len() as u64;
                digest.update(data);
            }
            Self::Nothing => {}
        }
    }
}

/// Body of a response, copied to the recorder as it passes.
struct CopiedBody {
    body: Incoming,
    tap: ResponseTap,
    recorder: Recorder,
    connection: u64,
    exchange: Option<u64>,
    pieces: VecDeque<(f64, Piece)>,
    /// A piece that waits for room.
    waiting: Option<BoxFuture<'static, ()>>,
}

impl CopiedBody {
    /// Records what is complete.
    fn poll_record(&mut self, task: &mut Context<'_>) -> Poll<()> {
        loop {
            if let Some(waiting) = &mut self.waiting {
                ready!(waiting.as_mut().poll(task));
                self.waiting = None;
            }
            let Some((at, piece)) = self.pieces.pop_front() else { return Poll::Ready(()) };
            let (recorder, connection, exchange) =
                (self.recorder.clone(), self.connection, self.exchange);
            self.waiting = Some(Box::pin(async move {
                recorder.record_at(at, Side::Server, connection, exchange, piece).await;
            }));
        }
    }

    fn take_rest(&mut self) {
        let at = self.recorder.now();
        match std::mem::replace(&mut self.tap, ResponseTap::Nothing) {
            ResponseTap::Message(mut collector) => {
                self.pieces.extend(collector.take().map(|piece| (at, piece)));
            }
            ResponseTap::Download { path, bytes, digest } if bytes > 0 => {
                self.recorder.record_download(path, bytes, hex(digest.finish().as_ref()));
            }
            _ => {}
        }
    }
}

impl Body for CopiedBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        ready!(self.poll_record(task));
        let frame = ready!(Pin::new(&mut self.body).poll_frame(task));
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
        {
            let (at, mut cut) = (self.recorder.now(), Vec::new());
            self.tap.push(data, &mut cut);
            self.pieces.extend(cut.into_iter().map(|piece| (at, piece)));
        }
        if frame.is_none() || self.body.is_end_stream() {
            self.take_rest();
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for CopiedBody {
    /// Nobody polls a body after its end: what it held last is recorded now.
    fn drop(&mut self) {
        self.take_rest();
        for (at, piece) in self.pieces.drain(..) {
            self.recorder.record_at_once(at, Side::Server, self.connection, self.exchange, piece);
        }
    }
}

/// Limit on sessions that are told apart.
const MAX_SESSIONS: usize = 10_000;
