//! Which room a request goes to, and what all of them share.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{HOST, HeaderMap, HeaderValue};
use hyper::{Method, Request, StatusCode};
use mcp_flow_proto::RpcError;
use mcp_flow_proto::error::ACCESS_DENIED;
use mcp_flow_server::access::AccessPolicy;
use mcp_flow_server::bulk::SideChannel;
use mcp_flow_server::{Connection, ConnectionInfo, Principal, Server};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::answer::{Answer, AnswerBody, refusal, text, wrong_method};
use crate::body;
use crate::downloads::{self, Downloads, Links};
use crate::framing;
use crate::guard;
use crate::held;
use crate::legacy::{self, LegacySession};
use crate::metadata;
use crate::metrics::{Connected, Metrics};
use crate::options::Options;
use crate::pages;
use crate::rooms::Rooms;
use crate::session::Session;
use crate::sessions::Sessions;
use crate::{cors, streamable, websocket};

/// What all requests share.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) server: Server,
    pub(crate) options: Options,
    pub(crate) sessions: Sessions<Session>,
    pub(crate) legacy_sessions: Sessions<LegacySession>,
    pub(crate) downloads: Arc<Downloads>,
    /// Of the address that was used last, which is nearly always the one used next.
    links: RwLock<Arc<Links>>,
    scheme: &'static str,
    pub(crate) metrics: Arc<Metrics>,
    /// No more is begun, and what runs may finish.
    pub(crate) ending: CancellationToken,
    /// Nothing is waited for any more.
    given_up: CancellationToken,
    tasks: TaskTracker,
    guard: AccessPolicy,
    rooms: Rooms,
}

impl Service {
    pub(crate) fn new(
        server: Server,
        options: Options,
        guard: AccessPolicy,
        is_encrypted: bool,
        rooms: Rooms,
    ) -> Arc<Self> {
        let downloads = Downloads::new(options.downloads, options.download_life);
        let base = options.public_url.as_deref().unwrap_or_default().trim_end_matches('/');
        Arc::new(Self {
            links: RwLock::new(Arc::new(Links::new(downloads.clone(), base.to_owned()))),
            downloads,
            scheme: if is_encrypted { "https" } else { "http" },
            server,
            sessions: Sessions::new(options.sessions),
            legacy_sessions: Sessions::new(options.sessions),
            options,
            metrics: Arc::default(),
            ending: CancellationToken::new(),
            given_up: CancellationToken::new(),
            tasks: TaskTracker::new(),
            guard,
            rooms,
        })
    }

    /// Answers one request.
    pub(crate) async fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
        connected: Arc<Connected>,
    ) -> Answer {
        let mut answer = self.route(request, connected.clone()).await;
        self.metrics.answered(answer.status());
        held::count(&mut answer, self.server.load());
        if let AnswerBody::Keeping(_, keeping) = answer.body_mut() {
            keeping.leave_by(connected);
        }
        answer
    }

    async fn route(
        self: &Arc<Self>,
        mut request: Request<Incoming>,
        connected: Arc<Connected>,
    ) -> Answer {
        if let Err(refusal) = framing::check(request.headers(), request.uri()) {
            return refusal;
        }
        // Watchdogs ask by address and have no token.
        match request.uri().path() {
            "/healthz" => return text(StatusCode::OK, "ok\n"),
            "/readyz" if self.ending.is_cancelled() => {
                return text(StatusCode::SERVICE_UNAVAILABLE, "ending\n");
            }
            "/readyz" => return self.readiness().await,
            _ => {}
        }
        // HTTP/2 names the host in the address; everything behind here looks in one place.
        if !request.headers().contains_key(HOST)
            && let Some(authority) = request.uri().authority()
            && let Ok(host) = HeaderValue::from_str(authority.as_str())
        {
            request.headers_mut().insert(HOST, host);
        }
        let page = match guard::check_origin(&self.guard, request.headers(), request.uri()) {
            Ok(page) => page.cloned(),
            Err(refusal) => {
                self.server.denied("http", Some(connected.peer), "host or origin");
                body::discard(self, request.into_body());
                return refusal;
            }
        };
        let Some(page) = page else { return self.admit(request, connected).await };
        let mut answer = if cors::is_preflight(request.method(), request.headers()) {
            cors::preflight(request.headers())
        } else {
            self.admit(request, connected).await
        };
        cors::allow(&mut answer, page);
        answer
    }

    async fn admit(
        self: &Arc<Self>,
        request: Request<Incoming>,
        connected: Arc<Connected>,
    ) -> Answer {
        // A page is what asks for a token, so it needs none itself.
        let (method, path) = (request.method(), request.uri().path());
        if let Some(pages) = self.rooms.pages.as_deref()
            && let Some(page) = pages::answer(pages, method, path, request.headers())
        {
            return page;
        }
        if let Some(endpoint) = metadata::at(path)
            && let Some(terms) =
                self.guard.token_requirements().filter(|terms| metadata::is_offered(terms))
            && let Some(base) = self.base(request.headers())
        {
            let answer = metadata::answer(method, &terms, &base, endpoint);
            body::discard(self, request.into_body());
            return answer;
        }
        let metadata = || Some(metadata::url(&self.base(request.headers())?, path));
        match guard::admit(&self.guard, request.headers(), &connected.caller, metadata).await {
            Ok(principal) => {
                let lapsing = self.guard.requires_token().then(|| principal.clone());
                let mut answer = self.enter(request, principal, connected).await;
                if let Some(principal) = lapsing {
                    answer.body_mut().end_when(async move { principal.invalidated().await });
                }
                answer
            }
            Err(refusal) => {
                let reason = match refusal.status() {
                    StatusCode::UNAUTHORIZED => "token",
                    StatusCode::FORBIDDEN => "scope",
                    _ => "identity cannot be checked",
                };
                self.server.denied("http", Some(connected.peer), reason);
                body::discard(self, request.into_body());
                refusal
            }
        }
    }

    async fn enter(
        self: &Arc<Self>,
        request: Request<Incoming>,
        principal: Principal,
        connected: Arc<Connected>,
    ) -> Answer {
        let path = request.uri().path();
        match (path, request.method()) {
            ("/mcp", _) => streamable::answer(self, request, principal).await,
            ("/ws", &Method::GET) => websocket::answer(self, request, principal, connected),
            ("/ws", _) => wrong_method("GET"),
            ("/metrics", _) if !self.may_see_figures(&principal) => nothing_at(path),
            ("/metrics", &Method::GET) => {
                let sessions =
                    [("streamable", self.sessions.count()), ("sse", self.legacy_sessions.count())];
                let mut figures = self.metrics.text(&sessions);
                for more in &self.rooms.figures {
                    figures += &more.ask().await;
                }
                text(StatusCode::OK, figures)
            }
            ("/metrics", _) => wrong_method("GET"),
            (path, method) if path.starts_with(downloads::PATH) => {
                let token = &path[downloads::PATH.len()..];
                self.downloads.answer(method, token, request.headers(), &principal)
            }
            (path, _) if legacy::is_at(path) => legacy::answer(self, request, principal).await,
            (path, _) => {
                let answer = nothing_at(path);
                body::discard(self, request.into_body());
                answer
            }
        }
    }

    /// Figures tell of everyone, so where there are rules one of them has to give them.
    fn may_see_figures(&self, principal: &Principal) -> bool {
        self.server.permissions().is_none_or(|rules| rules.of(principal).metrics())
    }

    /// Whether work can be done here: what everything depends on is asked, and has little time.
    async fn readiness(&self) -> Answer {
        let Some(ready) = &self.rooms.readiness else {
            return text(StatusCode::OK, "ready\n");
        };
        match tokio::time::timeout(READY_TIME, ready.ask()).await {
            Ok(Ok(())) => text(StatusCode::OK, "ready\n"),
            Ok(Err(problem)) => text(StatusCode::SERVICE_UNAVAILABLE, problem + "\n"),
            Err(_) => text(StatusCode::SERVICE_UNAVAILABLE, "no answer in time\n"),
        }
    }

    /// Opens a connection of the server's, unless a hook refuses it.
    pub(crate) fn connect(
        &self,
        transport: &'static str,
        principal: Principal,
        headers: &HeaderMap,
    ) -> Result<Connection, Answer> {
        let side_channel: Arc<dyn SideChannel> = self.links(headers);
        let side_channel = Some(side_channel);
        // What is posted may overtake what was posted before.
        let in_order = transport == "websocket";
        let info =
            ConnectionInfo { principal, side_channel, in_order, ..ConnectionInfo::new(transport) };
        self.server.connect(info).map_err(|veto| {
            let error = RpcError::new(ACCESS_DENIED).details(veto.to_string());
            refusal(StatusCode::FORBIDDEN, &error)
        })
    }

    /// Where a client finds the server, if it has named a host that can be repeated to it.
    fn base(&self, headers: &HeaderMap) -> Option<String> {
        if let Some(url) = &self.options.public_url {
            return Some(url.trim_end_matches('/').to_owned());
        }
        let host = headers.get(HOST)?.to_str().ok()?;
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".:-[]".contains(&byte);
        host.bytes().all(is_plain).then(|| format!("{}://{host}", self.scheme))
    }

    /// Links that lead back to where a client has come.
    fn links(&self, headers: &HeaderMap) -> Arc<Links> {
        let known = self.links.read().unwrap_or_else(PoisonError::into_inner).clone();
        let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        let is_same = |base: &str| {
            let base = base.strip_prefix(self.scheme).and_then(|base| base.strip_prefix("://"));
            base == Some(host)
        };
        if self.options.public_url.is_some() || is_same(known.base()) {
            return known;
        }
        let base = format!("{}://{host}", self.scheme);
        let links = Arc::new(Links::new(self.downloads.clone(), base));
        *self.links.write().unwrap_or_else(PoisonError::into_inner) = links.clone();
        links
    }

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
    pub(crate) async fn end(&self, limit: Duration) {
        self.ending.cancel();
        self.sessions.end_all();
        self.legacy_sessions.end_all();
        self.tasks.close();
        if tokio::time::timeout(limit, self.tasks.wait()).await.is_err() {
            tracing::warn!("connections were still open when the time to drain ended");
            self.given_up.cancel();
            self.tasks.wait().await;
        }
    }
}

/// How long what is depended on may take to say that it works.
const READY_TIME: Duration = Duration::from_secs(5);

/// 404, with what is where.
pub(crate) fn nothing_at(path: &str) -> Answer {
    let details = format!(
        "nothing is at {path}; MCP is at /mcp, the older transport at /sse, WebSocket at /ws"
    );
    refusal(StatusCode::NOT_FOUND, &RpcError::invalid_request(&details))
}
