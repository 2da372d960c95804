//! `[serve]`: addresses, TLS, hosts and origins of `mcp-flow serve`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Problems, resolve_path};

/// Addresses, TLS, hosts and origins of `mcp-flow serve`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ServeSection {
    /// Address for HTTP (TCP) and WebTransport (UDP); port 0 selects a free one.
    pub(crate) listen: SocketAddr,
    /// Allow a public address without TLS and authentication.
    pub(crate) insecure: bool,
    /// PEM file with the certificate chain; reloaded when it changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tls_certificate: Option<PathBuf>,
    /// PEM file with the private key of the certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Host names to accept besides those of this machine.
    pub(crate) hosts: Vec<String>,
    /// Web origins that may access the server from a browser, for example `https://app.example`.
    pub(crate) allow_origins: Vec<String>,
    /// Public URL of the server, for download links behind a proxy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) public_url: Option<String>,
    /// Serve the web console at `/`.
    pub(crate) console: bool,
    /// Serve WebTransport on the UDP port.
    pub(crate) webtransport: bool,
    /// Address for newline-delimited JSON over TCP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tcp: Option<SocketAddr>,
    /// Path of a Unix socket for newline-delimited JSON.
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
        if self.drain_seconds > LONGEST_DRAIN {
            let problem = format!("serve.drain_seconds must be at most {LONGEST_DRAIN}");
            problems.add(&["serve", "drain_seconds"], problem);
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

    /// Returns the addresses that other machines may reach.
    pub(crate) fn public_addresses(&self) -> impl Iterator<Item = SocketAddr> {
        let all = [Some(self.listen), self.tcp].into_iter().flatten();
        all.filter(|address| !address.ip().is_loopback())
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

const LONGEST_DRAIN: u64 = 86_400;

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
