//! `[serve]`: addresses, TLS, hosts and origins of `mcp-flow serve`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use mcp_flow::http::{BadServerCard, ServerCard};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Problems, resolve_path};
use crate::exit::{Exit, Failure};
use crate::server::cluster::parse_node_url;

/// Addresses, TLS, hosts and origins of `mcp-flow serve`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ServeSection {
    /// Address for HTTP (TCP) and WebTransport (UDP); port 0 selects a free one.
    pub(crate) listen: SocketAddr,
    /// Allow a public address without TLS and authentication, for example behind a proxy that
    /// provides both.
    pub(crate) insecure: bool,
    /// PEM file with the certificate chain; needs `tls_key`. Both are reloaded when they change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tls_certificate: Option<PathBuf>,
    /// PEM file with the private key of the certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Host names to accept besides those of this machine. Without any, a public address accepts
    /// all names, a loopback address only those.
    pub(crate) hosts: Vec<String>,
    /// Web origins that may access the server from a browser, for example `https://app.example`.
    pub(crate) allow_origins: Vec<String>,
    /// Public URL of the server, for links of flows, and download links behind a proxy. Default: the
    /// host of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) public_url: Option<String>,
    /// URL at which other nodes with the same session store reach this one (`docs/cluster.md`).
    /// Default: the address, unless it is a wildcard.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) node_url: Option<String>,
    /// Server card (experimental): describes the server to clients that have not connected yet, at
    /// `/mcp/server-card`. Needs `public_url`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) server_card: Option<CardEntry>,
    /// Serve the web console at `/`.
    pub(crate) console: bool,
    /// Serve WebTransport on the UDP port.
    pub(crate) webtransport: bool,
    /// Address for newline-delimited JSON over TCP; clients there are the principal `local`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tcp: Option<SocketAddr>,
    /// Path of a Unix socket for newline-delimited JSON; clients there are the principal `local`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) unix: Option<PathBuf>,
    /// Seconds that running calls have to finish after a stop signal.
    #[schemars(range(min = 0, max = 86_400))]
    pub(crate) drain_seconds: u64,
}

impl Default for ServeSection {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 4433)),
            insecure: false,
            tls_certificate: None,
            tls_key: None,
            hosts: Vec::new(),
            allow_origins: Vec::new(),
            public_url: None,
            node_url: None,
            server_card: None,
            console: true,
            webtransport: true,
            tcp: None,
            unix: None,
            drain_seconds: 30,
        }
    }
}

impl ServeSection {
    pub(super) fn check(&self, problems: &mut Problems<'_>) {
        if self.tls_certificate.is_some() != self.tls_key.is_some() {
            let given = if self.tls_key.is_some() { "tls_key" } else { "tls_certificate" };
            let problem = "set both serve.tls_certificate and serve.tls_key";
            problems.add(&["serve", given], problem);
        }
        if self.drain_seconds > MAX_DRAIN_SECONDS {
            let problem = format!("serve.drain_seconds must be at most {MAX_DRAIN_SECONDS}");
            problems.add(&["serve", "drain_seconds"], problem);
        }
        if let Some(url) = &self.node_url
            && let Err(problem) = parse_node_url(url)
        {
            problems.add(&["serve", "node_url"], format!("serve.node_url: {problem}"));
        }
        if let Some(card) = &self.server_card
            && let Err(problem) = card.card()
        {
            problems.add(&["serve", "server_card"], format!("serve.server_card: {problem}"));
        }
        for (index, text) in self.allow_origins.iter().enumerate() {
            if let Err(problem) = origin(text) {
                let problem = format!("serve.allow_origins: {problem}");
                problems.add(&["serve", "allow_origins", &index.to_string()], problem);
            }
        }
    }

    pub(super) fn resolve(&mut self, folder: &Path) {
        let paths = [&mut self.tls_certificate, &mut self.tls_key, &mut self.unix];
        paths.into_iter().flatten().for_each(|path| resolve_path(path, folder));
    }

    /// Returns the server card to serve, if there is one.
    pub(crate) fn card(&self) -> anyhow::Result<Option<ServerCard>> {
        let Some(entry) = &self.server_card else { return Ok(None) };
        if self.public_url.is_none() {
            let problem = "serve.server_card needs the URL that clients use: set serve.public_url \
                           or --public-url";
            return Err(Failure::new(Exit::Usage, problem.to_owned()).into());
        }
        Ok(Some(entry.card()?))
    }

    /// Returns the addresses that other machines may reach.
    pub(crate) fn public_addresses(&self) -> impl Iterator<Item = SocketAddr> {
        let all = [Some(self.listen), self.tcp].into_iter().flatten();
        all.filter(|address| !address.ip().is_loopback())
    }
}

/// Server card.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CardEntry {
    /// Name of the server in reverse-DNS notation, for example `com.example/flow`.
    name: String,
    /// Description, at most 100 characters.
    description: String,
    /// Display name, at most 100 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    title: Option<String>,
}

impl CardEntry {
    pub(crate) fn card(&self) -> Result<ServerCard, BadServerCard> {
        let card = ServerCard::new(&self.name, &self.description)?;
        match &self.title {
            Some(title) => card.title(title),
            None => Ok(card),
        }
    }
}

/// Parses a socket address.
pub(crate) fn socket_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "use IP:PORT, for example 127.0.0.1:4433".to_owned())
}

/// Parses an origin in the form that browsers send, since no other would ever match.
pub(crate) fn origin(text: &str) -> Result<String, String> {
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let is_host = |host: &str| !host.is_empty() && !host.contains(['/', '?', '#', '@', '*', ' ']);
    match host {
        Some(host) if is_host(host) => Ok(text.to_owned()),
        _ => Err("use scheme, host and port, for example https://app.example:8443".into()),
    }
}

const MAX_DRAIN_SECONDS: u64 = 86_400;

#[cfg(test)]
mod tests {
    /// MCP-049: an origin that no browser sends is rejected, and there is no wildcard.
    #[test]
    fn origins_have_the_form_that_browsers_send() {
        for good in ["https://app.example", "http://localhost:5173", "http://[::1]:80"] {
            assert_eq!(super::origin(good).as_deref(), Ok(good));
        }
        for bad in ["", "app.example", "https://", "https://app.example/", "*", "https://*", "null"]
        {
            assert!(super::origin(bad).is_err(), "{bad}");
        }
    }
}
