//! The stages of a request: check the head, check the origin, authenticate, route to the endpoint.
//!
//! [`Service`] also owns what the endpoints share, and drains it on shutdown.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{HOST, HeaderMap, HeaderValue};
use hyper::{Method, Request, StatusCode};
use mcp_flow_proto::RpcError;
use mcp_flow_proto::error::ACCESS_DENIED;
use mcp_flow_server::access::{AccessPolicy, Authenticated};
use mcp_flow_server::bulk::SideChannel;
use mcp_flow_server::drain::DrainGroup;
use mcp_flow_server::{Connection, ConnectionInfo, Principal, Server};
use parking_lot::RwLock;

use crate::authentication::{self, Addresses};
use crate::cluster::credential::{CredentialVerifier, Refused};
use crate::cluster::relay::{self, RelayedRequest, is_forwarded};
use crate::cluster::{ClusterNodes, epoch_of};
use crate::downloads::{self, Downloads, Links};
use crate::endpoint;
use crate::head::check_head;
use crate::limits::counted_body;
use crate::limits::request_body::discard;
use crate::operator::metrics::{HttpConnection, Metrics};
use crate::operator::{OperatorEndpoints, health, pages};
use crate::options::Options;
use crate::origin::{self, check_origin};
use crate::resource_metadata;
use crate::response::{HttpResponse, ResponseBody, method_not_allowed, rejection, text};
use crate::server_card::PublishedCard;
use crate::transport::legacy_sse::{self, LegacySession};
use crate::transport::session::HttpSession;
use crate::transport::sessions::Sessions;
use crate::transport::{streamable, websocket};

/// State shared by all requests of one listener.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) server: Server,
    pub(crate) options: Options,
    pub(crate) sessions: Sessions<HttpSession>,
    pub(crate) legacy_sessions: Sessions<LegacySession>,
    pub(crate) downloads: Arc<Downloads>,
    /// Links for the host that was named last, which nearly always is the one named next.
    links: RwLock<Arc<Links>>,
    scheme: &'static str,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) tasks: DrainGroup,
    access: AccessPolicy,
    operator: OperatorEndpoints,
    card: Option<PublishedCard>,
    /// The other nodes, if several serve the same sessions.
    pub(crate) cluster: Option<Arc<dyn ClusterNodes>>,
    credentials: CredentialVerifier,
    /// Locked while a session of another node is adopted.
    pub(crate) adopting: tokio::sync::Mutex<()>,
}

impl Service {
    pub(crate) fn new(
        server: Server,
        options: Options,
        access: AccessPolicy,
        is_encrypted: bool,
        operator: OperatorEndpoints,
        cluster: Option<Arc<dyn ClusterNodes>>,
    ) -> Arc<Self> {
        let downloads =
            Downloads::new(options.max_downloads, options.download_lifetime, cluster.clone());
        let base = options.public_url.as_deref().unwrap_or_default().trim_end_matches('/');
        let card = options.server_card.as_ref().filter(|_| {
            let has_url = options.public_url.is_some();
            if !has_url {
                tracing::warn!(
                    "the server card is not served, because the public URL is not known"
                );
            }
            has_url
        });
        let card = card.and_then(|card| PublishedCard::new(card, &server, base));
        Arc::new(Self {
            card,
            links: RwLock::new(Arc::new(Links::new(downloads.clone(), base.to_owned()))),
            downloads,
            scheme: if is_encrypted { "https" } else { "http" },
            server,
            sessions: Sessions::new(options.max_sessions),
            legacy_sessions: Sessions::new(options.max_sessions),
            options,
            metrics: Arc::default(),
            tasks: DrainGroup::default(),
            access,
            operator,
            cluster,
            credentials: CredentialVerifier::default(),
            adopting: tokio::sync::Mutex::default(),
        })
    }

    /// Handles one request; the response is counted in metrics and memory until it is sent.
    pub(crate) async fn handle(
        self: Arc<Self>,
        request: Request<Incoming>,
        connection: Arc<HttpConnection>,
    ) -> HttpResponse {
        let mut response = match check_head(request.headers(), request.uri()) {
            Ok(()) => self.handle_checked(request, connection.clone()).await,
            Err(rejection) => rejection,
        };
        self.metrics.count_response(response.status());
        counted_body::count(&mut response, self.server.load());
        if let ResponseBody::WithFollowUps(_, follow_ups) = response.body_mut() {
            follow_ups.send_after_flush_of(connection);
        }
        response
    }

    /// Handles a request whose head is unambiguous: health probes, then the origin check.
    async fn handle_checked(
        self: &Arc<Self>,
        mut request: Request<Incoming>,
        connection: Arc<HttpConnection>,
    ) -> HttpResponse {
        let (path, readiness) = (request.uri().path(), self.operator.readiness.as_ref());
        if let Some(response) =
            health::serve(path, self.tasks.draining().is_cancelled(), readiness).await
        {
            return response;
        }
        // Discovery is for everyone, pages of any origin included.
        if let Some(card) = &self.card
            && let Some(response) =
                card.serve(request.method(), request.uri().path(), request.headers())
        {
            discard(self, request.into_body());
            return response;
        }
        if is_forwarded(request.headers()) {
            return self.handle_forwarded(request, connection).await;
        }
        // HTTP/2 names the host in the URI; the stages behind read it from the header.
        if !request.headers().contains_key(HOST)
            && let Some(authority) = request.uri().authority()
            && let Ok(host) = HeaderValue::from_str(authority.as_str())
        {
            request.headers_mut().insert(HOST, host);
        }
        let allowed_origin = match check_origin(&self.access, request.headers(), request.uri()) {
            Ok(origin) => origin.cloned(),
            Err(rejection) => {
                self.server.denied("http", Some(connection.peer), "host or origin");
                discard(self, request.into_body());
                return rejection;
            }
        };
        let Some(allowed_origin) = allowed_origin else {
            return self.authenticate(request, connection).await;
        };
        let mut response = if origin::is_preflight(request.method(), request.headers()) {
            origin::preflight(request.headers())
        } else {
            self.authenticate(request, connection).await
        };
        origin::allow_origin(&mut response, allowed_origin);
        response
    }

    /// Handles a request that another node has forwarded for a client it has authenticated.
    async fn handle_forwarded(
        self: &Arc<Self>,
        mut request: Request<Incoming>,
        connection: Arc<HttpConnection>,
    ) -> HttpResponse {
        let parts = (request.method(), request.uri(), request.headers());
        let verified = match &self.cluster {
            Some(cluster) => self.credentials.verify(cluster.keys(), cluster.epoch(), parts),
            None => Err(Refused::Forged),
        };
        let rejected = match verified {
            Ok(forwarded) => {
                let principal = forwarded.principal.clone();
                request.extensions_mut().insert(forwarded);
                return self.route(request, principal, connection).await;
            }
            Err(Refused::Misdirected) => {
                let details = "this is another node now; look it up again";
                rejection(StatusCode::MISDIRECTED_REQUEST, &RpcError::invalid_request(details))
            }
            Err(Refused::Forged) => {
                self.server.denied("http", Some(connection.peer), "node request");
                let error = RpcError::new(ACCESS_DENIED).details(
                    "The header Mcp-Flow-Node is for nodes of one cluster, and this one was not made \
                     with its keys for this request.",
                );
                rejection(StatusCode::FORBIDDEN, &error)
            }
        };
        discard(self, request.into_body());
        rejected
    }

    /// Serves the public endpoints, authenticates every other request, and routes it.
    async fn authenticate(
        self: &Arc<Self>,
        request: Request<Incoming>,
        connection: Arc<HttpConnection>,
    ) -> HttpResponse {
        let (method, path) = (request.method(), request.uri().path());
        // Pages are public: a page is what asks the user for a token.
        if let Some(pages) = self.operator.pages.as_deref()
            && let Some(page) = pages::serve(pages, method, path, request.headers())
        {
            return page;
        }
        if let Some(pages) = self.operator.visited_pages.as_deref()
            && let Some(page) = pages::visit(pages, method, request.uri())
        {
            discard(self, request.into_body());
            return page;
        }
        // An endpoint of the server may be public: it decides.
        if let Some((endpoint, rest)) = self.server.endpoint(path) {
            let rest = rest.to_owned();
            return endpoint::serve(self, endpoint, &rest, request, &connection).await;
        }
        if let Some(endpoint) = resource_metadata::endpoint_of(path)
            && let Some(terms) = self
                .access
                .token_requirements()
                .filter(|terms| resource_metadata::is_published(terms))
            && let Some(base) = self.base_url(request.headers())
        {
            let response = resource_metadata::serve(method, &terms, &base, endpoint);
            discard(self, request.into_body());
            return response;
        }
        let headers = request.headers();
        let addresses = Addresses {
            url: &|| Some(format!("{}{path}", self.base_url(headers)?)),
            metadata: &|| Some(resource_metadata::url(&self.base_url(headers)?, path)),
        };
        let (access, last_caller) = (&self.access, &connection.last_caller);
        match authentication::authenticate(access, method, headers, last_caller, &addresses).await {
            Ok(Authenticated { principal, next_nonce }) => {
                let expiring = self.access.requires_token().then(|| principal.clone());
                let mut response = self.route(request, principal, connection).await;
                authentication::add_nonce(&mut response, next_nonce);
                if let Some(principal) = expiring {
                    response.body_mut().end_when(async move { principal.invalidated().await });
                }
                response
            }
            Err(rejection) => {
                let reason = match rejection.status() {
                    StatusCode::UNAUTHORIZED => "token",
                    StatusCode::FORBIDDEN => "scope",
                    _ => "identity cannot be checked",
                };
                self.server.denied("http", Some(connection.peer), reason);
                discard(self, request.into_body());
                rejection
            }
        }
    }

    /// Routes an authenticated request to its endpoint.
    async fn route(
        self: &Arc<Self>,
        request: Request<Incoming>,
        principal: Principal,
        connection: Arc<HttpConnection>,
    ) -> HttpResponse {
        let path = request.uri().path();
        match (path, request.method()) {
            ("/mcp", _) => streamable::handle(self, request, principal).await,
            ("/ws", &Method::GET) => websocket::upgrade(self, request, principal, connection),
            ("/ws", _) => method_not_allowed("GET"),
            ("/metrics", _) if !self.may_read_metrics(&principal) => not_found(path),
            ("/metrics", &Method::GET) => {
                let sessions =
                    [("streamable", self.sessions.count()), ("sse", self.legacy_sessions.count())];
                let mut metrics = self.metrics.text(&sessions);
                for more in &self.operator.metrics {
                    metrics += &more.call().await;
                }
                text(StatusCode::OK, metrics)
            }
            ("/metrics", _) => method_not_allowed("GET"),
            (path, method) if path.starts_with(downloads::PATH) => {
                let token = &path[downloads::PATH.len()..];
                match self.node_of(token, request.headers()) {
                    Some((cluster, node)) => {
                        let (head, _) = request.into_parts();
                        let body = Bytes::new();
                        let relayed = RelayedRequest::new(&head, &body, &principal);
                        let relayed = relay::forward(cluster, node, relayed).await;
                        relayed.unwrap_or_else(|_| downloads::not_found())
                    }
                    None => self.downloads.serve(method, token, request.headers(), &principal),
                }
            }
            (path, _) if legacy_sse::is_endpoint(path) => {
                legacy_sse::handle(self, request, principal).await
            }
            (path, _) => {
                let response = not_found(path);
                discard(self, request.into_body());
                response
            }
        }
    }

    /// Returns the node that created an id, if it is another one and alive.
    pub(crate) fn node_of(
        &self,
        id: &str,
        headers: &HeaderMap,
    ) -> Option<(&Arc<dyn ClusterNodes>, u64)> {
        let cluster = self.cluster.as_ref().filter(|_| !is_forwarded(headers))?;
        let node = epoch_of(id).filter(|node| Some(*node) != cluster.epoch())?;
        cluster.find(node).map(|_| (cluster, node))
    }

    /// Returns who may use this listener.
    pub(crate) fn access(&self) -> &AccessPolicy {
        &self.access
    }

    /// Time for which the record of a session is kept after its last use.
    pub(crate) fn record_lifetime(&self) -> Duration {
        (self.options.session_idle_timeout * 2).max(Duration::from_secs(60))
    }

    /// Returns whether a principal may read metrics, which reveal the activity of everyone.
    fn may_read_metrics(&self, principal: &Principal) -> bool {
        self.server.permissions().is_none_or(|rules| rules.of(principal).metrics())
    }

    /// Opens a connection to the server, unless a connection hook vetoes it.
    pub(crate) fn connect(
        &self,
        transport: &'static str,
        session: Option<&str>,
        principal: Principal,
        headers: &HeaderMap,
    ) -> Result<Connection, HttpResponse> {
        let side_channel: Arc<dyn SideChannel> = self.links(headers);
        let side_channel = Some(side_channel);
        // Concurrent POSTs may overtake one another.
        let in_order = transport == "websocket";
        let session = session.map(Into::into);
        let common = ConnectionInfo::new(transport);
        let info = ConnectionInfo { session, principal, side_channel, in_order, ..common };
        self.server.connect(info).map_err(|veto| {
            let error = RpcError::new(ACCESS_DENIED).details(veto.to_string());
            rejection(StatusCode::FORBIDDEN, &error)
        })
    }

    /// Returns the URL under which the client reaches the server: the public URL of the options, or
    /// the Host header if it is safe to repeat.
    pub(crate) fn base_url(&self, headers: &HeaderMap) -> Option<String> {
        if let Some(url) = &self.options.public_url {
            return Some(url.trim_end_matches('/').to_owned());
        }
        let host = headers.get(HOST)?.to_str().ok()?;
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".:-[]".contains(&byte);
        host.bytes().all(is_plain).then(|| format!("{}://{host}", self.scheme))
    }

    /// Returns the maker of download links for the host that the client has named.
    fn links(&self, headers: &HeaderMap) -> Arc<Links> {
        let known = self.links.read().clone();
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
        *self.links.write() = links.clone();
        links
    }

    /// Ends all sessions once their running calls are done, and waits for that up to a limit.
    pub(crate) async fn drain(&self, limit: Duration) {
        self.tasks.draining().cancel();
        self.sessions.end_all();
        self.legacy_sessions.end_all();
        self.tasks.drain(limit).await;
    }
}

/// Builds a 404 response that lists the endpoints.
pub(crate) fn not_found(path: &str) -> HttpResponse {
    let details = format!(
        "nothing is at {path}; MCP is at /mcp, the older transport at /sse, WebSocket at /ws"
    );
    rejection(StatusCode::NOT_FOUND, &RpcError::invalid_request(&details))
}
