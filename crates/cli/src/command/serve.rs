//! `mcp-flow serve`: serves HTTP and WebTransport clients on one port.

use std::io::{ErrorKind, IsTerminal as _};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use mcp_flow::admin::Admin;
use mcp_flow::console::Console;
use mcp_flow::http::{self, Tls};
use mcp_flow::identity::TokenVerifier;
use mcp_flow::observability::audit::Audit;
use mcp_flow::observability::metrics::Metrics;
use mcp_flow::seal::KeyRing;
use mcp_flow::session::Store;
use mcp_flow::workflow::LibraryWatcher;
use mcp_flow::{Interaction, Permissions, Principal, Server, ServerBuilder, stdio, webtransport};
use mcp_flow_cassette::{Recorder, cassette_of_exchanges};
use mcp_flow_declarative::document::FolderWatcher;
use mcp_flow_gateway::Gateway;
use mcp_flow_otlp::Telemetry;
use serde_json::{Value, json};

use crate::arguments::LogOptions;
use crate::configuration::{File, ServeSection, origin, socket_address};
use crate::exit::{Exit, Failure};
use crate::log;
use crate::platform::ReloadSignal;
use crate::server::cluster::parse_node_url;
use crate::server::offer::{Exposure, OfferOptions, OfferedServer};
use crate::server::recording::{self, RecordingTap};
use crate::server::reload::Reloader;
use crate::server::transports::{ServerParts, Transports};
use crate::server::user_logins::{ReturnTo, UserLogins};
use crate::server::welcome::welcome;
use crate::server::{access, build, gateway, telemetry, tool_files, workflows};

/// Serve clients over Streamable HTTP, HTTP+SSE, WebSocket and WebTransport on one port
#[derive(Debug, clap::Args)]
pub(crate) struct Serve {
    /// Configuration file (TOML); command-line options take precedence
    ///
    /// SIGHUP reloads it. `mcp-flow config check` validates it.
    #[arg(long, value_name = "FILE", env = "MCP_FLOW_CONFIG")]
    config: Option<PathBuf>,

    /// Address to listen on; port 0 selects a free one [default: 127.0.0.1:4433]
    #[arg(long, value_name = "ADDRESS", help_heading = "Network", value_parser = socket_address)]
    listen: Option<SocketAddr>,

    /// Print all endpoints as one line of JSON when ready
    #[arg(long)]
    json: bool,

    /// Allow a public address without TLS and authentication, for example behind a proxy
    #[arg(long, help_heading = "TLS")]
    insecure: bool,

    /// PEM file with the certificate chain; reloaded when it changes
    #[arg(long, value_name = "FILE", requires = "tls_key", help_heading = "TLS")]
    tls_certificate: Option<PathBuf>,

    /// PEM file with the private key of the certificate
    #[arg(long, value_name = "FILE", requires = "tls_certificate", help_heading = "TLS")]
    tls_key: Option<PathBuf>,

    /// Require a bearer token listed in this file, one NAME:TOKEN per line
    #[arg(long, value_name = "FILE", help_heading = "Authentication")]
    token_file: Option<PathBuf>,

    /// Principal that may call the admin methods; may be repeated
    /// [default: everyone, if authentication is disabled and the address is local]
    #[arg(long = "admin", value_name = "NAME", help_heading = "Authentication")]
    admins: Vec<String>,

    /// Do not serve the web console at /
    #[arg(long, help_heading = "Content")]
    no_console: bool,

    /// Host name to accept besides those of this machine; may be repeated
    #[arg(long = "allow-host", alias = "host", value_name = "NAME", help_heading = "Network")]
    hosts: Vec<String>,

    /// Web origin (scheme, host and port) that may access the server from a browser; may be repeated
    #[arg(long = "allow-origin", value_name = "ORIGIN", value_parser = origin)]
    #[arg(help_heading = "Network")]
    origins: Vec<String>,

    /// Public URL of this server, for links of flows, and download links behind a proxy
    #[arg(long, value_name = "URL", help_heading = "Network")]
    public_url: Option<String>,

    /// URL at which other nodes with the same session store reach this one
    /// [default: the address, unless it is a wildcard]
    ///
    /// Nodes forward requests for MCP sessions and downloads of one another (docs/cluster.md).
    #[arg(long, value_name = "URL", help_heading = "Network", value_parser = parse_node_url)]
    node_url: Option<String>,

    /// Disable WebTransport, which uses the UDP port
    #[arg(long, help_heading = "Network")]
    no_webtransport: bool,

    /// Also serve newline-delimited JSON on this TCP address
    #[arg(long, value_name = "ADDRESS", help_heading = "Network", value_parser = socket_address)]
    tcp: Option<SocketAddr>,

    /// Also serve newline-delimited JSON on a Unix socket at this path
    #[arg(long, alias = "unix", value_name = "PATH", help_heading = "Network")]
    unix_socket: Option<PathBuf>,

    /// Time for running calls to finish after a stop signal, in seconds [default: 30]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(0..=86_400))]
    #[arg(help_heading = "Network")]
    drain_seconds: Option<u64>,

    /// Write an audit log of all calls to this file
    #[arg(long, alias = "audit", value_name = "FILE", help_heading = "Logging")]
    audit_log: Option<PathBuf>,

    /// Record all messages to a new file in this directory, a cassette, with secrets masked
    #[arg(long, value_name = "DIR", help_heading = "Logging")]
    record: Option<PathBuf>,

    /// Mask the values of members with this name in the recording, besides passwords, tokens, keys and the
    /// like; may be repeated
    #[arg(long = "mask", value_name = "NAME", requires = "record", help_heading = "Logging")]
    masked: Vec<String>,

    #[command(flatten)]
    offer: OfferOptions,

    /// Welcome a person at the terminal; set if the program was started without arguments.
    #[arg(skip)]
    welcomes: bool,
}

impl Serve {
    /// Welcomes a person at the terminal, who has named no command.
    pub(crate) fn with_welcome(self) -> Self {
        Self { welcomes: true, ..self }
    }

    pub(crate) fn run(mut self, log: LogOptions) -> anyhow::Result<ExitCode> {
        let mut file = File::read_or_default(self.config.as_deref())?;
        log::apply(log, &file.log);
        let read = file.clone();
        self.apply_to(&mut file.serve);
        file.identity.token_file = self.token_file.clone().or(file.identity.token_file);
        file.audit.file = self.audit_log.take().or(file.audit.file);
        let mut offer =
            std::mem::take(&mut self.offer).or(file.offer.clone(), file.sessions.clone());
        if file.serve.public_addresses().next().is_some() {
            offer = offer.for_public_address();
        }
        check_exposure(&file)?;
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let telemetry = telemetry::start(&file.telemetry);
        let served = runtime.block_on(self.serve(file, read, offer, log, telemetry.as_ref()));
        if let Some(telemetry) = telemetry {
            telemetry.stop();
        }
        served.map(|()| ExitCode::SUCCESS)
    }

    /// Applies the command-line options to the configuration. Lists are joined.
    fn apply_to(&mut self, serve: &mut ServeSection) {
        serve.listen = self.listen.unwrap_or(serve.listen);
        serve.insecure |= self.insecure;
        if self.tls_certificate.is_some() {
            serve.tls_certificate = self.tls_certificate.take();
            serve.tls_key = self.tls_key.take();
        }
        serve.hosts.append(&mut self.hosts);
        serve.allow_origins.append(&mut self.origins);
        serve.public_url = self.public_url.take().or(serve.public_url.take());
        serve.node_url = self.node_url.take().or(serve.node_url.take());
        serve.console &= !self.no_console;
        serve.webtransport &= !self.no_webtransport;
        serve.tcp = self.tcp.or(serve.tcp);
        serve.unix = self.unix_socket.take().or(serve.unix.take());
        serve.drain_seconds = self.drain_seconds.unwrap_or(serve.drain_seconds);
    }

    /// Decides who may call the admin methods. Without authentication and on a local address that is
    /// everyone; otherwise the principals that `--admin` or a permission rule names.
    fn admins(
        &self,
        file: &File,
        permissions: Option<&Permissions>,
    ) -> impl Fn(&Principal) -> bool + Clone + use<> {
        let is_private = file.serve.public_addresses().next().is_none();
        let everyone = !file.identity.is_configured() && is_private;
        let (admins, permissions) = (self.admins.clone(), permissions.cloned());
        move |principal: &Principal| {
            let is_local = *principal == Principal::local();
            let is_granted =
                || permissions.as_ref().is_some_and(|rules| rules.of(principal).admin());
            (everyone && is_local)
                || admins.iter().any(|name| name == principal.name())
                || is_granted()
        }
    }

    /// Serves until a signal stops it. `read` is the file without the options of the command line.
    async fn serve(
        self,
        file: File,
        read: File,
        offer: OfferOptions,
        log: LogOptions,
        telemetry: Option<&Telemetry>,
    ) -> anyhow::Result<()> {
        let verifier = access::token_verifier(&file)?;
        // Without a file there are no rules to check on every call.
        let permissions = self.config.as_ref().map(|_| access::permissions(&file));
        let drain_seconds = self.drain_seconds;
        // The addresses do not change when the file is reloaded.
        let is_public = file.serve.public_addresses().next().is_some();
        let limits = move |offer: &OfferOptions, file: &File| {
            let drain = drain_seconds.unwrap_or(file.serve.drain_seconds);
            offer.limits(file.limits.limits(drain, is_public), false)
        };
        let gateway_file = offer.gateway.clone();
        let logins = UserLogins::new(offer.store());
        let gateway = gateway::open(&offer, &file, self.config.is_some(), &logins)?;
        if logins.are_used() && is_public && verifier.is_none() {
            let problem = "`auth = \"user\"` needs to know the users of this server: on a public \
                           address, require authentication with --token-file or [identity]";
            return Err(Failure::new(Exit::Usage, problem).into());
        }
        let offered = offer.server(limits(&offer, &file), Exposure::Network, gateway.as_ref())?;
        let built =
            self.build(&file, offered, permissions.as_ref(), gateway.as_ref(), telemetry)?;
        let BuiltServer { server, admin, sessions, audit, recorder, .. } = built;
        let signal = stdio::stop_signal().context("cannot listen for signals")?;
        // Before the server is announced, since SIGHUP may be sent from then on.
        let hangup = ReloadSignal::listen().context("cannot listen for SIGHUP")?;
        let reload = Reloader {
            path: self.config.clone(),
            file: read,
            log,
            token_file: self.token_file.clone(),
            limits: Box::new(move |file| limits(&offer, file)),
            verifier: verifier.clone(),
            permissions,
            audit: audit.clone(),
            server: server.clone(),
            gateway: gateway.clone(),
            gateway_file,
            logins: logins.clone(),
        };
        if let Some(verifier) = &verifier {
            verifier.wait_for_fresh_proofs().await;
        }
        let parts = ServerParts {
            server: &server,
            verifier: verifier.as_ref(),
            gateway: gateway.as_ref(),
            audit: audit.as_ref(),
            metrics: built.metrics,
            telemetry,
            sessions: sessions.as_ref(),
            durable_store: built.durable_store,
            keys: built.keys,
        };
        let mut transports = Transports::bind(&file, parts).await?;
        let is_encrypted = file.serve.tls_certificate.is_some();
        let address = transports.http.address();
        if let Some(target) = ReturnTo::server(&file.serve, address, is_encrypted) {
            logins.return_to(target);
        }
        transports.http = transports.http.visited_pages(logins);
        transports.endpoints["pid"] = std::process::id().into();
        // Interrupted sessions continue now, without waiting for a client.
        if let Some(sessions) = &sessions {
            sessions.engine().start_maintenance();
        }
        if let Some(gateway) = &gateway {
            gateway.recover();
        }
        admin.describe(json!({"places": transports.endpoints, "store": built.store}));
        self.announce(&file.serve, &server, &transports.endpoints).await?;
        let background = tokio::spawn(refresh(reload, hangup, verifier));
        let stopped = async {
            signal.await;
            background.abort();
        };
        transports.serve(&server, stopped).await;
        close(&server, gateway, audit, recorder).await;
        Ok(())
    }

    /// Builds the server with all that observes and administers it.
    fn build(
        &self,
        file: &File,
        offered: OfferedServer,
        permissions: Option<&Permissions>,
        gateway: Option<&Gateway>,
        telemetry: Option<&Telemetry>,
    ) -> anyhow::Result<BuiltServer> {
        let is_admin = self.admins(file, permissions);
        let admin = Admin::new(is_admin.clone());
        let admin = match &offered.sessions {
            Some(sessions) => admin.sessions_of(sessions),
            None => admin,
        };
        let (server, audit) = build::configure(offered.server, file, permissions, telemetry)?;
        let metrics = file.metrics.calls.then(|| Metrics::new(file.metrics.tools));
        let server = admin.add_to(server);
        admin.cassettes(cassette_of_exchanges);
        let recorder = self.record.as_deref();
        let recorder = recorder.map(|folder| recording::start(folder, &self.masked)).transpose()?;
        let server = add_observers(server, recorder.as_ref(), metrics.as_ref());
        let server = match gateway {
            Some(gateway) => gateway.administered_by(gateway.add_to(server), is_admin),
            None => server,
        };
        let server = server.build()?;
        if let Some(gateway) = gateway {
            gateway.attach(&server);
        }
        let workflow_watcher = workflows::watch_files(&offered.workflows, &server);
        let tool_watcher = offered.tools.as_ref().and_then(|tools| {
            let library = tools.library.clone();
            admin.tool_files(move || tool_files::describe(&library));
            tools.attach(&server)
        });
        let OfferedServer { sessions, durable_store, store, keys, .. } = offered;
        Ok(BuiltServer {
            server,
            admin,
            sessions,
            durable_store,
            store,
            keys,
            audit,
            metrics,
            recorder,
            _watchers: (workflow_watcher, tool_watcher),
        })
    }

    /// Announces that the server is ready: with its startup message, if a person started it.
    async fn announce(
        &self,
        serve: &ServeSection,
        server: &Server,
        endpoints: &Value,
    ) -> anyhow::Result<()> {
        if !self.welcomes || !serve.console || !std::io::stderr().is_terminal() {
            return announce(endpoints, self.json);
        }
        let columns = terminal_size::terminal_size_of(std::io::stderr());
        let columns = columns.map(|(terminal_size::Width(columns), _)| columns);
        eprintln!("{}", welcome(server, endpoints, columns).await);
        Ok(())
    }
}

/// A server that no transport serves yet, and what is stopped or shown with it.
struct BuiltServer {
    server: Server,
    admin: Admin,
    sessions: Option<Interaction>,
    durable_store: Option<Arc<dyn Store>>,
    store: String,
    keys: Option<KeyRing>,
    audit: Option<Audit>,
    metrics: Option<Metrics>,
    recorder: Option<Recorder>,
    /// Watchers of workflow and tool files, which end when they are dropped.
    _watchers: (Option<LibraryWatcher>, Option<FolderWatcher>),
}

/// Rejects a public address of a command that has no authentication, unless it is explicitly allowed.
pub(crate) fn check_public(listen: SocketAddr, insecure: bool) -> anyhow::Result<()> {
    if listen.ip().is_loopback() || insecure {
        return Ok(());
    }
    anyhow::bail!("{listen} is public; listen on 127.0.0.1, or pass --insecure to allow it")
}

/// Rejects a public address without TLS or authentication, unless that is explicitly allowed.
pub(crate) fn check_exposure(file: &File) -> anyhow::Result<()> {
    let ServeSection { insecure, tls_certificate, listen, tcp, .. } = &file.serve;
    let is_public = |address: &SocketAddr| !address.ip().is_loopback();
    if let Some(public) = tcp.filter(is_public)
        && file.identity.is_configured()
    {
        anyhow::bail!(
            "the TCP address {public} is public, and newline-delimited JSON over TCP has no \
             authentication.\n\
             Use a loopback address or a Unix socket for it, and HTTP for remote clients."
        );
    }
    if *insecure {
        if let Some(public) = file.serve.public_addresses().next()
            && !file.identity.is_configured()
        {
            tracing::warn!("{public} is public, and authentication is disabled");
        }
        return Ok(());
    }
    let unencrypted = Some(*listen).filter(|_| tls_certificate.is_none());
    if let Some(public) = [unencrypted, *tcp].into_iter().flatten().find(is_public) {
        anyhow::bail!(
            "{public} is public, and TLS is disabled.\n\
             Configure a certificate with --tls-certificate and --tls-key, listen on 127.0.0.1, or \
             use --insecure if a proxy provides TLS."
        );
    }
    if let Some(public) = file.serve.public_addresses().next()
        && !file.identity.is_configured()
        && !file.identity.anonymous
    {
        anyhow::bail!(
            "{public} is public, and authentication is disabled.\n\
             Configure [identity] (see docs/configuration.md), list tokens with --token-file, or set \
             identity.anonymous = true to accept clients without authentication."
        );
    }
    if file.identity.anonymous
        && file.offer.interaction
        && file.serve.public_addresses().next().is_some()
    {
        tracing::warn!(
            "with identity.anonymous all clients share one principal, and can see and answer each \
             other's sessions; set offer.interaction = false, or use tokens"
        );
    }
    Ok(())
}

/// The console, which tells browsers by which certificate they know the server; in a debug build
/// from a folder, if that is named, so that it can be worked on.
pub(crate) fn console(tls: Option<Arc<Tls>>) -> Console {
    let console = Console::default().connect(move || match &tls {
        Some(tls) => {
            // Browsers accept a hash for self-signed certificates only.
            let hashes = tls.is_self_signed().then(|| tls.fingerprint());
            let hashes = hashes.into_iter().collect::<Vec<_>>();
            json!({"webtransport": {"url": webtransport::PATH, "certificateHashes": hashes}})
        }
        None => json!({}),
    });
    match std::env::var_os("MCP_FLOW_CONSOLE").filter(|_| cfg!(debug_assertions)) {
        Some(folder) => console.from_folder(folder.into()),
        None => console,
    }
}

/// Adds the recorder and the metrics of calls.
fn add_observers(
    server: ServerBuilder,
    recorder: Option<&Recorder>,
    metrics: Option<&Metrics>,
) -> ServerBuilder {
    let server = match recorder {
        Some(recorder) => server.tap(RecordingTap(recorder.clone())),
        None => server,
    };
    match metrics {
        Some(metrics) => metrics.add_to(server),
        None => server,
    }
}

/// Reloads the configuration on SIGHUP, and refreshes the keys of token issuers.
async fn refresh(reload: Reloader, hangup: ReloadSignal, verifier: Option<Arc<TokenVerifier>>) {
    let refresh_keys = async {
        match &verifier {
            Some(verifier) => verifier.refresh_keys().await,
            None => std::future::pending().await,
        }
    };
    tokio::join!(reload.run(hangup), refresh_keys);
}

/// Ends everything that runs beside the transports, after the last connection.
async fn close(
    server: &Server,
    gateway: Option<Gateway>,
    audit: Option<Audit>,
    recorder: Option<Recorder>,
) {
    // Before the gateway, which steps may use.
    server.shutdown().await;
    if let Some(gateway) = gateway {
        gateway.close().await;
    }
    if let Some(audit) = audit {
        audit.close();
    }
    if let Some(recorder) = recorder {
        recording::finish(&recorder);
    }
}

/// Takes a port for HTTP.
pub(crate) async fn bind_http(address: SocketAddr) -> anyhow::Result<http::Bound> {
    http::bind(address).await.map_err(|error| match error.source.kind() {
        ErrorKind::AddrInUse => anyhow::anyhow!(
            "cannot listen on {address}: another program does; stop it, or pass --listen {}:0 for a \
             free port",
            address.ip()
        ),
        _ => error.into(),
    })
}

/// Returns the endpoints of the HTTP transports.
pub(crate) fn http_endpoints(address: SocketAddr, is_encrypted: bool) -> Value {
    let s = if is_encrypted { "s" } else { "" };
    json!({
        "http": format!("http{s}://{address}/"),
        "mcp": format!("http{s}://{address}/mcp"),
        "sse": format!("http{s}://{address}/sse"),
        "websocket": format!("ws{s}://{address}/ws"),
    })
}

/// Announces that the server is ready: to people on standard error, to programs on standard output.
pub(crate) fn announce(endpoints: &Value, as_json: bool) -> anyhow::Result<()> {
    if as_json {
        return print_line(endpoints);
    }
    eprintln!("mcp-flow is ready. Press ctrl-c to stop.");
    for (name, title) in [
        ("http", "Console"),
        ("mcp", "Streamable HTTP"),
        ("sse", "HTTP+SSE"),
        ("websocket", "WebSocket"),
        ("webtransport", "WebTransport"),
        ("certificateHash", "  certificate"),
        ("tcp", "TCP"),
        ("unix", "Unix socket"),
    ] {
        if let Some(endpoint) = endpoints[name].as_str() {
            eprintln!("  {title:<16} {endpoint}");
        }
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "no client is served on standard output here")]
pub(crate) fn print_line(line: &Value) -> anyhow::Result<()> {
    use std::io::Write;
    let mut out = std::io::stdout();
    writeln!(out, "{line}").and_then(|()| out.flush()).context("cannot write to standard output")
}
