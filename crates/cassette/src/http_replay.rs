//! Replay over HTTP: Streamable HTTP with and without sessions, and the legacy transport with events.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http_body_util::{BodyExt, Full, Limited, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::{Frame, Incoming};
use hyper::header::{self, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::sync::Notify;

use crate::local::is_local_request;
use crate::player::{Player, Received, ReplayOptions, Reply};
use crate::schedule::{Schedule, sleep_until};
use crate::tap::sha256;
use crate::tape::Tape;

type AnyBody = UnsyncBoxBody<Bytes, Infallible>;

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
    streams: HashMap<u64, Arc<Events>>,
    /// Stream for everything else, which keeps events until it is opened.
    events: Arc<Events>,
    /// Set if all replies go to the one stream.
    is_legacy: bool,
}

/// Events that wait for a client.
#[derive(Debug, Default)]
struct Events {
    schedule: Mutex<Schedule>,
    changed: Notify,
    /// Set once no more events are added.
    is_closed: AtomicBool,
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
    Stream(Arc<Events>),
}

impl Session {
    fn new(tape: &Arc<Tape>, options: ReplayOptions) -> Self {
        Self {
            player: Player::new(tape.clone(), options),
            streams: HashMap::new(),
            events: Arc::default(),
            is_legacy: false,
        }
    }

    /// Opens the common stream, and closes the one that was open before.
    fn open_events(&mut self) -> Arc<Events> {
        let events = Arc::<Events>::default();
        let before = std::mem::replace(&mut self.events, events.clone());
        std::mem::swap(&mut *before.schedule.lock(), &mut *events.schedule.lock());
        before.close();
        events
    }

    /// Takes a message whose replies go to the streams that are open.
    fn receive(&mut self, body: &[u8]) {
        let received = self.play(body);
        self.route(received.replies);
    }

    fn play(&mut self, body: &[u8]) -> Received {
        let received = self.player.receive(body);
        for id in &received.cancelled {
            for events in self.streams.values().chain([&self.events]) {
                events.schedule.lock().cancel(id);
                events.changed.notify_one();
            }
        }
        received
    }

    fn request(&mut self, body: &[u8]) -> Answer {
        let Received { runs, mut replies, .. } = self.play(body);
        if runs.is_empty() {
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
        }
        if let [reply] = &*replies
            && reply.is_response
            && reply.delay.is_zero()
        {
            return replies.pop().map_or(Answer::None, Answer::One);
        }
        if self.streams.len() >= MAX_STREAMS {
            // Those whose clients have gone.
            self.streams.retain(|_, events| Arc::strong_count(events) > 1);
        }
        let events = Arc::<Events>::default();
        for run in runs {
            self.streams.insert(run, events.clone());
        }
        self.route(replies);
        Answer::Stream(events)
    }

    fn route(&mut self, mut replies: Vec<Reply>) {
        while let Some(run) = replies.first().map(|reply| reply.run) {
            let end = replies.iter().position(|reply| reply.run != run);
            let others = replies.split_off(end.unwrap_or(replies.len()));
            self.route_run(run, std::mem::replace(&mut replies, others));
        }
    }

    /// Sends replies to the stream of their request; what follows its response, to the common one. The
    /// requests of a batch share a stream.
    fn route_run(&mut self, run: u64, mut replies: Vec<Reply>) {
        if !self.is_legacy
            && let Some(own) = self.streams.get(&run).cloned()
        {
            let end = replies.iter().position(|reply| reply.is_response).map(|at| at + 1);
            let rest = replies.split_off(end.unwrap_or(replies.len()));
            own.push(std::mem::replace(&mut replies, rest));
            if end.is_some() {
                self.streams.remove(&run);
                if !self.streams.values().any(|other| Arc::ptr_eq(other, &own)) {
                    own.close();
                }
            }
        }
        // Nobody may ever read these.
        let room = MAX_EVENTS.saturating_sub(self.events.schedule.lock().len());
        replies.truncate(room);
        self.events.push(replies);
    }
}

impl Events {
    fn push(&self, replies: Vec<Reply>) {
        self.schedule.lock().push(replies);
        self.changed.notify_one();
    }

    fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        self.changed.notify_one();
    }

    /// Waits for the next event that is due; none at the end.
    async fn next(&self) -> Option<Reply> {
        loop {
            let due = {
                let mut schedule = self.schedule.lock();
                if let Some(reply) = schedule.pop() {
                    return Some(reply);
                }
                schedule.next_due()
            };
            if due.is_none() && self.is_closed.load(Ordering::Acquire) {
                return None;
            }
            tokio::select! {
                () = sleep_until(due) => {}
                () = self.changed.notified() => {}
            }
        }
    }
}

/// A response with events until their stream is closed.
fn event_stream(first: Option<String>, events: Arc<Events>) -> Response<AnyBody> {
    let body = stream::unfold((first, events), |(first, events)| async move {
        let text = match first {
            Some(text) => text,
            None => {
                let reply = events.next().await?;
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

/// Limit on events that wait for a client to open the common stream, and to read it.
const MAX_EVENTS: usize = 100_000;

/// Streams from which on those that nobody reads are looked for.
const MAX_STREAMS: usize = 1000;

const MAX_SESSIONS: usize = 1000;

const BODY_TIME: Duration = Duration::from_secs(30);
