//! The transports of `mcp-flow serve`: HTTP and WebTransport on one port, newline-delimited JSON beside.
//!
//! Owns the sockets, from binding to the end of the last connection. The server that they serve, and the
//! parts of it that can change while it runs, belong to the command.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context as _;
use mcp_flow::http::{self, Tls};
use mcp_flow::identity::TokenVerifier;
use mcp_flow::observability::audit::Audit;
use mcp_flow::observability::metrics::Metrics;
use mcp_flow::seal::KeyRing;
use mcp_flow::session::Store;
use mcp_flow::{Interaction, Server, stdio, webtransport};
use mcp_flow_gateway::Gateway;
use mcp_flow_otlp::Telemetry;
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::command::serve::{bind_http, console, http_endpoints};
use crate::configuration::{File, ServeSection};
use crate::server::cluster::{self, StoreNodes};
use crate::server::metrics::{held_bytes, node_counts, session_counts};
use crate::server::readiness::Readiness;

/// Bound transports of a server.
pub(crate) struct Transports {
    pub(crate) http: http::Bound,
    webtransport: Option<webtransport::Bound>,
    lines: Vec<stdio::listen::Bound>,
    /// Their URLs and addresses by name.
    pub(crate) endpoints: Value,
}

/// Parts of a server that its transports show or ask.
pub(crate) struct ServerParts<'a> {
    pub(crate) server: &'a Server,
    pub(crate) verifier: Option<&'a Arc<TokenVerifier>>,
    pub(crate) gateway: Option<&'a Gateway>,
    pub(crate) audit: Option<&'a Audit>,
    pub(crate) metrics: Option<Metrics>,
    pub(crate) telemetry: Option<&'a Telemetry>,
    pub(crate) sessions: Option<&'a Interaction>,
    pub(crate) durable_store: Option<Arc<dyn Store>>,
    pub(crate) keys: Option<KeyRing>,
}

impl Transports {
    /// Binds all addresses before any is served, so that a conflict is reported at once.
    pub(crate) async fn bind(file: &File, parts: ServerParts<'_>) -> anyhow::Result<Self> {
        let ServeSection { listen, tls_certificate, tls_key, hosts, .. } = &file.serve;
        let tls = match (tls_certificate, tls_key) {
            (Some(certificate), Some(key)) => Tls::from_pem(certificate, key)?,
            _ => Tls::self_signed(hosts)?,
        };
        let tls = Arc::new(tls);
        let (http, webtransport) = bind(*listen, file.serve.webtransport.then_some(&tls)).await?;
        let mut http = http.options(http::Options {
            hosts: hosts.clone(),
            origins: file.serve.allow_origins.clone(),
            public_url: file.serve.public_url.clone(),
            server_card: file.serve.card()?,
            ..file.limits.http()
        });
        let mut webtransport = webtransport.map(|bound| {
            bound.options(webtransport::Options {
                hosts: hosts.clone(),
                origins: file.serve.allow_origins.clone(),
                ..file.limits.webtransport()
            })
        });
        if let Some(verifier) = parts.verifier {
            http = http.verifier(verifier.clone());
            webtransport = webtransport.map(|bound| bound.verifier(verifier.clone()));
        }
        let is_encrypted = tls_certificate.is_some();
        if is_encrypted {
            http = http.tls(tls.clone())?;
        }
        if file.serve.console {
            http = http.pages(console(webtransport.as_ref().map(|_| tls)));
        }
        let mut endpoints = http_endpoints(http.address(), is_encrypted);
        if let Some(bound) = &webtransport {
            endpoints["webtransport"] = bound.url().into();
            endpoints["certificateHash"] = bound.certificate_fingerprint().into();
            let counts = bound.datagram_counts();
            http = http.metrics(move || std::future::ready(counts.text()));
        }
        let lines = bind_lines(&file.serve, &mut endpoints).await?;
        let http = parts.add_to(http, &file.serve).await?;
        Ok(Self { http, webtransport, lines, endpoints })
    }

    /// Serves clients until `signal` completes, and then until the last connection has ended.
    pub(crate) async fn serve(self, server: &Server, signal: impl Future<Output = ()>) {
        let (stop, stopped) = watch::channel(false);
        let mut tasks = JoinSet::new();
        for bound in self.lines {
            let (server, stopped) = (server.clone(), wait_for_stop(stopped.clone()));
            tasks.spawn(async move { bound.serve(&server, stopped).await });
        }
        if let Some(bound) = self.webtransport {
            let (server, stopped) = (server.clone(), wait_for_stop(stopped.clone()));
            tasks.spawn(async move { bound.serve(&server, stopped).await });
        }
        let (http, server) = (self.http, server.clone());
        tasks.spawn(async move { http.serve(&server, wait_for_stop(stopped)).await });
        signal.await;
        stop.send_replace(true);
        tasks.join_all().await;
    }
}

impl ServerParts<'_> {
    /// Adds metrics, readiness and the other nodes to the HTTP transports.
    async fn add_to(
        self,
        mut http: http::Bound,
        serve: &ServeSection,
    ) -> anyhow::Result<http::Bound> {
        let load = self.server.load().clone();
        http = http.metrics(move || std::future::ready(held_bytes(&load)));
        if let Some(gateway) = self.gateway.cloned() {
            http = http.metrics(move || std::future::ready(gateway.metrics()));
        }
        if let Some(metrics) = self.metrics {
            http = http.metrics(move || std::future::ready(metrics.text()));
        }
        if let Some(metrics) = self.telemetry.map(Telemetry::metrics) {
            http = http.metrics(move || std::future::ready(metrics()));
        }
        if let Some(sessions) = self.sessions.cloned() {
            http = http.metrics(move || session_counts(sessions.clone()));
        }
        let engine = self.sessions.map(|sessions| sessions.engine().clone());
        let readiness = Readiness::new(self.durable_store, self.audit.cloned(), engine);
        http = http.readiness(move || readiness.clone().check());
        match self.sessions.zip(self.keys) {
            Some((sessions, keys)) => join_nodes(http, serve, sessions, keys, self.server).await,
            None => Ok(http),
        }
    }
}

/// Joins the other nodes of the session store, if it can have any.
async fn join_nodes(
    http: http::Bound,
    serve: &ServeSection,
    sessions: &Interaction,
    keys: KeyRing,
    server: &Server,
) -> anyhow::Result<http::Bound> {
    let Some(member) = sessions.engine().cluster() else { return Ok(http) };
    let is_encrypted = serve.tls_certificate.is_some();
    if let Some(url) = cluster::node_url(serve.node_url.as_deref(), http.address(), is_encrypted) {
        member.set_url(url);
    }
    let counted = member.clone();
    let http = http.metrics(move || std::future::ready(node_counts(&counted)));
    let nodes = Arc::new(StoreNodes::new(member.clone(), keys)?);
    nodes.connect(server);
    // Before anyone connects, so that the ids of all sessions name this node.
    if !member.joined().await {
        tracing::warn!("the session store does not answer; sessions are not available yet");
    }
    Ok(http.cluster(nodes))
}

/// Takes one port number for TCP and UDP. Where any will do, one is looked for that is free for
/// both.
async fn bind(
    address: SocketAddr,
    tls: Option<&Arc<Tls>>,
) -> anyhow::Result<(http::Bound, Option<webtransport::Bound>)> {
    let mut tries = if address.port() == 0 { 16 } else { 1 };
    loop {
        tries -= 1;
        let http = bind_http(address).await?;
        let Some(tls) = tls else { return Ok((http, None)) };
        match webtransport::bind(http.address(), tls.clone()) {
            Ok(bound) => return Ok((http, Some(bound))),
            Err(_) if tries > 0 => {}
            Err(error) => {
                anyhow::bail!("{error}. Use --no-webtransport to disable WebTransport");
            }
        }
    }
}

/// Binds the addresses of newline-delimited JSON, and adds them to the endpoints.
async fn bind_lines(
    serve: &ServeSection,
    endpoints: &mut Value,
) -> anyhow::Result<Vec<stdio::listen::Bound>> {
    let mut lines = Vec::new();
    if let Some(address) = serve.tcp {
        let bound = stdio::listen::tcp(address).await;
        let bound = bound.with_context(|| format!("cannot listen on TCP {address}"))?;
        endpoints["tcp"] = bound.address().map(|address| address.to_string()).into();
        lines.push(bound);
    }
    if let Some(path) = &serve.unix {
        endpoints["unix"] = path.display().to_string().into();
        let bound = stdio::listen::unix(path).await;
        let problem = || format!("cannot create the Unix socket {}", path.display());
        lines.push(bound.with_context(problem)?);
    }
    Ok(lines)
}

/// Completes when the server is to stop.
async fn wait_for_stop(mut stopped: watch::Receiver<bool>) {
    // Cannot fail: the sender lives until all have stopped.
    let _ = stopped.wait_for(|stopped| *stopped).await;
}
