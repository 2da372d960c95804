//! Which room a request goes to, and what all of them share.

use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::{Method, Request, StatusCode};
use mcp_flow_proto::RpcError;
use mcp_flow_proto::error::ACCESS_DENIED;
use mcp_flow_server::{Connection, ConnectionInfo, Principal, Server};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::answer::{Answer, refusal, text, wrong_method};
use crate::body;
use crate::guard::Guard;
use crate::legacy::{self, LegacySession};
use crate::metrics::{Connected, Metrics};
use crate::options::Options;
use crate::session::Session;
use crate::sessions::Sessions;
use crate::{streamable, websocket};

/// What all requests share.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) server: Server,
    pub(crate) options: Options,
    pub(crate) sessions: Sessions<Session>,
    pub(crate) legacy_sessions: Sessions<LegacySession>,
    pub(crate) metrics: Arc<Metrics>,
    /// No more is begun, and what runs may finish.
    pub(crate) ending: CancellationToken,
    /// Nothing is waited for any more.
    given_up: CancellationToken,
    tasks: TaskTracker,
    guard: Guard,
}

impl Service {
    pub(crate) fn new(server: Server, options: Options, guard: Guard) -> Arc<Self> {
        Arc::new(Self {
            server,
            sessions: Sessions::new(options.sessions),
            legacy_sessions: Sessions::new(options.sessions),
            options,
            metrics: Arc::default(),
            ending: CancellationToken::new(),
            given_up: CancellationToken::new(),
            tasks: TaskTracker::new(),
            guard,
        })
    }

    /// Answers one request.
    pub(crate) async fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
        connected: Arc<Connected>,
    ) -> Answer {
        let answer = self.route(request, connected).await;
        self.metrics.answered(answer.status());
        answer
    }

    async fn route(
        self: &Arc<Self>,
        request: Request<Incoming>,
        connected: Arc<Connected>,
    ) -> Answer {
        // Watchdogs ask by address and have no token.
        match request.uri().path() {
            "/healthz" => return text(StatusCode::OK, "ok\n"),
            "/readyz" if self.ending.is_cancelled() => {
                return text(StatusCode::SERVICE_UNAVAILABLE, "ending\n");
            }
            "/readyz" => return text(StatusCode::OK, "ready\n"),
            _ => {}
        }
        match self.guard.admit(request.headers(), request.uri()) {
            Ok(principal) => self.enter(request, principal, connected).await,
            Err(refusal) => {
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
            ("/metrics", &Method::GET) => {
                let sessions =
                    [("streamable", self.sessions.count()), ("sse", self.legacy_sessions.count())];
                text(StatusCode::OK, self.metrics.text(&sessions))
            }
            ("/metrics", _) => wrong_method("GET"),
            // Behind a proxy the old transport may live under a prefix, which it has to announce.
            (path, _) if path.ends_with("/sse") || path.ends_with("/messages") => {
                legacy::answer(self, request, principal).await
            }
            (path, _) => {
                let details = format!(
                    "nothing is at {path}; MCP is at /mcp, the older transport at /sse, WebSocket \
                     at /ws"
                );
                body::discard(self, request.into_body());
                refusal(StatusCode::NOT_FOUND, &RpcError::invalid_request(&details))
            }
        }
    }

    /// Opens a connection of the server's, unless a hook refuses it.
    pub(crate) fn connect(
        &self,
        transport: &'static str,
        principal: Principal,
    ) -> Result<Connection, Answer> {
        let info = ConnectionInfo { principal, ..ConnectionInfo::new(transport) };
        self.server.connect(info).map_err(|veto| {
            let error = RpcError::new(ACCESS_DENIED).details(veto.to_string());
            refusal(StatusCode::FORBIDDEN, &error)
        })
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
