//! Replay over HTTP: Streamable HTTP with and without sessions, and the legacy transport with events.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http_body_util::{BodyExt, Full, Limited, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::{Frame, Incoming};
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use crate::player::{Player, ReplayOptions, Reply};
use crate::tap::sha256;
use crate::tape::Tape;

type AnyBody = UnsyncBoxBody<Bytes, Infallible>;

type Events = mpsc::Receiver<Reply>;

/// A server that answers as recorded. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ReplayServer {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    tape: Arc<Tape>,
    options: ReplayOptions,
    sessions: Mutex<HashMap<String, Arc<Mutex<Session>>>>,
    /// Clients without a session.
    stateless: Arc<Mutex<Session>>,
    last: Mutex<u64>,
}

/// One client.
#[derive(Debug)]
struct Session {
    player: Player,
    /// Streams of requests that are not answered yet.
    streams: HashMap<u64, mpsc::Sender<Reply>>,
    /// Stream for everything else.
    events: Option<mpsc::Sender<Reply>>,
    /// Events before that stream was opened.
    waiting: Vec<Reply>,
    /// All replies go to the one stream.
    is_legacy: bool,
}

impl ReplayServer {
    /// Creates a server that replays a tape to each session from its beginning.
    pub fn new(tape: Arc<Tape>, options: ReplayOptions) -> Self {
        let stateless = Arc::new(Mutex::new(Session::new(&tape, options)));
        let (sessions, last) = (Mutex::default(), Mutex::new(0));
        Self { inner: Arc::new(Inner { tape, options, sessions, stateless, last }) }
    }

    /// Serves clients until `stop` completes.
    pub async fn serve(&self, listener: TcpListener, stop: impl Future<Output = ()>) {
        let is_local =
            listener.local_addr().is_ok_and(|address: SocketAddr| address.ip().is_loopback());
        tokio::pin!(stop);
        loop {
            let stream = tokio::select! {
                () = &mut stop => return,
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => stream,
                    Err(error) => {
                        tracing::warn!(%error, "cannot accept a connection");
                        tokio::time::sleep(Duration::from_millis(50)).await;
                        continue;
                    }
                },
            };
            let _ = stream.set_nodelay(true);
            let server = self.clone();
            tokio::spawn(async move {
                let service = hyper::service::service_fn(move |request: Request<Incoming>| {
                    let server = server.clone();
                    async move {
                        let allowed = !is_local || is_local_request(request.headers());
                        Ok::<_, Infallible>(match allowed {
                            true => server.handle(request).await,
                            false => {
                                plain(StatusCode::FORBIDDEN, "this server is for this machine")
                            }
                        })
                    }
                });
                let http = hyper::server::conn::http1::Builder::new();
                let _ = http.serve_connection(TokioIo::new(stream), service).await;
            });
        }
    }

    async fn handle(&self, request: Request<Incoming>) -> Response<AnyBody> {
        let session = request.headers().get("mcp-session-id");
        let session = session.and_then(|value| value.to_str().ok()).map(str::to_owned);
        let path = request.uri().path().to_owned();
        match *request.method() {
            Method::POST if path == MESSAGES => {
                let query = request.uri().query().unwrap_or_default();
                let id = query.strip_prefix("session=").unwrap_or_default().to_owned();
                let Some(session) = self.session(&id) else {
                    return plain(StatusCode::NOT_FOUND, "no such session");
                };
                match read(request).await {
                    Ok(body) => {
                        session.lock().receive(&body);
                        plain(StatusCode::ACCEPTED, "")
                    }
                    Err(refusal) => refusal,
                }
            }
            Method::POST => match read(request).await {
                Ok(body) => self.post(session, &body),
                Err(refusal) => refusal,
            },
            Method::GET if path.ends_with("/sse") => self.open_legacy(),
            Method::GET => {
                let Some(session) = session.and_then(|id| self.session(&id)) else {
                    return plain(
                        StatusCode::METHOD_NOT_ALLOWED,
                        "there are no events without a session",
                    );
                };
                let events = session.lock().open_events();
                event_stream(None, events)
            }
            Method::DELETE => {
                let removed = session.and_then(|id| self.inner.sessions.lock().remove(&id));
                match removed {
                    Some(_) => plain(StatusCode::OK, ""),
                    None => plain(StatusCode::NOT_FOUND, "no such session"),
                }
            }
            _ => plain(StatusCode::METHOD_NOT_ALLOWED, "use POST, GET or DELETE"),
        }
    }

    fn session(&self, id: &str) -> Option<Arc<Mutex<Session>>> {
        self.inner.sessions.lock().get(id).cloned()
    }

    fn open_session(&self) -> (String, Arc<Mutex<Session>>) {
        let mut last = self.inner.last.lock();
        *last += 1;
        // Nothing secret is replayed, so it need not be hard to guess.
        let id = sha256(format!("{} {}", *last, std::process::id()).as_bytes())[..32].to_owned();
        let session = Session::new(&self.inner.tape, self.inner.options);
        let session = Arc::new(Mutex::new(session));
        let mut sessions = self.inner.sessions.lock();
        if sessions.len() >= MAX_SESSIONS {
            sessions.clear();
        }
        sessions.insert(id.clone(), session.clone());
        (id, session)
    }

    fn post(&self, id: Option<String>, body: &[u8]) -> Response<AnyBody> {
        let is_initialize = serde_json::from_slice::<serde_json::Value>(body)
            .is_ok_and(|message| message["method"] == "initialize");
        let (new, session) = match id {
            Some(id) => match self.session(&id) {
                Some(session) => (None, session),
                None => return plain(StatusCode::NOT_FOUND, "no such session"),
            },
            None if is_initialize => {
                let (id, session) = self.open_session();
                (Some(id), session)
            }
            None => (None, self.inner.stateless.clone()),
        };
        let mut response = match session.lock().request(body) {
            Answer::None => plain(StatusCode::ACCEPTED, ""),
            Answer::One(reply) => {
                let text = reply.message.to_string();
                let mut response = Response::new(full(text));
                let json = HeaderValue::from_static("application/json");
                response.headers_mut().insert(header::CONTENT_TYPE, json);
                response
            }
            Answer::Stream(events) => event_stream(None, events),
        };
        if let Some(id) = new.and_then(|id| HeaderValue::from_str(&id).ok()) {
            response.headers_mut().insert("mcp-session-id", id);
        }
        response
    }

    fn open_legacy(&self) -> Response<AnyBody> {
        let (id, session) = self.open_session();
        let mut session = session.lock();
        session.is_legacy = true;
        let events = session.open_events();
        event_stream(Some(format!("event: endpoint\ndata: {MESSAGES}?session={id}\n\n")), events)
    }
}

/// Replies to one POST.
enum Answer {
    None,
    One(Reply),
    Stream(Events),
}

impl Session {
    fn new(tape: &Arc<Tape>, options: ReplayOptions) -> Self {
        Self {
            player: Player::new(tape.clone(), options),
            streams: HashMap::new(),
            events: None,
            waiting: Vec::new(),
            is_legacy: false,
        }
    }

    fn open_events(&mut self) -> Events {
        let (sender, events) = mpsc::channel(MAX_EVENTS);
        for reply in self.waiting.drain(..) {
            let _ = sender.try_send(reply);
        }
        self.events = Some(sender);
        events
    }

    /// Takes a message whose replies go to the streams that are open.
    fn receive(&mut self, body: &[u8]) {
        let (_, replies) = self.player.receive(body);
        self.route(replies);
    }

    fn request(&mut self, body: &[u8]) -> Answer {
        let (run, mut replies) = self.player.receive(body);
        let Some(run) = run else {
            // A message that cannot be read is answered; others are not.
            return match replies.pop() {
                Some(reply) if reply.is_response && reply.run == 0 => Answer::One(reply),
                Some(reply) => {
                    replies.push(reply);
                    self.route(replies);
                    Answer::None
                }
                None => Answer::None,
            };
        };
        if let [reply] = &*replies
            && reply.is_response
            && reply.delay.is_zero()
        {
            return replies.pop().map_or(Answer::None, Answer::One);
        }
        let (sender, events) = mpsc::channel(MAX_EVENTS);
        self.streams.insert(run, sender);
        self.route(replies);
        Answer::Stream(events)
    }

    /// Sends replies to the streams of their requests; what follows a response, to the common one.
    fn route(&mut self, replies: Vec<Reply>) {
        for reply in replies {
            let own = self.streams.get(&reply.run).filter(|_| !self.is_legacy).cloned();
            if reply.is_response {
                self.streams.remove(&reply.run);
            }
            match own.or_else(|| self.events.clone()) {
                Some(stream) => drop(stream.try_send(reply)),
                None if self.waiting.len() < MAX_EVENTS => self.waiting.push(reply),
                None => {}
            }
        }
    }
}

/// A response with events until their sender is gone.
fn event_stream(first: Option<String>, events: Events) -> Response<AnyBody> {
    let body = stream::unfold((first, events), |(first, mut events)| async move {
        let text = match first {
            Some(text) => text,
            None => {
                let reply = events.recv().await?;
                tokio::time::sleep(reply.delay).await;
                format!("event: message\ndata: {}\n\n", reply.message)
            }
        };
        let frame = Ok::<_, Infallible>(Frame::data(Bytes::from(text)));
        Some((frame, (None, events)))
    });
    let mut response = Response::new(BodyExt::boxed_unsync(StreamBody::new(body)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

async fn read(request: Request<Incoming>) -> Result<Bytes, Response<AnyBody>> {
    let body = Limited::new(request.into_body(), MAX_BODY).collect();
    match tokio::time::timeout(BODY_TIME, body).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(_)) => Err(plain(StatusCode::PAYLOAD_TOO_LARGE, "the message is too large")),
        Err(_) => Err(plain(StatusCode::REQUEST_TIMEOUT, "the message took too long")),
    }
}

/// Returns whether a request names this machine, so that web pages of others cannot send it.
fn is_local_request(headers: &HeaderMap) -> bool {
    let text = |name: header::HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let host = |authority: &str| -> bool {
        let host = match authority.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
            _ => authority,
        };
        matches!(host, "localhost" | "127.0.0.1" | "[::1]")
    };
    let origin = text(header::ORIGIN).and_then(|origin| origin.split_once("://"));
    text(header::HOST).is_none_or(host)
        && (!headers.contains_key(header::ORIGIN) || origin.is_some_and(|(_, rest)| host(rest)))
}

fn plain(status: StatusCode, text: &str) -> Response<AnyBody> {
    let mut response = Response::new(full(text.to_owned()));
    *response.status_mut() = status;
    response
}

fn full(text: String) -> AnyBody {
    Full::new(Bytes::from(text)).boxed_unsync()
}

/// Path to which clients of the legacy transport post.
const MESSAGES: &str = "/messages";

/// Limit on a message of a client.
const MAX_BODY: usize = 64 * 1024 * 1024;

/// Limit on events that wait for a client.
const MAX_EVENTS: usize = 10_000;

const MAX_SESSIONS: usize = 1000;

const BODY_TIME: Duration = Duration::from_secs(30);
