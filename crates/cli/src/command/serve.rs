//! `mcp-flow serve`: one port for every client that speaks HTTP or WebTransport.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use mcp_flow::admin::Admin;
use mcp_flow::console::Console;
use mcp_flow::http::{self, Tls, Tokens};
use mcp_flow::{Principal, stdio, webtransport};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::figures::Conversations;
use crate::offer::Offer;
use crate::workflows;

/// Serve clients over Streamable HTTP, HTTP+SSE, WebSocket and WebTransport on one port
#[derive(Debug, clap::Args)]
pub(crate) struct Serve {
    /// Where to listen; port 0 picks a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:4433")]
    listen: SocketAddr,

    /// Print where everything is, as one line of JSON, when ready
    #[arg(long)]
    json: bool,

    /// Listen on an address others can reach without encryption
    #[arg(long)]
    insecure: bool,

    /// Encrypt with the certificate chain in this PEM file; it may be renewed while running
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_certificate: Option<PathBuf>,

    /// The private key of the certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_key: Option<PathBuf>,

    /// Let only those in whose token is in this file: one name:token a line
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

    #[command(flatten)]
    offer: Offer,
}

impl Default for Serve {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 4433)),
            json: false,
            insecure: false,
            tls_certificate: None,
            tls_key: None,
            token_file: None,
            admins: Vec::new(),
            no_console: false,
            hosts: Vec::new(),
            origins: Vec::new(),
            public_url: None,
            no_webtransport: false,
            tcp: None,
            unix: None,
            offer: Offer::default(),
        }
    }
}

impl Serve {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let unencrypted = Some(self.listen).filter(|_| self.tls_certificate.is_none());
        let addresses = [unencrypted, self.tcp];
        let open = addresses.into_iter().flatten().find(|address| !address.ip().is_loopback());
        if let Some(open) = open.filter(|_| !self.insecure) {
            anyhow::bail!(
                "{open} can be reached by others, and what they send would not be encrypted.\n\
                 Give a certificate with --tls-certificate and --tls-key, listen on 127.0.0.1, or \
                 say --insecure if something else encrypts it, such as a proxy."
            );
        }
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(self.serve())?;
        Ok(ExitCode::SUCCESS)
    }

    /// Everyone on this machine may look after a server that asks nobody who they are; otherwise
    /// only those who are named may.
    fn admin(&self, asks_nobody: bool) -> Admin {
        let addresses = [Some(self.listen), self.tcp];
        let is_private = addresses.into_iter().flatten().all(|address| address.ip().is_loopback());
        let everyone = asks_nobody && is_private;
        let admins = self.admins.clone();
        Admin::new(move |principal| {
            let is_local = *principal == Principal::local();
            (everyone && is_local) || admins.iter().any(|name| name == principal.name())
        })
    }

    /// Takes all addresses before it serves any, so that what cannot be had is known at once.
    async fn serve(self) -> anyhow::Result<()> {
        let tokens = self.token_file.as_deref().map(Tokens::read).transpose()?;
        let offered = self.offer.server(false)?;
        let admin = self.admin(tokens.is_none());
        let admin = match &offered.sessions {
            Some(sessions) => admin.sessions_of(sessions),
            None => admin,
        };
        let server = admin.add_to(offered.server).build()?;
        let _following = workflows::follow(&offered.workflows, &server);
        let signal = stdio::stop_signal().context("signals cannot be watched")?;
        let tls = match (&self.tls_certificate, &self.tls_key) {
            (Some(certificate), Some(key)) => Tls::from_pem(certificate, key)?,
            _ => Tls::self_made(&self.hosts)?,
        };
        let tls = Arc::new(tls);
        let (http, flow) = bind(self.listen, (!self.no_webtransport).then_some(&tls)).await?;
        let options = http::Options {
            hosts: self.hosts.clone(),
            origins: self.origins.clone(),
            public_url: self.public_url,
            ..http::Options::default()
        };
        let mut http = http.options(options);
        let mut flow = flow.map(|flow| {
            let (hosts, origins) = (self.hosts, self.origins);
            flow.options(webtransport::Options { hosts, origins, ..Default::default() })
        });
        if let Some(tokens) = tokens {
            http = http.tokens(tokens.clone());
            flow = flow.map(|flow| flow.tokens(tokens));
        }
        let is_encrypted = self.tls_certificate.is_some();
        if is_encrypted {
            http = http.tls(tls.clone())?;
        }
        if !self.no_console {
            http = http.pages(console(flow.as_ref().map(|_| tls)));
        }
        if let Some(sessions) = &offered.sessions {
            http = http.figures(Conversations(sessions.clone()));
        }
        let mut places = places(http.address(), is_encrypted);
        if let Some(flow) = &flow {
            places["webtransport"] = flow.url().into();
            places["certificateHash"] = flow.certificate_hash().into();
        }
        let mut lines = Vec::new();
        if let Some(address) = self.tcp {
            let bound = stdio::listen::tcp(address).await;
            let bound = bound.with_context(|| format!("cannot listen on TCP {address}"))?;
            places["tcp"] = bound.address().map(|address| address.to_string()).into();
            lines.push(bound);
        }
        if let Some(path) = &self.unix {
            places["unix"] = path.display().to_string().into();
            let bound = stdio::listen::unix(path).await;
            let place = || format!("cannot make the Unix socket {}", path.display());
            lines.push(bound.with_context(place)?);
        }
        // Now, and not with the first client: what was interrupted has waited long enough.
        if let Some(sessions) = &offered.sessions {
            sessions.engine().run();
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
        signal.await;
        stop.send_replace(true);
        tasks.join_all().await;
        if let Some(sessions) = &offered.sessions {
            sessions.engine().shutdown().await;
        }
        Ok(())
    }
}

/// The console, which tells browsers by which certificate they know the server; in a debug build
/// from a folder, if that is named, so that it can be worked on.
fn console(tls: Option<Arc<Tls>>) -> Console {
    let console = Console::default().connect(move || match &tls {
        Some(tls) => {
            // One that others vouch for is not known by its hash, and may not be.
            let hashes = tls.is_self_made().then(|| tls.hash());
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
                let hint = "say --no-webtransport if it is not needed";
                return Err(error).context(hint);
            }
        }
    }
}

/// Origins are compared as browsers send them, so anything else would never match.
fn origin(text: &str) -> Result<String, String> {
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let is_host = |host: &str| !host.is_empty() && !host.contains(['/', '?', '#', '@', '*', ' ']);
    match host {
        Some(host) if is_host(host) => Ok(text.to_owned()),
        _ => Err("write scheme, host and port as a browser does: https://app.example:8443".into()),
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
        "pid": std::process::id(),
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

#[cfg(test)]
mod tests {
    /// MCP-049: an origin that no browser would send is a mistake, and no wildcard lets all in.
    #[test]
    fn origins_are_written_as_browsers_do() {
        for good in ["https://app.example", "http://localhost:5173", "http://[::1]:80"] {
            assert_eq!(super::origin(good).as_deref(), Ok(good));
        }
        for bad in ["", "app.example", "https://", "https://app.example/", "*", "https://*", "null"]
        {
            assert!(super::origin(bad).is_err(), "{bad}");
        }
    }
}
