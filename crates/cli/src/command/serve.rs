//! `mcp-flow serve`: one port for every client that speaks HTTP or WebTransport.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use mcp_flow::admin::Admin;
use mcp_flow::console::Console;
use mcp_flow::http::{self, Tls};
use mcp_flow::observability::CallLog;
use mcp_flow::observability::metrics::Metrics;
use mcp_flow::{Permissions, Principal, stdio, webtransport};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::arguments::LogOptions;
use crate::configuration::{File, ServeSection, origin};
use crate::figures::{conversations, held};
use crate::offer::{Door, Offer};
use crate::readiness::Readiness;
use crate::reload::Reload;
use crate::{guarded, log, reload, workflows};

/// Serve clients over Streamable HTTP, HTTP+SSE, WebSocket and WebTransport on one port
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Serve {
    /// Configuration file (TOML). Command-line options take precedence
    ///
    /// SIGHUP has it read again. `mcp-flow config` checks and shows it.
    #[arg(long, value_name = "FILE", env = "MCP_FLOW_CONFIG")]
    config: Option<PathBuf>,

    /// Address to listen on; port 0 picks a free one [default: 127.0.0.1:4433]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,

    /// Print where everything is, as one line of JSON, when ready
    #[arg(long)]
    json: bool,

    /// Listen on an address others can reach without encryption, and without asking who they are
    #[arg(long)]
    insecure: bool,

    /// Encrypt with the certificate chain in this PEM file; it may be renewed while running
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_certificate: Option<PathBuf>,

    /// The private key of the certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_key: Option<PathBuf>,

    /// Require a bearer token listed in this file: one NAME:TOKEN a line
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,

    /// Who may see all sessions, traffic and figures, by the name of their token; without tokens
    /// and on 127.0.0.1 everyone may
    #[arg(long = "admin", value_name = "NAME")]
    admins: Vec<String>,

    /// Serve no console at /
    #[arg(long)]
    no_console: bool,

    /// Another host name to answer to, besides those of this machine
    #[arg(long = "host", value_name = "NAME")]
    hosts: Vec<String>,

    /// An origin whose pages may speak to the server from a browser, such as `https://app.example`
    #[arg(long = "allow-origin", value_name = "ORIGIN", value_parser = origin)]
    origins: Vec<String>,

    /// Where clients find this server if not at the host they name, for links to downloads
    #[arg(long, value_name = "URL")]
    public_url: Option<String>,

    /// Do not open the UDP port for WebTransport
    #[arg(long)]
    no_webtransport: bool,

    /// Also serve one message per line on this TCP address
    #[arg(long, value_name = "ADDRESS")]
    tcp: Option<SocketAddr>,

    /// Also serve one message per line on a Unix socket at this path
    #[arg(long, value_name = "PATH")]
    unix: Option<PathBuf>,

    /// How long running calls may take to finish after a stop signal [default: 30]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(0..=86_400))]
    drain_seconds: Option<u64>,

    /// Write an audit log of all calls to this file
    #[arg(long, value_name = "FILE")]
    audit: Option<PathBuf>,

    #[command(flatten)]
    offer: Offer,
}

impl Serve {
    pub(crate) fn run(mut self, log: LogOptions) -> anyhow::Result<ExitCode> {
        let mut file = File::read_or_default(self.config.as_deref())?;
        log::follow(log, &file.log);
        let read = file.clone();
        self.add_to(&mut file.serve);
        file.identity.token_file = self.token_file.clone().or(file.identity.token_file);
        file.audit.file = self.audit.take().or(file.audit.file);
        let mut offer =
            std::mem::take(&mut self.offer).or(file.offer.clone(), file.sessions.clone());
        if file.serve.open_addresses().next().is_some() {
            offer = offer.within_reach();
        }
        refuse_open(&file)?;
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(self.serve(file, read, offer, log))?;
        Ok(ExitCode::SUCCESS)
    }

    /// Puts what the command line says over what the file says. Lists add up.
    fn add_to(&mut self, serve: &mut ServeSection) {
        serve.listen = self.listen.unwrap_or(serve.listen);
        serve.insecure |= self.insecure;
        if self.tls_certificate.is_some() {
            serve.tls_certificate = self.tls_certificate.take();
            serve.tls_key = self.tls_key.take();
        }
        serve.hosts.append(&mut self.hosts);
        serve.allow_origins.append(&mut self.origins);
        serve.public_url = self.public_url.take().or(serve.public_url.take());
        serve.console &= !self.no_console;
        serve.webtransport &= !self.no_webtransport;
        serve.tcp = self.tcp.or(serve.tcp);
        serve.unix = self.unix.take().or(serve.unix.take());
        serve.drain_seconds = self.drain_seconds.unwrap_or(serve.drain_seconds);
    }

    /// Everyone on this machine may look after a server that asks nobody who they are; otherwise
    /// only those who are named may, or to whom a rule gives it.
    fn admin(&self, file: &File, permissions: Option<&Permissions>) -> Admin {
        let is_private = file.serve.open_addresses().next().is_none();
        let everyone = !file.identity.is_configured() && is_private;
        let (admins, permissions) = (self.admins.clone(), permissions.cloned());
        Admin::new(move |principal| {
            let is_local = *principal == Principal::local();
            let is_given = || permissions.as_ref().is_some_and(|rules| rules.of(principal).admin());
            (everyone && is_local)
                || admins.iter().any(|name| name == principal.name())
                || is_given()
        })
    }

    /// Takes all addresses before it serves any, so that what cannot be had is known at once.
    /// `read` is what the file said before the command line had its say.
    async fn serve(
        self,
        file: File,
        read: File,
        offer: Offer,
        log: LogOptions,
    ) -> anyhow::Result<()> {
        let verifier = guarded::token_verifier(&file)?;
        // Without a file there will never be rules, and nothing to look at with every call.
        let permissions = self.config.as_ref().map(|_| guarded::permissions(&file));
        let drain_seconds = self.drain_seconds;
        // By the addresses that are served, whatever a file says that is read later.
        let is_open = file.serve.open_addresses().next().is_some();
        let limits = move |offer: &Offer, file: &File| {
            let drain = drain_seconds.unwrap_or(file.serve.drain_seconds);
            offer.limits(file.limits.limits(drain, is_open), false)
        };
        let offered = offer.server(limits(&offer, &file), Door::Open)?;
        let admin = self.admin(&file, permissions.as_ref());
        let admin = match &offered.sessions {
            Some(sessions) => admin.sessions_of(sessions),
            None => admin,
        };
        let server = match &permissions {
            Some(permissions) => offered.server.permissions(permissions.clone()),
            None => offered.server,
        };
        let server = match file.signing.signing()? {
            Some(signing) => server.signing(signing),
            None => server,
        };
        let audit = file.audit.open()?;
        let server = server.observer(CallLog);
        let server = match &audit {
            Some(audit) => server.observer(audit.clone()),
            None => server,
        };
        let metrics = file.metrics.calls.then(|| Metrics::new(file.metrics.tools));
        let server = admin.add_to(server);
        let server = match &metrics {
            Some(metrics) => metrics.add_to(server),
            None => server,
        };
        let server = server.build()?;
        let _following = workflows::follow(&offered.workflows, &server);
        let signal = stdio::stop_signal().context("signals cannot be watched")?;
        let hangup = reload::watch().context("SIGHUP cannot be watched")?;
        let reload = Reload {
            path: self.config.clone(),
            file: read,
            log,
            token_file: self.token_file.clone(),
            limits: Box::new(move |file| limits(&offer, file)),
            verifier: verifier.clone(),
            permissions,
            audit: audit.clone(),
            server: server.clone(),
        };
        let ServeSection { listen, tls_certificate, tls_key, hosts, .. } = &file.serve;
        let tls = match (tls_certificate, tls_key) {
            (Some(certificate), Some(key)) => Tls::from_pem(certificate, key)?,
            _ => Tls::self_signed(hosts)?,
        };
        let tls = Arc::new(tls);
        let (http, flow) = bind(*listen, file.serve.webtransport.then_some(&tls)).await?;
        let (hosts, origins) = (hosts.clone(), file.serve.allow_origins.clone());
        let mut http = http.options(http::Options {
            hosts: hosts.clone(),
            origins: origins.clone(),
            public_url: file.serve.public_url.clone(),
            ..file.limits.http()
        });
        let load = server.load().clone();
        http = http.metrics(move || std::future::ready(held(&load)));
        if let Some(metrics) = metrics {
            http = http.metrics(move || std::future::ready(metrics.text()));
        }
        let readiness = Readiness::new(offered.kept.clone(), audit.clone());
        http = http.readiness(move || readiness.clone().check());
        let mut flow = flow.map(|flow| {
            let limits = file.limits.webtransport();
            flow.options(webtransport::Options { hosts, origins, ..limits })
        });
        if let Some(counts) = flow.as_ref().map(webtransport::Bound::datagram_counts) {
            http = http.metrics(move || std::future::ready(counts.text()));
        }
        if let Some(verifier) = &verifier {
            http = http.verifier(verifier.clone());
            flow = flow.map(|flow| flow.verifier(verifier.clone()));
        }
        let is_encrypted = file.serve.tls_certificate.is_some();
        if is_encrypted {
            http = http.tls(tls.clone())?;
        }
        if file.serve.console {
            http = http.pages(console(flow.as_ref().map(|_| tls)));
        }
        if let Some(sessions) = &offered.sessions {
            let sessions = sessions.clone();
            http = http.metrics(move || conversations(sessions.clone()));
        }
        let mut places = places(http.address(), is_encrypted);
        if let Some(flow) = &flow {
            places["webtransport"] = flow.url().into();
            places["certificateHash"] = flow.certificate_fingerprint().into();
        }
        let mut lines = Vec::new();
        if let Some(address) = file.serve.tcp {
            let bound = stdio::listen::tcp(address).await;
            let bound = bound.with_context(|| format!("cannot listen on TCP {address}"))?;
            places["tcp"] = bound.address().map(|address| address.to_string()).into();
            lines.push(bound);
        }
        if let Some(path) = &file.serve.unix {
            places["unix"] = path.display().to_string().into();
            let bound = stdio::listen::unix(path).await;
            let place = || format!("cannot make the Unix socket {}", path.display());
            lines.push(bound.with_context(place)?);
        }
        places["pid"] = std::process::id().into();
        // Now, and not with the first client: what was interrupted has waited long enough.
        if let Some(sessions) = &offered.sessions {
            sessions.engine().start_maintenance();
        }
        admin.describe(json!({"places": places, "store": offered.store}));
        announce(&places, self.json)?;
        let (stop, stopped) = watch::channel(false);
        let mut tasks = JoinSet::new();
        for bound in lines {
            let (server, stopped) = (server.clone(), until(stopped.clone()));
            tasks.spawn(async move { bound.serve(&server, stopped).await });
        }
        if let Some(flow) = flow {
            let (server, stopped) = (server.clone(), until(stopped.clone()));
            tasks.spawn(async move { flow.serve(&server, stopped).await });
        }
        tasks.spawn(async move { http.serve(&server, until(stopped)).await });
        let beside = tokio::spawn(async move {
            let fresh = async {
                match &verifier {
                    Some(verifier) => verifier.refresh_keys().await,
                    None => std::future::pending().await,
                }
            };
            tokio::join!(reload.run(hangup), fresh)
        });
        signal.await;
        beside.abort();
        stop.send_replace(true);
        tasks.join_all().await;
        if let Some(sessions) = &offered.sessions {
            sessions.engine().shutdown().await;
        }
        if let Some(audit) = audit {
            audit.close();
        }
        Ok(())
    }
}

/// What others can reach is encrypted and asks who they are, unless it is said that it need not.
pub(crate) fn refuse_open(file: &File) -> anyhow::Result<()> {
    let ServeSection { insecure, tls_certificate, listen, tcp, .. } = &file.serve;
    let is_open = |address: &SocketAddr| !address.ip().is_loopback();
    if let Some(open) = tcp.filter(is_open)
        && file.identity.is_configured()
    {
        anyhow::bail!(
            "the TCP address {open} can be reached by others, and newline-delimited JSON over TCP \
             carries no token to authenticate them by.\n\
             Use a loopback address or a Unix socket for it, or let others use HTTP."
        );
    }
    if *insecure {
        if let Some(open) = file.serve.open_addresses().next()
            && !file.identity.is_configured()
        {
            tracing::warn!("{open} can be reached by others, and authentication is disabled");
        }
        return Ok(());
    }
    let unencrypted = Some(*listen).filter(|_| tls_certificate.is_none());
    if let Some(open) = [unencrypted, *tcp].into_iter().flatten().find(is_open) {
        anyhow::bail!(
            "{open} can be reached by others, and what they send would not be encrypted.\n\
             Give a certificate with --tls-certificate and --tls-key, listen on 127.0.0.1, or \
             use --insecure if something else encrypts it, such as a proxy."
        );
    }
    if let Some(open) = file.serve.open_addresses().next()
        && !file.identity.is_configured()
        && !file.identity.anonymous
    {
        anyhow::bail!(
            "{open} can be reached by others, and authentication is disabled.\n\
             Configure it in [identity] (see docs/configuration.md), give tokens with --token-file, \
             or set identity.anonymous = true to let everyone in."
        );
    }
    if file.identity.anonymous
        && file.offer.interaction
        && file.serve.open_addresses().next().is_some()
    {
        tracing::warn!(
            "identity.anonymous lets everyone in as one principal, so all see and answer each \
             other's conversations; set offer.interaction = false, or give out tokens"
        );
    }
    Ok(())
}

/// The console, which tells browsers by which certificate they know the server; in a debug build
/// from a folder, if that is named, so that it can be worked on.
fn console(tls: Option<Arc<Tls>>) -> Console {
    let console = Console::default().connect(move || match &tls {
        Some(tls) => {
            // One that others vouch for is not known by its hash, and may not be.
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

/// Takes one port number for TCP and UDP. Where any will do, one is looked for that is free for
/// both.
async fn bind(
    address: SocketAddr,
    tls: Option<&Arc<Tls>>,
) -> anyhow::Result<(http::Bound, Option<webtransport::Bound>)> {
    let mut tries = if address.port() == 0 { 16 } else { 1 };
    loop {
        tries -= 1;
        let http = http::bind(address).await?;
        let Some(tls) = tls else { return Ok((http, None)) };
        match webtransport::bind(http.address(), tls.clone()) {
            Ok(flow) => return Ok((http, Some(flow))),
            Err(_) if tries > 0 => {}
            Err(error) => {
                anyhow::bail!("{error}. Say --no-webtransport if it is not needed");
            }
        }
    }
}

/// Completes when everything is to end.
async fn until(mut stopped: watch::Receiver<bool>) {
    // It cannot fail: the sender is kept until all have ended.
    let _ = stopped.wait_for(|stopped| *stopped).await;
}

/// Where everything is that HTTP carries.
fn places(address: SocketAddr, is_encrypted: bool) -> Value {
    let s = if is_encrypted { "s" } else { "" };
    json!({
        "http": format!("http{s}://{address}/"),
        "mcp": format!("http{s}://{address}/mcp"),
        "sse": format!("http{s}://{address}/sse"),
        "websocket": format!("ws{s}://{address}/ws"),
    })
}

/// Says that everything is ready: to people on standard error, to programs on standard output.
fn announce(places: &Value, as_json: bool) -> anyhow::Result<()> {
    if as_json {
        return print_line(places);
    }
    eprintln!("mcp-flow is ready; ctrl-c ends it.");
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
        if let Some(place) = places[name].as_str() {
            eprintln!("  {title:<16} {place}");
        }
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "no client speaks on standard output here")]
fn print_line(line: &Value) -> anyhow::Result<()> {
    use std::io::Write;
    let mut out = std::io::stdout();
    writeln!(out, "{line}").and_then(|()| out.flush()).context("standard output is closed")
}
